// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

const (
	// kubeadm's own defaults, which apply where a field is left out.
	kubeadmCADays, kubeadmLeafDays = 3650, 365

	// leastReplicasWithoutSurge keeps a majority of etcd members while one machine
	// is deleted before its replacement exists.
	leastReplicasWithoutSurge = 3
)

// DefaultKubeadmControlPlane sets what the user left out.
func DefaultKubeadmControlPlane(c, old *controlplanev1.KubeadmControlPlane) {
	if old == nil {
		controllerutil.AddFinalizer(c, controlplanev1.KubeadmControlPlaneFinalizer)
	}
	c.Spec.Replicas = cmp.Or(c.Spec.Replicas, new(int32(1)))
	c.Spec.Version = fieldvalidation.NormalVersion(c.Spec.Version)
	defaultStrategy(&c.Spec.Rollout.Strategy)
}

func defaultStrategy(s *controlplanev1.KubeadmControlPlaneRolloutStrategy) {
	s.Type = cmp.Or(s.Type, controlplanev1.RollingUpdateStrategyType)
	if s.Type == controlplanev1.RollingUpdateStrategyType && s.RollingUpdate.MaxSurge == nil {
		s.RollingUpdate.MaxSurge = new(intstr.FromInt32(1))
	}
}

// ValidateKubeadmControlPlane returns the errors in a KubeadmControlPlane.
func ValidateKubeadmControlPlane(c, old *controlplanev1.KubeadmControlPlane) field.ErrorList {
	spec := field.NewPath("spec")
	machine := spec.Child("machineTemplate")
	errs := validateReplicas(spec.Child("replicas"), c.Spec.Replicas, c.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd)
	errs = append(errs, fieldvalidation.Version(spec.Child("version"), c.Spec.Version)...)
	errs = append(errs, validateReference(machine.Child("spec", "infrastructureRef"), c.Spec.MachineTemplate.Spec.InfrastructureRef)...)
	errs = append(errs, fieldvalidation.Metadata(machine.Child("metadata"), c.Spec.MachineTemplate.ObjectMeta)...)
	errs = append(errs, fieldvalidation.Taints(machine.Child("spec", "taints"), c.Spec.MachineTemplate.Spec.Taints, true)...)
	if old == nil || !equality.Semantic.DeepEqual(c.Spec.MachineTemplate.Spec.ReadinessGates, old.Spec.MachineTemplate.Spec.ReadinessGates) {
		errs = append(errs, validateReadinessGates(machine.Child("spec", "readinessGates"), c)...)
	}
	errs = append(errs, validateRollout(spec.Child("rollout"), c.Spec.Rollout, c.Spec.Replicas)...)
	errs = append(errs, fieldvalidation.MachineName(spec.Child("machineNaming", "template"), c.Spec.MachineNaming.Template, "kubeadmControlPlane")...)
	errs = append(errs, validateControlPlaneConfig(spec.Child("kubeadmConfigSpec"), &c.Spec.KubeadmConfigSpec, spec.Child("rollout"), c.Spec.Rollout)...)
	was := ""
	if old != nil {
		was = old.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag
		errs = append(errs, validateVersionChange(spec.Child("version"), c, old.Spec.Version)...)
		errs = append(errs, validateChange(spec, c, old)...)
	}
	return append(errs, validateDNSVersion(spec, c.Annotations, c.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag, was)...)
}

// ValidateScale returns the errors in a scale request for a KubeadmControlPlane.
func ValidateScale(s *autoscalingv1.Scale, c *controlplanev1.KubeadmControlPlane) field.ErrorList {
	errs := validateReplicas(field.NewPath("spec", "replicas"), &s.Spec.Replicas, c.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd)
	return append(errs, validateRollout(field.NewPath("spec", "rollout"), c.Spec.Rollout, &s.Spec.Replicas)...)
}

// ValidateKubeadmControlPlaneTemplate returns the errors in a
// KubeadmControlPlaneTemplate.
func ValidateKubeadmControlPlaneTemplate(t, old *controlplanev1.KubeadmControlPlaneTemplate) field.ErrorList {
	spec := field.NewPath("spec", "template", "spec")
	inner := &t.Spec.Template.Spec
	errs := fieldvalidation.Metadata(field.NewPath("spec", "template", "metadata"), t.Spec.Template.ObjectMeta)
	errs = append(errs, fieldvalidation.Metadata(spec.Child("machineTemplate", "metadata"), inner.MachineTemplate.ObjectMeta)...)
	errs = append(errs, validateRollout(spec.Child("rollout"), inner.Rollout, nil)...)
	errs = append(errs, fieldvalidation.Taints(spec.Child("machineTemplate", "spec", "taints"), inner.MachineTemplate.Spec.Taints, true)...)
	errs = append(errs, fieldvalidation.MachineName(spec.Child("machineNaming", "template"), inner.MachineNaming.Template, "kubeadmControlPlane")...)
	errs = append(errs, validateControlPlaneConfig(spec.Child("kubeadmConfigSpec"), &inner.KubeadmConfigSpec, spec.Child("rollout"), inner.Rollout)...)
	if old == nil { // else it cannot change
		errs = append(errs, validateDNSVersion(spec, t.Spec.Template.ObjectMeta.Annotations, inner.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag, "")...)
	}
	if old != nil && !equality.Semantic.DeepEqual(meant(t), meant(old)) {
		errs = append(errs, field.Forbidden(spec, "cannot change; create another template and refer to that one"))
	}
	return errs
}

// meant returns the spec of a template with defaults and zero values normalized:
// upstream stores them, and a manifest that is applied again does not contain them.
func meant(t *controlplanev1.KubeadmControlPlaneTemplate) *controlplanev1.KubeadmControlPlaneTemplateResourceSpec {
	spec := t.Spec.Template.Spec.DeepCopy()
	defaultStrategy(&spec.Rollout.Strategy)
	if retry := spec.Remediation.RetryPeriodSeconds; retry != nil && *retry == 0 {
		spec.Remediation.RetryPeriodSeconds = nil
	}
	kubeadm.Normalize(&spec.KubeadmConfigSpec)
	return spec
}

func validateReplicas(at *field.Path, replicas *int32, etcd bootstrapv1.Etcd) field.ErrorList {
	switch {
	case replicas == nil:
		return field.ErrorList{field.Required(at, "how many machines the control plane has, such as 3")}
	case *replicas <= 0:
		return field.ErrorList{field.Forbidden(at, "a control plane cannot be scaled to zero; delete the Cluster instead")}
	case *replicas%2 == 0 && !isExternal(etcd):
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%d is even: etcd on the machines needs an odd number, or use external etcd", *replicas))}
	}
	return nil
}

func isExternal(etcd bootstrapv1.Etcd) bool { return len(etcd.External.Endpoints) > 0 }

func isLocal(etcd bootstrapv1.Etcd) bool {
	return !equality.Semantic.DeepEqual(etcd.Local, bootstrapv1.LocalEtcd{})
}

func validateReference(at *field.Path, ref clusterv1.ContractVersionedObjectReference) (errs field.ErrorList) {
	for _, part := range []struct{ name, value string }{{"apiGroup", ref.APIGroup}, {"kind", ref.Kind}, {"name", ref.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(at.Child(part.name), "of the template that machines are made from"))
		}
	}
	return errs
}

// validateReadinessGates requires that the gates and those of every control plane
// machine together do not exceed the limit of a Machine.
func validateReadinessGates(at *field.Path, c *controlplanev1.KubeadmControlPlane) field.ErrorList {
	const most = controlplane.MaxReadinessGates
	own := len(c.Spec.MachineTemplate.Spec.ReadinessGates)
	if more := len(controlplane.ReadinessGates(c)) - most; more > 0 {
		return field.ErrorList{field.Invalid(at, own, fmt.Sprintf("must have at most %d items: a Machine has at most %d readiness gates, of which the components of a control plane need the others", own-more, most))}
	}
	return nil
}

func validateRollout(at *field.Path, r controlplanev1.KubeadmControlPlaneRolloutSpec, replicas *int32) field.ErrorList {
	surge := r.Strategy.RollingUpdate.MaxSurge
	maxSurge := at.Child("strategy", "rollingUpdate", "maxSurge")
	switch {
	case surge == nil:
		return nil
	case surge.IntValue() != 0 && surge.IntValue() != 1: // text that is not a number is 0, as upstream
		return field.ErrorList{field.Invalid(maxSurge, surge.String(), "must be 0 or 1")}
	case surge.IntValue() == 0 && replicas != nil && *replicas < leastReplicasWithoutSurge:
		return field.ErrorList{field.Invalid(maxSurge, surge.String(), fmt.Sprintf("must be 1 with %d replicas: 0 needs at least %d", *replicas, leastReplicasWithoutSurge))}
	}
	return nil
}

// imageTag is the format of an image tag in a registry.
var imageTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`) })

func validateTag(at *field.Path, tag string) field.ErrorList {
	if tag != "" && !imageTag().MatchString(tag) {
		return field.ErrorList{field.Invalid(at, tag, "must be the tag of an image, such as v1.12.0")}
	}
	return nil
}

// validateControlPlaneConfig returns the errors in the configuration of control
// plane machines, by itself and combined with the rollout settings.
func validateControlPlaneConfig(at *field.Path, spec *bootstrapv1.KubeadmConfigSpec, rolloutAt *field.Path, rollout controlplanev1.KubeadmControlPlaneRolloutSpec) field.ErrorList {
	cluster, in := at.Child("clusterConfiguration"), &spec.ClusterConfiguration
	errs := validateConfig(at, spec)
	errs = append(errs, validateTag(cluster.Child("dns", "imageTag"), in.DNS.ImageTag)...)
	errs = append(errs, validateTag(cluster.Child("etcd", "local", "imageTag"), in.Etcd.Local.ImageTag)...)
	if isLocal(in.Etcd) && isExternal(in.Etcd) {
		errs = append(errs, field.Forbidden(cluster.Child("etcd"), "has both local and external; leave one of them out"))
	}
	leaf, ca := cmp.Or(in.CertificateValidityPeriodDays, kubeadmLeafDays), cmp.Or(in.CACertificateValidityPeriodDays, kubeadmCADays)
	if leaf > ca {
		errs = append(errs, field.Invalid(cluster.Child("certificateValidityPeriodDays"), leaf, fmt.Sprintf("must not be more than the %d days that the certificate authority is valid", ca)))
	}
	if days := rollout.Before.CertificatesExpiryDays; days >= leaf {
		errs = append(errs, field.Invalid(rolloutAt.Child("before", "certificatesExpiryDays"), days, fmt.Sprintf("must be less than the %d days that certificates are valid", leaf)))
	}
	first, joining := spec.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds, spec.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds
	if !equality.Semantic.DeepEqual(first, joining) {
		errs = append(errs, field.Invalid(at.Child("joinConfiguration", "timeouts", "controlPlaneComponentHealthCheckSeconds"), joining, "must be the same in initConfiguration and joinConfiguration"))
	}
	return errs
}

// validateVersionChange requires that an upgrade skips no minor version, and
// refuses an accidental downgrade. As in the topology of a Cluster, a lower patch
// version is a downgrade too: it may undo a fix to the stored data.
func validateVersionChange(at *field.Path, c *controlplanev1.KubeadmControlPlane, old string) field.ErrorList {
	version := c.Spec.Version
	to, errTo := semver.Parse(strings.TrimPrefix(version, "v"))
	from, errFrom := semver.Parse(strings.TrimPrefix(old, "v"))
	if errTo != nil || errFrom != nil {
		return nil // another check reports the format, and the user cannot correct the stored version
	}
	allowed := fieldvalidation.NormalVersion(c.Annotations[controlplanev1.AllowDowngradeAnnotation])
	switch {
	case to.Major > from.Major || to.Major == from.Major && to.Minor > from.Minor+1:
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("cannot go from %s to %s: upgrade one minor version at a time", old, version))}
	case to.LT(from) && allowed != version:
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("cannot go back from %s to %s, which may not read what the newer one has stored: if it must be, set the annotation %s: %s",
			old, version, controlplanev1.AllowDowngradeAnnotation, version))}
	}
	return nil
}
