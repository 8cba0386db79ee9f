// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// KindOf is the kind that a CustomResourceDefinition defines, at the version in which
// its objects are stored, with the labels that apply to all of them.
func KindOf(crd *unstructured.Unstructured) Kind {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, fields...)...)
		return s
	}
	k := Kind{Resource: text("names", "plural"), Namespaced: text("scope") == "Namespaced"}
	k.GroupVersionKind = schema.GroupVersionKind{Group: text("group"), Kind: text("names", "kind"), Version: storage(crd)}
	_, k.Hierarchy = crd.GetLabels()[clusterctlv1.ClusterctlMoveHierarchyLabel]
	_, k.Move = crd.GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	return k
}

// storage is the version in which a definition has its objects stored.
func storage(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			name, _ := v["name"].(string)
			return name
		}
	}
	return ""
}
