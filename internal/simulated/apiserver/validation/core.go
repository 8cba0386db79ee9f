// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxData is the limit of the data of a ConfigMap or a Secret, in bytes.
const maxData = 1 << 20

func configMap(o *corev1.ConfigMap) field.ErrorList {
	size := 0
	for _, text := range o.Data {
		size += len(text)
	}
	var both field.ErrorList
	for key, content := range o.BinaryData {
		size += len(content)
		_, text := o.Data[key]
		both = append(both, when(text, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))...)
	}
	return slices.Concat(keys("data", o.Data), keys("binaryData", o.BinaryData), both, when(size > maxData, field.TooLong(field.NewPath(""), "", maxData)))
}

// keys checks the keys of data, each of which can be the name of a file.
func keys[T any](name string, data map[string]T) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		errs = append(errs, formed(field.NewPath(name).Key(key), key, utilvalidation.IsConfigMapKey)...)
	}
	return errs
}

// secretKeys are those that Secrets of a type must have, without the type that needs one
// of two.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
}

func secret(o *corev1.Secret) field.ErrorList {
	data, size := field.NewPath("data"), 0
	for _, content := range o.Data {
		size += len(content)
	}
	errs := append(keys("data", o.Data), when(size > maxData, field.TooLong(data, "", maxData))...)
	for _, key := range secretKeys[o.Type] {
		content, ok := o.Data[key]
		docker := o.Type == corev1.SecretTypeDockercfg || o.Type == corev1.SecretTypeDockerConfigJson
		errs = append(errs, when(!ok || o.Type == corev1.SecretTypeSSHAuth && len(content) == 0, field.Required(data.Key(key), ""))...)
		errs = append(errs, when(ok && docker && json.Unmarshal(content, &map[string]any{}) != nil, field.Invalid(data.Key(key), "<secret contents redacted>", "must be a JSON object"))...)
	}
	switch o.Type {
	case corev1.SecretTypeServiceAccountToken:
		account := o.Annotations[corev1.ServiceAccountNameKey]
		errs = append(errs, when(account == "", field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))...)
	case corev1.SecretTypeBasicAuth:
		_, user := o.Data[corev1.BasicAuthUsernameKey]
		_, password := o.Data[corev1.BasicAuthPasswordKey]
		errs = append(errs, when(!user && !password, field.Required(data.Key(corev1.BasicAuthUsernameKey), ""), field.Required(data.Key(corev1.BasicAuthPasswordKey), ""))...)
	}
	return errs
}

func node(s *corev1.NodeSpec, at *field.Path) field.ErrorList {
	type key struct {
		key    string
		effect corev1.TaintEffect
	}
	ranges, families := at.Child("podCIDRs"), map[bool]bool{}
	cidrs := s.PodCIDRs
	if s.PodCIDR != "" && len(cidrs) > 0 && cidrs[0] != s.PodCIDR {
		cidrs = []string{s.PodCIDR} // as clients of the time before podCIDRs mean it
	}
	errs := slices.Concat(
		each(at.Child("taints"), s.Taints, taint),
		unique(at.Child("taints"), s.Taints, func(t *corev1.Taint) key { return key{t.Key, t.Effect} }),
		each(ranges, cidrs, func(at *field.Path, text *string) field.ErrorList { return addressRange(at, *text) }),
		when(s.PodCIDR != "", addressRange(at.Child("podCIDR"), s.PodCIDR)...),
		when(len(cidrs) > 2, field.Invalid(ranges, cidrs, "may specify no more than one CIDR for each IP family")),
	)
	for _, text := range cidrs {
		prefix, err := netip.ParsePrefix(text)
		errs = append(errs, when(err == nil && families[prefix.Addr().Is4()], field.Invalid(ranges, cidrs, "may specify no more than one CIDR for each IP family"))...)
		families[prefix.Addr().Is4()] = true
	}
	return errs
}

func taint(at *field.Path, t *corev1.Taint) field.ErrorList {
	return slices.Concat(
		formed(at.Child("key"), t.Key, utilvalidation.IsQualifiedName),
		formed(at.Child("value"), t.Value, utilvalidation.IsValidLabelValue),
		oneOf(at.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
	)
}

func namespace(s *corev1.NamespaceSpec, at *field.Path) field.ErrorList {
	return each(at.Child("finalizers"), s.Finalizers, func(at *field.Path, name *corev1.FinalizerName) field.ErrorList {
		return append(formed(at, *name, utilvalidation.IsQualifiedName), Finalizer(at, string(*name))...)
	})
}

// Finalizer checks the name of a finalizer of a built-in kind.
func Finalizer(at *field.Path, name string) field.ErrorList {
	known := strings.Contains(name, "/") || slices.Contains([]string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}, name)
	return when(!known, field.Invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified"))
}

func lease(s *coordinationv1.LeaseSpec, at *field.Path) field.ErrorList {
	return slices.Concat(
		optionally(s.LeaseDurationSeconds, func(n int32) field.ErrorList {
			return when(n <= 0, field.Invalid(at.Child("leaseDurationSeconds"), n, "must be greater than 0"))
		}),
		numbers(at, map[string]*int32{"leaseTransitions": s.LeaseTransitions}),
	)
}

func selectors(at *field.Path, list []metav1.LabelSelector) field.ErrorList {
	return each(at, list, func(at *field.Path, s *metav1.LabelSelector) field.ErrorList {
		return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
	})
}
