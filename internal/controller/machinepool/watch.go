// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
)

// Indexes by which pools are found in the management cluster's cache.
const (
	providerIDIndex = "spec.providerIDList"
	nodeNameIndex   = "status.nodeRefs.name"
)

func makeIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for field, values := range map[string]func(*clusterv1.MachinePool) []string{
		providerIDIndex: func(p *clusterv1.MachinePool) []string { return p.Spec.ProviderIDList },
		nodeNameIndex: func(p *clusterv1.MachinePool) (names []string) {
			for _, ref := range p.Status.NodeRefs {
				names = append(names, ref.Name)
			}
			return names
		},
	} {
		err := indexer.IndexField(ctx, &clusterv1.MachinePool{}, field, func(o client.Object) []string { return values(o.(*clusterv1.MachinePool)) })
		if err != nil {
			return fmt.Errorf("index MachinePools by %s: %w", field, err)
		}
	}
	return provider.Index(ctx, indexer, &clusterv1.MachinePool{}, refs)
}

// refs returns the references of a pool.
func refs(o client.Object) []clusterv1.ContractVersionedObjectReference {
	spec := o.(*clusterv1.MachinePool).Spec.Template.Spec
	return []clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef}
}

// ofCluster returns requests for the pools of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return r.list(ctx, inCluster(client.ObjectKeyFromObject(cluster))...)
}

// ofConnection returns requests for the pools of a cluster whose connection
// changed.
func (r *Reconciler) ofConnection(ctx context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return r.list(ctx, inCluster(cluster)...)
}

func inCluster(cluster client.ObjectKey) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingFields{index.ClusterName: cluster.Name}}
}

// ofNode returns a request for the pool of a Node. The status of the pool
// identifies the Node, not the Node's annotations: a tenant writes those. Nodes of
// Machines trigger reconciles of their Machines, and those of their pool.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, obj client.Object) (found []reconcile.Request) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	mine := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	for field, value := range map[string]string{nodeNameIndex: node.Name, providerIDIndex: node.Spec.ProviderID} {
		if value != "" {
			found = append(found, controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachinePoolList{}, looksAfterNodes, append(mine, client.MatchingFields{field: value})...)...)
		}
	}
	return found
}

// looksAfterNodes reports whether the pool itself handles its Nodes, as far as it
// has any.
func looksAfterNodes(p *clusterv1.MachinePool) bool {
	return len(p.Status.NodeRefs) == 0 || slices.ContainsFunc(p.Status.NodeRefs, machinepool.Own)
}

// ofHost returns a request for the pool that an infrastructure machine names in its
// label, when that is created and when it was deleted: its Machine's controller
// handles changes in between.
func (r *Reconciler) ofHost(ctx context.Context, obj client.Object) []reconcile.Request {
	label := obj.GetLabels()[clusterv1.MachinePoolNameLabel]
	if label == "" || r.hasMachine(ctx, obj) {
		return nil
	}
	cluster := client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[clusterv1.ClusterNameLabel]}
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachinePoolList{}, func(p *clusterv1.MachinePool) bool { return machinepool.NameLabel(p) == label }, inCluster(cluster)...)
}

// hasMachine reports whether an infrastructure machine and its Machine both exist.
func (r *Reconciler) hasMachine(ctx context.Context, obj client.Object) bool {
	m, host := &clusterv1.Machine{}, &unstructured.Unstructured{}
	host.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	for _, o := range []client.Object{m, host} {
		if r.Mgmt.Get(ctx, client.ObjectKeyFromObject(obj), o) != nil {
			return false
		}
	}
	by := metav1.GetControllerOfNoCopy(m)
	return by != nil && by.Kind == "MachinePool" && host.GetUID() == obj.GetUID()
}

func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &clusterv1.MachinePoolList{}, opts...)
}

// clusterMatters passes changes of the fields of a Cluster that a pool reads.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{ptr.Deref(c.Spec.Paused, false), c.DeletionTimestamp.IsZero()}
	})
}
