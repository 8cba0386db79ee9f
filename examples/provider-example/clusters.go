// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const finalizer = "infrastructure.example.com/provider-example"

// clusters reconciles ExampleClusters.
type clusters struct{ client.Client }

func (r *clusters) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&ExampleCluster{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster)).
		Complete(r)
}

// ofCluster triggers a reconcile of the object of a Cluster that is paused or resumed.
func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	ref := obj.(*clusterv1.Cluster).Spec.InfrastructureRef
	if ref.Kind != "ExampleCluster" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: ref.Name}}}
}

func (r *clusters) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	c := &ExampleCluster{}
	if err := r.Get(ctx, req.NamespacedName, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, managed := c.Annotations[clusterv1.ManagedByAnnotation]; managed {
		return ctrl.Result{}, nil
	}
	cluster := &clusterv1.Cluster{}
	owned, err := owner(ctx, r.Client, c, "Cluster", cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	paused := isPaused(c, cluster)
	before := c.DeepCopy()
	switch {
	case !c.DeletionTimestamp.IsZero() && !paused:
		controllerutil.RemoveFinalizer(c, finalizer) // there is no infrastructure to delete
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, c, client.MergeFrom(before)))
	case !owned:
		return ctrl.Result{}, nil
	}
	say(c, clusterv1.PausedCondition, paused, "")
	switch {
	case paused:
	case controllerutil.AddFinalizer(c, finalizer): // stored before any side effect
	case c.Spec.Address == "":
		say(c, clusterv1.ReadyCondition, false, "Waiting for spec.address")
	default:
		c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: c.Spec.Address, Port: 6443}
		c.Status.Initialization.Provisioned = new(true)
		say(c, clusterv1.ReadyCondition, true, "")
	}
	status := c.DeepCopy()
	if err := r.Patch(ctx, c, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, err
	}
	c.Status = status.Status
	return ctrl.Result{}, r.Status().Patch(ctx, c, client.MergeFrom(before))
}
