// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// ofLocalMachine returns a request for the pool of a LocalMachine.
func (r *Reconciler) ofLocalMachine(ctx context.Context, lm client.Object) []reconcile.Request {
	if name := owner.Name(lm, localpool.Kind.GroupKind()); name != "" {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: lm.GetNamespace(), Name: name}}}
	}
	return r.ofLabel(ctx, lm)
}

// localMachineMatters drops the changes of a LocalMachine that its pool does not
// report.
func localMachineMatters() predicate.Predicate {
	return controller.Matters(func(lm *infrav1.LocalMachine) []any {
		return []any{
			lm.DeletionTimestamp.IsZero(), lm.Labels, lm.Annotations, lm.OwnerReferences, lm.Spec.ProviderID, lm.Status.Addresses,
			lm.Status.Initialization, lm.Status.FailureReason, conditions.IsTrue(lm, clusterv1.ReadyCondition), conditions.Message(lm, clusterv1.ReadyCondition),
		}
	})
}

// ofMachine returns a request for the pool of a Machine.
func (r *Reconciler) ofMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.(*clusterv1.Machine).Spec.InfrastructureRef.GroupKind() != localpool.MachineKind.GroupKind() {
		return nil
	}
	return r.ofLabel(ctx, obj)
}

// machineMatters drops the changes of a Machine that a pool's plan does not read.
func machineMatters() predicate.Predicate {
	return controller.Matters(func(m *clusterv1.Machine) []any {
		_, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]
		return []any{
			m.DeletionTimestamp.IsZero(), m.Labels[clusterv1.MachinePoolNameLabel], marked, m.Status.NodeRef.IsDefined(), conditions.IsTrue(m, clusterv1.AvailableCondition),
			conditions.IsFalse(m, clusterv1.MachineNodeHealthyCondition), conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition),
		}
	})
}

// ofLabel returns a request for the pool of the MachinePool that a label of an
// object names.
func (r *Reconciler) ofLabel(ctx context.Context, obj client.Object) (out []reconcile.Request) {
	label, ok := obj.GetLabels()[clusterv1.MachinePoolNameLabel]
	if !ok {
		return nil
	}
	controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachinePoolList{}, func(mp *clusterv1.MachinePool) bool {
		if fieldvalidation.AsLabelValue(mp.Name) == label {
			out = append(out, ofMachinePool(ctx, mp)...)
		}
		return false
	}, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index.ClusterName: obj.GetLabels()[clusterv1.ClusterNameLabel]})
	return out
}

// ofMachinePool returns a request for the pool to which a MachinePool refers.
func ofMachinePool(_ context.Context, obj client.Object) []reconcile.Request {
	return controller.Referred(obj.GetNamespace(), obj.(*clusterv1.MachinePool).Spec.Template.Spec.InfrastructureRef, localpool.Kind)
}

// machinePoolMatters drops the changes of a MachinePool that do not affect its
// pool.
func machinePoolMatters() predicate.Predicate {
	return controller.Matters(func(mp *clusterv1.MachinePool) []any {
		t := mp.Spec.Template.Spec
		return []any{
			mp.DeletionTimestamp.IsZero(), mp.Spec.Replicas, mp.Spec.FailureDomains, mp.Spec.ClusterName, t.Version, t.InfrastructureRef, t.Bootstrap,
		}
	})
}

// ofCluster returns requests for the pools of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &infrav1.LocalMachinePoolList{}, client.InNamespace(cluster.GetNamespace()), client.MatchingFields{index.ClusterLabel: cluster.GetName()})
}

// clusterMatters drops the changes of a Cluster that do not affect its pools.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		i := c.Status.Initialization
		return []any{c.DeletionTimestamp.IsZero(), ptr.Deref(c.Spec.Paused, false), ptr.Deref(i.InfrastructureProvisioned, false), ptr.Deref(i.ControlPlaneInitialized, false)}
	})
}
