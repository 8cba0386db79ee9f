// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// ofResourceSets reports whether an object is only about what is applied to workload
// clusters. It decides about no Machine, and a workload cluster may refuse what is
// assumed to be applied.
func ofResourceSets(obj client.Object) bool {
	switch o := obj.(type) {
	case *addonsv1.ClusterResourceSet, *addonsv1.ClusterResourceSetBinding, *corev1.ConfigMap:
		return true
	case *corev1.Secret:
		return o.Type == addonsv1.ClusterResourceSetSecretType
	}
	return false
}

// applied are sentences about what the change applies to the workload cluster.
func (c *copied) applied(before map[types.UID]client.Object) (all []string) {
	for _, obj := range c.Stored(addonsv1.GroupVersion().WithKind("ClusterResourceSetBinding")) {
		was, _ := before[obj.GetUID()].(*addonsv1.ClusterResourceSetBinding)
		for _, set := range obj.(*addonsv1.ClusterResourceSetBinding).Spec.Bindings {
			for _, r := range set.Resources {
				if resourceset.Applied(r) && !(was != nil && hasApplied(was, set.ClusterResourceSetName, r)) {
					all = append(all, fmt.Sprintf("%s %s of ClusterResourceSet %s is applied to the workload cluster, which is assumed to accept it: what it changes there is not predicted", r.Kind, r.Name, set.ClusterResourceSetName))
				}
			}
		}
	}
	return all
}

func hasApplied(b *addonsv1.ClusterResourceSetBinding, set string, r addonsv1.ResourceBinding) bool {
	e := resourceset.Entry(b.Spec.Bindings, set)
	return e != nil && slices.ContainsFunc(e.Resources, func(old addonsv1.ResourceBinding) bool {
		return old.ResourceRef == r.ResourceRef && resourceset.Applied(old) && old.Hash == r.Hash
	})
}
