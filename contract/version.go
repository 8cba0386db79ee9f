// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	"k8s.io/apimachinery/pkg/version"
)

// Contract versions.
const (
	V1Beta1 = "v1beta1"
	V1Beta2 = "v1beta2"
)

// Versions lists the supported contract versions, newest first.
func Versions() []string { return []string{V1Beta2, V1Beta1} }

// labelPrefix is the prefix of the label with which a CRD names its API versions that
// implement a contract version: cluster.x-k8s.io/v1beta2: v1beta1_v1beta2.
const labelPrefix = "cluster.x-k8s.io/"

// CRDName returns the name that the contract requires of a CRD: the plural of the kind
// and the group, such as widgets.example.com.
func CRDName(group, kind string) string {
	return flect.Pluralize(strings.ToLower(kind)) + "." + group
}

// Choose selects, from the labels of a CRD, the newest supported contract version, and
// the latest API version that implements it. A label without a value is ignored.
func Choose(crdLabels map[string]string) (contractVersion, apiVersion string, err error) {
	for _, v := range Versions() {
		_, ok := crdLabels[labelPrefix+v]
		apis := following(crdLabels, v)
		switch {
		case len(apis) > 0:
			return v, slices.MaxFunc(apis, version.CompareKubeAwareVersionStrings), nil
		case ok && err == nil:
			err = fmt.Errorf("label %s%s names no API version: list those that follow the contract, joined by _", labelPrefix, v)
		}
	}
	if err != nil {
		return "", "", err
	}
	for label := range crdLabels {
		if v, ok := strings.CutPrefix(label, labelPrefix); ok && versionLike(v) {
			return "", "", fmt.Errorf("label %s: contract %s is not supported; use a provider version for one of %s", label, v, strings.Join(Versions(), ", "))
		}
	}
	var wanted []string
	for _, v := range Versions() {
		wanted = append(wanted, labelPrefix+v)
	}
	return "", "", fmt.Errorf("no label %s lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME %s=VERSION", strings.Join(wanted, " or "), wanted[0])
}

// Followed is the newest supported contract version that an API version implements, from
// the labels of its CRD. It is for callers with a given API version; others use the one
// that Choose selects.
func Followed(crdLabels map[string]string, apiVersion string) (contractVersion string, err error) {
	for _, v := range Versions() {
		if slices.Contains(following(crdLabels, v), apiVersion) {
			return v, nil
		}
	}
	_, latest, err := Choose(crdLabels)
	if err == nil {
		err = fmt.Errorf("no label of a contract lists API version %s: use %s, or install the provider's CRDs with their labels", apiVersion, latest)
	}
	return "", err
}

// following lists the API versions that implement a contract version.
func following(crdLabels map[string]string, contractVersion string) []string {
	return slices.DeleteFunc(strings.Split(crdLabels[labelPrefix+contractVersion], "_"), func(s string) bool { return s == "" })
}

// versionLike distinguishes a contract label, such as v1alpha4, from other labels of the
// same domain.
func versionLike(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9'
}

// pick looks up a version in the values of one role.
func pick[T any](role, version string, values map[string]T) (T, error) {
	v, ok := values[version]
	if !ok {
		return v, fmt.Errorf("contract version %q of %s is not supported: use one of %s", version, role, strings.Join(Versions(), ", "))
	}
	return v, nil
}
