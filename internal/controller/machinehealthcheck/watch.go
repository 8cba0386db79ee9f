// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

// of returns requests for the checks of a Cluster for which is returns true.
func (r *Reconciler) of(ctx context.Context, cluster client.ObjectKey, is func(*clusterv1.MachineHealthCheck) bool) []reconcile.Request {
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachineHealthCheckList{}, is,
		client.InNamespace(cluster.Namespace), client.MatchingFields{index.ClusterName: cluster.Name})
}

func all(*clusterv1.MachineHealthCheck) bool { return true }

// ofSibling returns requests for the other checks of a Cluster: all checks that
// select a Machine determine which of them evaluates it.
func (r *Reconciler) ofSibling(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.of(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: index.Of(obj)[0]}, all)
}

func (r *Reconciler) ofCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.of(ctx, client.ObjectKeyFromObject(obj), all)
}

func (r *Reconciler) ofConnection(ctx context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return r.of(ctx, cluster, all)
}

// ofMachine returns requests for the checks that select a Machine, or did.
func (r *Reconciler) ofMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	m := obj.(*clusterv1.Machine)
	return r.of(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, func(check *clusterv1.MachineHealthCheck) bool {
		return healthcheck.Selects(check, m)
	})
}

// ofNode returns requests for the checks of the Machine of a Node. If no Machine
// has the Node yet, the change of a Machine triggers the reconcile.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, obj client.Object) (wanted []reconcile.Request) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	var machines clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingFields{index.NodeName: node.Name},
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Machine of a Node", "Node", node.Name)
	}
	for i := range machines.Items {
		wanted = append(wanted, r.ofMachine(ctx, &machines.Items[i])...)
	}
	return wanted
}

// machineMatters passes changes of the fields by which a Machine is evaluated.
func machineMatters() predicate.Predicate {
	return controller.Matters(func(m *clusterv1.Machine) []any {
		return []any{m.Labels, m.Annotations, m.DeletionTimestamp.IsZero(), m.Status.NodeRef, m.Status.Conditions}
	})
}

func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		i := c.Status.Initialization
		return []any{ptr.Deref(c.Spec.Paused, false), ptr.Deref(i.InfrastructureProvisioned, false), ptr.Deref(i.ControlPlaneInitialized, false)}
	})
}
