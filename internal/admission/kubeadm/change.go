// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/coredns/corefile-migration/migration"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// mayChange lists the fields in the spec of a control plane that can change,
// including all fields below each. All other fields stay as they were when the
// first machine was created: machines with other values could not join the control
// plane.
var mayChange = slices.Concat(
	[]string{"replicas", "version", "machineTemplate", "rollout", "remediation", "machineNaming"},
	below("kubeadmConfigSpec", "files", "diskSetup", "mounts", "bootCommands", "preKubeadmCommands", "postKubeadmCommands",
		"users", "ntp", "format", "verbosity", "ignition"),
	below("kubeadmConfigSpec.clusterConfiguration", "etcd", "apiServer", "controllerManager", "scheduler", "dns",
		"imageRepository", "featureGates", "certificateValidityPeriodDays", "encryptionAlgorithm"),
	below("kubeadmConfigSpec.initConfiguration", "bootstrapTokens", "nodeRegistration", "localAPIEndpoint", "skipPhases", "patches", "timeouts"),
	below("kubeadmConfigSpec.joinConfiguration", "nodeRegistration", "caCertPath", "discovery", "controlPlane", "skipPhases", "patches", "timeouts"),
)

func below(path string, fields ...string) (all []string) {
	for _, f := range fields {
		all = append(all, path+"."+f)
	}
	return all
}

// validateChange requires that only fields in mayChange change, and to values that
// running machines can follow.
func validateChange(spec *field.Path, c, old *controlplanev1.KubeadmControlPlane) field.ErrorList {
	now, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Spec)
	if err != nil {
		return field.ErrorList{field.InternalError(spec, err)}
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&old.Spec)
	if err != nil {
		return field.ErrorList{field.InternalError(spec, err)}
	}
	var errs field.ErrorList
	for _, path := range fixed("", before, now) {
		errs = append(errs, field.Forbidden(spec.Child(path), "cannot change: what runs was made with it; create another Cluster instead"))
	}
	config, was := c.Spec.KubeadmConfigSpec.ClusterConfiguration, old.Spec.KubeadmConfigSpec.ClusterConfiguration
	at := spec.Child("kubeadmConfigSpec", "clusterConfiguration")
	if isExternal(config.Etcd) != isExternal(was.Etcd) {
		errs = append(errs, field.Forbidden(at.Child("etcd"), "cannot change between local and external; create another Cluster instead"))
	}
	if _, skip := c.Annotations[controlplanev1.SkipCoreDNSAnnotation]; skip {
		return errs
	}
	return append(errs, validateDNSChange(at.Child("dns", "imageTag"), config.DNS, was.DNS)...)
}

// fixed are the paths that differ and must not.
func fixed(path string, a, b any) (all []string) {
	if slices.Contains(mayChange, path) || reflect.DeepEqual(a, b) {
		return nil
	}
	was, _ := a.(map[string]any)
	is, _ := b.(map[string]any)
	if was == nil && is == nil || !slices.ContainsFunc(mayChange, func(p string) bool { return path == "" || strings.HasPrefix(p, path+".") }) {
		return []string{path}
	}
	fields := maps.Clone(was)
	if fields == nil {
		fields = map[string]any{}
	}
	maps.Copy(fields, is)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, fixed(strings.TrimPrefix(path+"."+name, "."), was[name], is[name])...)
	}
	return all
}

// validateDNSVersion requires a CoreDNS version in the tag, unless users manage
// CoreDNS themselves. A stored tag stays valid.
func validateDNSVersion(spec *field.Path, annotations map[string]string, tag, old string) field.ErrorList {
	_, skip := annotations[controlplanev1.SkipCoreDNSAnnotation]
	if skip || tag == "" || tag == old || !imageTag().MatchString(tag) { // another check reports a malformed tag
		return nil
	}
	if _, err := kubeadm.DNSVersion(tag); err != nil {
		return field.ErrorList{field.Invalid(spec.Child("kubeadmConfigSpec", "clusterConfiguration", "dns", "imageTag"), tag, "must begin with a version, such as v1.12.0")}
	}
	return nil
}

// validateDNSChange requires that the Corefile can be migrated to the new CoreDNS
// version. Both versions are available only if both tags are set; otherwise the
// controller reads the running version.
func validateDNSChange(at *field.Path, c, old bootstrapv1.DNS) field.ErrorList {
	if c.ImageTag == "" || old.ImageTag == "" || c.ImageTag == old.ImageTag {
		return nil
	}
	from, err := kubeadm.DNSVersion(old.ImageTag)
	if err != nil {
		return nil // refusing the change does not repair the stored tag
	}
	to, err := kubeadm.DNSVersion(c.ImageTag)
	if err != nil || from.String() == to.String() {
		return nil // another check reports a tag without a version
	}
	if err := migration.ValidUpMigration(from.String(), to.String()); err != nil {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("%v: choose a later version that is known, or look after CoreDNS yourself with the annotation %s", err, controlplanev1.SkipCoreDNSAnnotation))}
	}
	return nil
}
