// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// machines reconciles ExampleMachines.
type machines struct{ client.Client }

func (r *machines) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&ExampleMachine{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(ofMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.machinesOf)).
		Complete(r)
}

// ofMachine triggers a reconcile of the object of a Machine whose bootstrap data exists.
func ofMachine(_ context.Context, obj client.Object) []reconcile.Request {
	ref := obj.(*clusterv1.Machine).Spec.InfrastructureRef
	if ref.Kind != "ExampleMachine" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: ref.Name}}}
}

// machinesOf triggers a reconcile of all objects of a Cluster that is paused or resumed,
// or whose infrastructure is provisioned.
func (r *machines) machinesOf(ctx context.Context, obj client.Object) (all []reconcile.Request) {
	list := &clusterv1.MachineList{}
	if r.List(ctx, list, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: obj.GetName()}) != nil {
		return nil
	}
	for i := range list.Items {
		all = append(all, ofMachine(ctx, &list.Items[i])...)
	}
	return all
}

func (r *machines) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	m := &ExampleMachine{}
	if err := r.Get(ctx, req.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	machine, cluster := &clusterv1.Machine{}, &clusterv1.Cluster{}
	owned, err := owner(ctx, r.Client, m, "Machine", machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if owned {
		if err := r.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: machine.Spec.ClusterName}, cluster); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	paused := isPaused(m, cluster)
	before := m.DeepCopy()
	switch {
	case !m.DeletionTimestamp.IsZero() && !paused:
		controllerutil.RemoveFinalizer(m, finalizer) // a record has no infrastructure to delete
		return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, m, client.MergeFrom(before)))
	case !owned:
		return ctrl.Result{}, nil
	}
	say(m, clusterv1.PausedCondition, paused, "")
	switch {
	case paused:
	case controllerutil.AddFinalizer(m, finalizer):
	case cluster.Status.Initialization.InfrastructureProvisioned == nil || !*cluster.Status.Initialization.InfrastructureProvisioned:
		say(m, clusterv1.ReadyCondition, false, "Waiting for the infrastructure of Cluster "+machine.Spec.ClusterName)
	case machine.Spec.Bootstrap.DataSecretName == nil:
		say(m, clusterv1.ReadyCondition, false, "Waiting for the bootstrap data of Machine "+machine.Name)
	default:
		// A real provider starts a machine here, which runs the bootstrap data.
		m.Spec.ProviderID = fmt.Sprintf("example://%s/%s", m.Namespace, m.Name)
		m.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineInternalIP, Address: address(m.Namespace + "/" + m.Name)}}
		m.Status.Initialization.Provisioned = new(true)
		say(m, clusterv1.ReadyCondition, true, "")
	}
	status := m.DeepCopy()
	if err := r.Patch(ctx, m, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, err
	}
	m.Status = status.Status
	return ctrl.Result{}, r.Status().Patch(ctx, m, client.MergeFrom(before))
}

// address derives an address from a name, in a range that is reserved for documentation.
func address(name string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // it never returns an error
	return fmt.Sprintf("198.51.100.%d", sum.Sum32()%254+1)
}
