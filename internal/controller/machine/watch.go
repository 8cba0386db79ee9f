// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// refs returns the references of a Machine.
func refs(o client.Object) []clusterv1.ContractVersionedObjectReference {
	m := o.(*clusterv1.Machine)
	return []clusterv1.ContractVersionedObjectReference{m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef}
}

// ofCluster returns requests for the Machines of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.list(ctx, inCluster(client.ObjectKeyFromObject(cluster))...)
}

// ofConnection returns requests for the Machines of a cluster whose connection
// changed.
func (r *Reconciler) ofConnection(ctx context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return r.list(ctx, inCluster(cluster)...)
}

// inCluster selects the Machines of a Cluster.
func inCluster(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingFields{index.ClusterName: cluster.Name}}
}

// ofLabel returns requests for the Machines with the name of obj in a label.
func (r *Reconciler) ofLabel(label string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		cluster := client.ObjectKey{Namespace: obj.GetNamespace(), Name: index.Of(obj)[0]}
		return r.list(ctx, append(inCluster(cluster), client.MatchingLabels{label: fieldvalidation.AsLabelValue(obj.GetName())})...)
	}
}

// ofHealthCheck returns requests for the Machines that a check may have evaluated.
func (r *Reconciler) ofHealthCheck(ctx context.Context, check client.Object) []reconcile.Request {
	cluster := client.ObjectKey{Namespace: check.GetNamespace(), Name: index.Of(check)[0]}
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachineList{}, healthcheck.Checked, inCluster(cluster)...)
}

// ofNode returns requests for the Machine of a Node. The status of the Machine
// identifies the Node, not the Node's annotations: a tenant writes those.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	mine := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	found := r.list(ctx, append(mine, client.MatchingFields{index.NodeName: node.Name})...)
	if len(found) == 0 && node.Spec.ProviderID != "" {
		found = r.list(ctx, append(mine, client.MatchingFields{index.ProviderID: node.Spec.ProviderID})...)
	}
	return found
}

func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &clusterv1.MachineList{}, opts...)
}

// clusterMatters drops the changes of a Cluster that do not affect its Machines.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		i := c.Status.Initialization
		return []any{ptr.Deref(c.Spec.Paused, false), c.DeletionTimestamp.IsZero(), ptr.Deref(i.InfrastructureProvisioned, false), ptr.Deref(i.ControlPlaneInitialized, false)}
	})
}

// versionMatters drops all changes of a MachinePool except the one that its
// Machines read.
func versionMatters() predicate.Predicate {
	return controller.Matters(func(p *clusterv1.MachinePool) []any { return []any{p.Spec.Template.Spec.Version} })
}

// templateMatters drops changes of status: whether a Machine is up to date
// depends on spec and revision alone.
func templateMatters() predicate.Predicate { return controller.Matters(template) }

func template(o client.Object) []any { return []any{o.GetGeneration(), o.GetAnnotations()} }

// setMatters additionally passes changes of what prevents a set from updating
// Machines in place.
func setMatters() predicate.Predicate {
	return controller.Matters(func(set *clusterv1.MachineSet) []any { return append(template(set), scaling.UpdateBlocked(set)) })
}
