// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// ofCluster returns requests for the sets of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &clusterv1.MachineSetList{}, client.InNamespace(cluster.GetNamespace()), client.MatchingFields{index.ClusterName: cluster.GetName()})
}

// ofDeployment returns requests for the sets of a MachineDeployment.
func (r *Reconciler) ofDeployment(ctx context.Context, md client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &clusterv1.MachineSetList{}, client.InNamespace(md.GetNamespace()),
		client.MatchingFields{index.ClusterName: index.Of(md)[0]}, client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: md.GetName()})
}

// ofOrphan returns requests for the sets that would adopt a Machine.
func (r *Reconciler) ofOrphan(ctx context.Context, obj client.Object) []reconcile.Request {
	m := obj.(*clusterv1.Machine)
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachineSetList{}, func(set *clusterv1.MachineSet) bool {
		selector, err := owner.Selector(&set.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(m.Labels))
	}, client.InNamespace(m.Namespace), client.MatchingFields{index.ClusterName: m.Spec.ClusterName})
}

// ofControlPlane returns requests for the sets that may be waiting for a control
// plane. It compares desired and existing replicas, since the condition for the
// wait may not be stored yet. For a set that has just started to wait, its own
// status write triggers a reconcile.
func (r *Reconciler) ofControlPlane(ctx context.Context, obj client.Object) []reconcile.Request {
	cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachineSetList{}, func(set *clusterv1.MachineSet) bool {
		return ptr.Deref(set.Status.Replicas, 0) < ptr.Deref(set.Spec.Replicas, 1) || conditions.IsTrue(set, clusterv1.MachineSetRemediatingCondition) ||
			set.Annotations[clusterv1.AcknowledgedMoveAnnotation] != "" // which it may have to update
	}, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index.ClusterName: cluster})
}

// ofRecipient returns requests for the sets whose Machines a set receives.
func ofRecipient(_ context.Context, set client.Object) (all []reconcile.Request) {
	for _, name := range inplace.Names(set.GetAnnotations()[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation]) {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: set.GetNamespace(), Name: name}})
	}
	return all
}

// receives passes changes of the sets from which a set receives Machines.
func receives() predicate.Predicate {
	return controller.Matters(func(set *clusterv1.MachineSet) []any {
		return []any{set.Annotations[clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation], set.Annotations[clusterv1.DesiredReplicasAnnotation], set.Spec.Replicas}
	})
}

// clusterMatters passes changes of the fields of a Cluster that a set reads.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{c.Spec.Paused, c.Spec.ControlPlaneRef, c.Spec.Topology.IsDefined(), c.Spec.Topology.Version, c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation], c.DeletionTimestamp.IsZero()}
	})
}
