// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"fmt"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// ValidateClass returns the errors in a ClusterClass itself, regardless of the
// Clusters that use it.
func ValidateClass(class, old *clusterv1.ClusterClass) field.ErrorList {
	spec := field.NewPath("spec")
	old = cmp.Or(old, &clusterv1.ClusterClass{})
	errs := templates(class, old)
	errs = append(errs, desired.CheckNameTemplate(spec.Child("infrastructure", "naming", "template"), class.Spec.Infrastructure.Naming.Template, desired.NameOfCluster)...)
	errs = append(errs, controlPlaneClass(spec.Child("controlPlane"), &class.Spec.ControlPlane)...)
	errs = append(errs, workerClasses(spec.Child("workers"), &class.Spec.Workers)...)
	errs = append(errs, variables.Check(spec.Child("variables"), class.Spec.Variables, old.Spec.Variables)...)
	errs = append(errs, classPatches(spec.Child("patches"), class)...)
	errs = append(errs, versions(spec.Child("kubernetesVersions"), class.Spec.KubernetesVersions)...)
	if old.Name != "" {
		for _, difference := range classrefs.Compatible(class, old) {
			errs = append(errs, field.Forbidden(spec, difference+"; Clusters of the class could not follow: make another class"))
		}
	}
	return errs
}

// templates requires that each reference is to a template of the right kind. An
// unchanged reference is not checked: a stored class must stay editable.
func templates(class, old *clusterv1.ClusterClass) (errs field.ErrorList) {
	before := map[clusterv1.ClusterClassTemplateReference]bool{}
	for _, t := range classrefs.All(old) {
		before[t.Ref] = true
	}
	for _, t := range classrefs.All(class) {
		if before[t.Ref] {
			continue
		}
		if err := t.Role.Template(t.Ref.GroupVersionKind().GroupKind()); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(t.Field), t.Ref.Kind+"."+t.Ref.GroupVersionKind().Group, err.Error()))
		}
	}
	return errs
}

func controlPlaneClass(at *field.Path, c *clusterv1.ControlPlaneClass) field.ErrorList {
	errs := fieldvalidation.Metadata(at.Child("metadata"), c.Metadata)
	errs = append(errs, desired.CheckNameTemplate(at.Child("naming", "template"), c.Naming.Template, desired.NameOfCluster)...)
	errs = append(errs, fieldvalidation.Taints(at.Child("taints"), c.Taints, true)...)
	check := at.Child("healthCheck")
	if defined(c.HealthCheck.Checks, c.HealthCheck.Remediation.TriggerIf, c.HealthCheck.Remediation.TemplateRef) && !c.MachineInfrastructure.TemplateRef.IsDefined() {
		errs = append(errs, field.Forbidden(check, "needs machineInfrastructure: without it there are no Machines of the control plane to check"))
	}
	errs = append(errs, fieldvalidation.HealthCheck(check, c.HealthCheck.Checks, c.HealthCheck.Remediation.TriggerIf)...)
	return append(errs, remediation(check, c.HealthCheck.Remediation.TemplateRef)...)
}

// defined reports whether any field of a health check is set.
func defined(checks clusterv1.MachineHealthCheckChecks, trigger clusterv1.MachineHealthCheckRemediationTriggerIf, ref clusterv1.MachineHealthCheckRemediationTemplateReference) bool {
	check := clusterv1.ControlPlaneTopologyHealthCheck{Checks: checks}
	check.Remediation.TriggerIf, check.Remediation.TemplateRef = trigger, ref
	return check.IsDefined()
}

func remediation(check *field.Path, ref clusterv1.MachineHealthCheckRemediationTemplateReference) field.ErrorList {
	if !ref.IsDefined() {
		return nil
	}
	if err := reference.Remediation.Template(ref.GroupVersionKind().GroupKind()); err != nil {
		return field.ErrorList{field.Invalid(check.Child("remediation", "templateRef"), ref.Kind+"."+ref.GroupVersionKind().Group, err.Error())}
	}
	return nil
}

func workerClasses(at *field.Path, w *clusterv1.WorkersClass) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i := range w.MachineDeployments {
		md := &w.MachineDeployments[i]
		here := at.Child("machineDeployments").Key(md.Class)
		if seen[md.Class] {
			errs = append(errs, field.Duplicate(here.Child("class"), md.Class))
		}
		seen[md.Class] = true
		errs = append(errs, fieldvalidation.Metadata(here.Child("metadata"), md.Metadata)...)
		errs = append(errs, desired.CheckNameTemplate(here.Child("naming", "template"), md.Naming.Template, desired.NameOfMachineDeployment)...)
		errs = append(errs, fieldvalidation.Taints(here.Child("taints"), md.Taints, false)...)
		errs = append(errs, fieldvalidation.RolloutStrategy(here.Child("rollout", "strategy"), md.Rollout.Strategy)...)
		errs = append(errs, deploymentCheck(here.Child("healthCheck"), md.HealthCheck.Checks, md.HealthCheck.Remediation)...)
	}
	seen = map[string]bool{}
	for i := range w.MachinePools {
		mp := &w.MachinePools[i]
		here := at.Child("machinePools").Key(mp.Class)
		if seen[mp.Class] {
			errs = append(errs, field.Duplicate(here.Child("class"), mp.Class))
		}
		seen[mp.Class] = true
		errs = append(errs, fieldvalidation.Metadata(here.Child("metadata"), mp.Metadata)...)
		errs = append(errs, desired.CheckNameTemplate(here.Child("naming", "template"), mp.Naming.Template, desired.NameOfMachinePool)...)
		errs = append(errs, poolTaints(here, mp.Taints)...)
	}
	return errs
}

func deploymentCheck(at *field.Path, checks clusterv1.MachineHealthCheckChecks, r clusterv1.MachineDeploymentTopologyHealthCheckRemediation) field.ErrorList {
	errs := fieldvalidation.HealthCheck(at, checks, r.TriggerIf)
	errs = append(errs, fieldvalidation.Amount(at.Child("remediation", "maxInFlight"), r.MaxInFlight)...)
	return append(errs, remediation(at, r.TemplateRef)...)
}

func poolTaints(at *field.Path, taints []clusterv1.MachineTaint) field.ErrorList {
	if len(taints) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("taints"), "the provider of a pool makes its machines and knows nothing of taints; set them in the bootstrap config")}
}

// versions requires a list that upgrades can follow: ascending, without skipping a
// minor version. Builds of one version may follow each other.
func versions(at *field.Path, list []string) (errs field.ErrorList) {
	var last *semver.Version
	for i, text := range list {
		found := fieldvalidation.Version(at.Index(i), text)
		if errs = append(errs, found...); len(found) > 0 {
			continue
		}
		v := semver.MustParse(text[1:])
		switch {
		case last == nil:
		case v.Compare(*last) < 0, v.Compare(*last) == 0 && v.String() == last.String():
			errs = append(errs, field.Invalid(at.Index(i), text, fmt.Sprintf("must be higher than v%s, which is before it", last)))
		case v.Major != last.Major || v.Minor > last.Minor+1:
			errs = append(errs, field.Invalid(at.Index(i), text, fmt.Sprintf("leaves out a minor version after v%s: an upgrade goes through each", last)))
		}
		last = &v
	}
	return errs
}
