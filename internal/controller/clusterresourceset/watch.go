// SPDX-License-Identifier: Apache-2.0

package clusterresourceset

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// ofCluster returns requests for the sets that select a Cluster. For an update,
// both the old and the new object count.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.those(ctx, cluster.GetNamespace(), func(set *addonsv1.ClusterResourceSet) bool {
		selector, err := resourceset.Selector(set)
		return err == nil && selector.Matches(labels.Set(cluster.GetLabels()))
	})
}

// clusterMatters passes changes of the fields of a Cluster that the controller
// reads.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{c.Labels, c.DeletionTimestamp.IsZero(), ptr.Deref(c.Spec.Paused, false)}
	})
}

// ofBinding returns requests for the sets that a binding names, and for its owners.
func ofBinding(_ context.Context, obj client.Object) (out []reconcile.Request) {
	b := obj.(*addonsv1.ClusterResourceSetBinding)
	add := func(name string) {
		req := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: name}}
		out = append(out, req)
	}
	for _, e := range b.Spec.Bindings {
		add(e.ClusterResourceSetName)
	}
	for _, ref := range b.OwnerReferences {
		if resourceset.Entry(b.Spec.Bindings, ref.Name) == nil {
			add(ref.Name)
		}
	}
	return out
}

// siblings returns requests for the other sets of a namespace.
func (r *Reconciler) siblings(ctx context.Context, set client.Object) []reconcile.Request {
	return r.those(ctx, set.GetNamespace(), func(other *addonsv1.ClusterResourceSet) bool { return other.Name != set.GetName() })
}

// stepsBack passes the event after which a set no longer creates bindings, so that
// another one has to.
func stepsBack() predicate.Predicate {
	idle := func(obj client.Object) bool {
		return !obj.GetDeletionTimestamp().IsZero() || pause.Requested(nil, obj)
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(e event.DeleteEvent) bool { return !idle(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return !idle(e.ObjectOld) && idle(e.ObjectNew) },
	}
}

// ofPayload returns requests for the sets that name a Secret or ConfigMap.
func (r *Reconciler) ofPayload(ctx context.Context, obj client.Object) []reconcile.Request {
	ref := resourcesets.Ref(obj)
	return r.those(ctx, obj.GetNamespace(), func(set *addonsv1.ClusterResourceSet) bool { return slices.Contains(set.Spec.Resources, ref) })
}

func (r *Reconciler) those(ctx context.Context, namespace string, is func(*addonsv1.ClusterResourceSet) bool) []reconcile.Request {
	return controller.ListedIf(ctx, r.Mgmt, &addonsv1.ClusterResourceSetList{}, is, client.InNamespace(namespace))
}
