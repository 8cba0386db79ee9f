// SPDX-License-Identifier: Apache-2.0

// Package fieldvalidation holds rules for fields that several kinds share: versions, taints,
// names generated from templates, selectors, amounts in numbers or percent. Each error
// names the field and a correct value.
package fieldvalidation

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

// NormalVersion is a Kubernetes version with a leading "v".
func NormalVersion(version string) string {
	if version == "" || strings.HasPrefix(version, "v") {
		return version
	}
	return "v" + version
}

// Version requires a version such as v1.34.1, if it is set.
func Version(at *field.Path, version string) field.ErrorList {
	if version == "" {
		return nil
	}
	number, ok := strings.CutPrefix(version, "v")
	if _, err := semver.Parse(number); !ok || err != nil {
		return field.ErrorList{field.Invalid(at, version, "must be a semantic version with a leading v, such as v1.34.1")}
	}
	return nil
}

// Unchanged requires that a field does not change.
func Unchanged(at *field.Path, value, old string) field.ErrorList {
	if value == old {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("cannot change: it was %q; create another object instead", old))}
}

// LabelValue requires that a name is a valid label value.
func LabelValue(at *field.Path, name string) (errs field.ErrorList) {
	for _, reason := range validation.IsValidLabelValue(name) {
		errs = append(errs, field.Invalid(at, name, "is used as the value of a label: "+reason))
	}
	return errs
}

// AsLabelValue converts a name to a label value: itself, or a hash of a name that is
// longer than a label value can be.
func AsLabelValue(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return "hash_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)) + "_z"
}

// Metadata requires that labels and annotations of a template are valid for an object.
func Metadata(at *field.Path, meta clusterv1.ObjectMeta) field.ErrorList {
	return append(
		metav1validation.ValidateLabels(meta.Labels, at.Child("labels")),
		apivalidation.ValidateAnnotations(meta.Annotations, at.Child("annotations"))...)
}

// Selector requires that a label selector is valid.
func Selector(at *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

// IsEmptySelector reports whether a selector selects without condition.
func IsEmptySelector(s metav1.LabelSelector) bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// Amount requires a number or a percentage, if either is set.
func Amount(at *field.Path, amount *intstr.IntOrString) field.ErrorList {
	if amount == nil {
		return nil
	}
	if amount.Type == intstr.Int {
		if amount.IntVal < 0 {
			return field.ErrorList{field.Invalid(at, amount.String(), "must not be negative")}
		}
		return nil
	}
	if reasons := validation.IsValidPercent(amount.StrVal); len(reasons) > 0 {
		return field.ErrorList{field.Invalid(at, amount.String(), "must be a number, or a percentage such as 20%")}
	}
	return nil
}

// reserved are taints that other controllers set and remove.
var reserved = []string{"node.cluster.x-k8s.io/uninitialized", "node.cluster.x-k8s.io/outdated-revision", "node-role.kubernetes.io/master"}

// Taints requires that the taints of a Machine are not managed by other controllers.
func Taints(at *field.Path, taints []clusterv1.MachineTaint, controlPlane bool) (errs field.ErrorList) {
	for i, t := range taints {
		key := at.Index(i).Child("key")
		switch {
		case slices.Contains(reserved, t.Key),
			strings.HasPrefix(t.Key, "node.kubernetes.io/") && t.Key != corev1.TaintNodeOutOfService,
			strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/"):
			errs = append(errs, field.Invalid(key, t.Key, "is set and removed by Kubernetes or Cluster API; choose another key"))
		case t.Key == "node-role.kubernetes.io/control-plane" && !controlPlane:
			errs = append(errs, field.Invalid(key, t.Key, "is for control plane machines; choose another key"))
		}
	}
	return errs
}

// maxTemplate is the maximum length of a template of names.
const maxTemplate = 256

// MachineName requires that a template of names, if there is one, yields a different and
// valid name each time. owner is the template's name for the object that has the
// machines, such as machineSet.
func MachineName(at *field.Path, text, owner string) field.ErrorList {
	if text == "" {
		return nil
	}
	if len(text) > maxTemplate {
		return field.ErrorList{field.TooLong(at, text, maxTemplate)}
	}
	parsed, err := gotemplate.ParseName(text)
	if err != nil {
		return field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	name := func(random string) (string, error) {
		budget := gotemplate.PerName
		return parsed.Render(map[string]any{
			"cluster": map[string]any{"name": "cluster"}, owner: map[string]any{"name": "owner"}, "random": random,
		}, &budget)
	}
	one, err := name("abcde")
	if err != nil {
		return field.ErrorList{field.Invalid(at, text, fmt.Sprintf("can use .cluster.name, .%s.name and .random: %v", owner, err))}
	}
	other, err := name("vwxyz")
	if err != nil || one == other || !strings.Contains(one, "abcde") {
		return field.ErrorList{field.Invalid(at, text, "must contain {{ .random }}, so that no two machines have one name")}
	}
	var errs field.ErrorList
	for _, reason := range validation.IsDNS1123Subdomain(one) {
		errs = append(errs, field.Invalid(at, text, fmt.Sprintf("makes names such as %q: %s", one, reason)))
	}
	return errs
}

// Bootstrap requires a source of bootstrap data, which turns a Machine into a Node.
func Bootstrap(at *field.Path, b clusterv1.Bootstrap) field.ErrorList {
	if b.DataSecretName == nil && !b.ConfigRef.IsDefined() {
		return field.ErrorList{field.Required(at, "set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data")}
	}
	return nil
}

// MachineTemplate applies the common requirements of MachineSets and MachineDeployments
// for the Machines that they create.
func MachineTemplate(at *field.Path, t clusterv1.MachineTemplateSpec, clusterName string, selector metav1.LabelSelector) field.ErrorList {
	spec := at.Child("spec")
	errs := Metadata(at.Child("metadata"), t.ObjectMeta)
	errs = append(errs, Bootstrap(spec.Child("bootstrap"), t.Spec.Bootstrap)...)
	errs = append(errs, Version(spec.Child("version"), t.Spec.Version)...)
	errs = append(errs, Taints(spec.Child("taints"), t.Spec.Taints, false)...)
	if t.Spec.ClusterName != clusterName {
		errs = append(errs, field.Invalid(spec.Child("clusterName"), t.Spec.ClusterName, fmt.Sprintf("must be the same as spec.clusterName, %q", clusterName)))
	}
	selects, err := metav1.LabelSelectorAsSelector(&selector)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), selector, err.Error()))
	case !selects.Matches(labels.Set(t.Labels)):
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), t.Labels, fmt.Sprintf("must match spec.selector, %s", metav1.FormatLabelSelector(&selector))))
	}
	return errs
}

// RolloutStrategy demands that a group of Machines can be replaced at all.
func RolloutStrategy(at *field.Path, s clusterv1.MachineDeploymentRolloutStrategy) field.ErrorList {
	rolling := at.Child("rollingUpdate")
	surge, unavailable := s.RollingUpdate.MaxSurge, s.RollingUpdate.MaxUnavailable
	errs := append(Amount(rolling.Child("maxSurge"), surge), Amount(rolling.Child("maxUnavailable"), unavailable)...)
	if isZero(surge) && isZero(unavailable) {
		errs = append(errs, field.Invalid(rolling.Child("maxUnavailable"), unavailable.String(), "must not be 0 when maxSurge is 0: nothing could ever be replaced"))
	}
	return errs
}

func isZero(amount *intstr.IntOrString) bool {
	return amount != nil && *amount == intstr.FromInt32(0)
}

// leastNodeStartupSeconds keeps a check from deleting every Machine while it
// starts.
const leastNodeStartupSeconds = 30

// HealthCheck demands that a health check lets Machines start, and says
// understandably how many may be unhealthy.
func HealthCheck(at *field.Path, checks clusterv1.MachineHealthCheckChecks, trigger clusterv1.MachineHealthCheckRemediationTriggerIf) (errs field.ErrorList) {
	if t := checks.NodeStartupTimeoutSeconds; t != nil && *t != 0 && *t < leastNodeStartupSeconds {
		errs = append(errs, field.Invalid(at.Child("checks", "nodeStartupTimeoutSeconds"), *t, "must be 30 or more, or 0 for no limit"))
	}
	return append(errs, Amount(at.Child("remediation", "triggerIf", "unhealthyLessThanOrEqualTo"), trigger.UnhealthyLessThanOrEqualTo)...)
}

// maxBundle is the maximum size of a caBundle in an ExtensionConfig.
const maxBundle = 51200

// CertificateBundle validates a caBundle: certificates in PEM, at least one, and all of
// them valid. It returns them without the text around them.
func CertificateBundle(bundle []byte) (alone []byte, err error) {
	if len(bundle) > maxBundle {
		return nil, fmt.Errorf("has %d bytes, and may have %d", len(bundle), maxBundle)
	}
	found := 0
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a PEM block of type %q: only certificates belong there", block.Type)
		}
		found++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", found, err)
		}
		alone = append(alone, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if found == 0 {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return alone, nil
}

// SecretKey reads the name of a Secret in the form namespace/name.
func SecretKey(text string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q does not name a Secret: write namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
