// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// Listed enqueues the objects that the cache lists. A failure to list is logged,
// because the mapping of an event cannot return an error.
func Listed(ctx context.Context, c client.Reader, list client.ObjectList, opts ...client.ListOption) []reconcile.Request {
	return ListedIf(ctx, c, list, func(client.Object) bool { return true }, opts...)
}

// ListedIf enqueues those for which is returns true; is must not change them.
func ListedIf[T client.Object](ctx context.Context, c client.Reader, list client.ObjectList, is func(T) bool, opts ...client.ListOption) (out []reconcile.Request) {
	err := c.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if obj := item.(T); is(obj) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the objects to reconcile", "list", fmt.Sprintf("%T", list))
	}
	return out
}

// Referred enqueues the object that a reference names, if it is of a kind.
func Referred(namespace string, ref clusterv1.ContractVersionedObjectReference, kind schema.GroupVersionKind) []reconcile.Request {
	if ref.GroupKind() != kind.GroupKind() {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: ref.Name}}}
}

// Controlled enqueues the controller of an object, if it is of a kind.
func Controlled(obj client.Object, kind schema.GroupKind) []reconcile.Request {
	by := metav1.GetControllerOfNoCopy(obj)
	if by == nil || schema.FromAPIVersionAndKind(by.APIVersion, by.Kind).GroupKind() != kind {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: by.Name}}}
}

// Matters passes an update only if what a controller reads of an object that is
// not its own has changed.
func Matters[T client.Object](reads func(T) []any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !equality.Semantic.DeepEqual(reads(e.ObjectOld.(T)), reads(e.ObjectNew.(T)))
	}}
}

// Orphan passes objects that have no controller.
func Orphan() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return metav1.GetControllerOfNoCopy(obj) == nil && obj.GetDeletionTimestamp().IsZero()
	})
}

// Changed drops the events of a resync, in which nothing changed.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld == nil || e.ObjectNew == nil || e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion()
	}}
}

// OfClass returns a function that enqueues the Clusters of a class, by the index of
// them.
func OfClass(mgmt client.Reader) handler.MapFunc {
	return func(ctx context.Context, class client.Object) []reconcile.Request {
		return Listed(ctx, mgmt, &clusterv1.ClusterList{}, client.MatchingFields{index.ClusterClass: client.ObjectKeyFromObject(class).String()})
	}
}
