// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"context"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// ofCluster returns a request for the binding of a Cluster, which has its name.
func ofCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(cluster)}}
}

// clusterMatters passes changes of the fields of a Cluster that the controller
// reads.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{c.Labels, c.DeletionTimestamp.IsZero(), ptr.Deref(c.Spec.Paused, false)}
	})
}

func ofConnection(_ context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: cluster}}
}

// ofKinds returns a request for the binding of a Cluster in which a kind was
// defined.
func (r *Reconciler) ofKinds(_ context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	r.defined.Store(cluster, nil)
	return []reconcile.Request{{NamespacedName: cluster}}
}

// ofSet returns requests for the bindings that have an entry of a
// ClusterResourceSet, and for those of the Clusters that it selects.
func (r *Reconciler) ofSet(ctx context.Context, obj client.Object) []reconcile.Request {
	set, here := obj.(*addonsv1.ClusterResourceSet), client.InNamespace(obj.GetNamespace())
	speaking := controller.ListedIf(ctx, r.Mgmt, &addonsv1.ClusterResourceSetBindingList{}, func(b *addonsv1.ClusterResourceSetBinding) bool {
		return resourceset.Entry(b.Spec.Bindings, set.Name) != nil
	}, here)
	return append(speaking, controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterList{}, func(c *clusterv1.Cluster) bool { return resourceset.Selects(set, c) }, here)...)
}

// setMatters passes changes of the fields of a ClusterResourceSet that the
// controller reads.
func setMatters() predicate.Predicate {
	return controller.Matters(func(s *addonsv1.ClusterResourceSet) []any {
		return []any{s.Generation, s.DeletionTimestamp.IsZero(), pause.Requested(nil, s)}
	})
}

// ofPayload returns requests for the bindings that refer to a Secret or ConfigMap.
func (r *Reconciler) ofPayload(ctx context.Context, obj client.Object) []reconcile.Request {
	ref := resourcesets.Ref(obj)
	return controller.ListedIf(ctx, r.Mgmt, &addonsv1.ClusterResourceSetBindingList{}, func(b *addonsv1.ClusterResourceSetBinding) bool {
		return slices.ContainsFunc(b.Spec.Bindings, func(e addonsv1.ResourceSetBinding) bool {
			return slices.ContainsFunc(e.Resources, func(res addonsv1.ResourceBinding) bool { return res.ResourceRef == ref })
		})
	}, client.InNamespace(obj.GetNamespace()))
}
