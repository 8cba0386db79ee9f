// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// ofMachine names the LocalMachine that a Machine refers to.
func ofMachine(_ context.Context, obj client.Object) []reconcile.Request {
	return controller.Referred(obj.GetNamespace(), obj.(*clusterv1.Machine).Spec.InfrastructureRef, localKind)
}

// machineMatters drops the changes of a Machine that its LocalMachine does not
// care for.
func machineMatters() predicate.Predicate {
	return controller.Matters(func(m *clusterv1.Machine) []any {
		return []any{m.Spec.Version, m.Spec.FailureDomain, ptr.Deref(m.Spec.Bootstrap.DataSecretName, ""), m.Spec.InfrastructureRef}
	})
}

// ofMachinePool names the LocalMachines of a MachinePool.
func (r *Reconciler) ofMachinePool(ctx context.Context, obj client.Object) []reconcile.Request {
	mp := obj.(*clusterv1.MachinePool)
	if mp.Spec.Template.Spec.InfrastructureRef.GroupKind() != localPoolKind.GroupKind() {
		return nil
	}
	return controller.Listed(ctx, r.Mgmt, &infrav1.LocalMachineList{}, client.InNamespace(mp.Namespace),
		client.MatchingFields{index.ClusterLabel: mp.Spec.ClusterName}, client.MatchingLabels{clusterv1.MachinePoolNameLabel: fieldvalidation.AsLabelValue(mp.Name)})
}

// machinePoolMatters drops the changes of a MachinePool that a LocalMachine does
// not care for.
func machinePoolMatters() predicate.Predicate {
	return controller.Matters(func(mp *clusterv1.MachinePool) []any {
		return []any{ptr.Deref(mp.Spec.Template.Spec.Bootstrap.DataSecretName, "")}
	})
}

// ofCluster names the LocalMachines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &infrav1.LocalMachineList{}, client.InNamespace(cluster.GetNamespace()), client.MatchingFields{index.ClusterLabel: cluster.GetName()})
}

// clusterMatters drops the changes of a Cluster that no LocalMachine cares for.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		i := c.Status.Initialization
		return []any{ptr.Deref(c.Spec.Paused, false), ptr.Deref(i.InfrastructureProvisioned, false), ptr.Deref(i.ControlPlaneInitialized, false)}
	})
}
