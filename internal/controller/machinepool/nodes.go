// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
)

// keepNodes records the Nodes of the pool, updates their metadata, and deletes the
// Nodes whose infrastructure machines were deleted. The Machine controller handles
// the Nodes of Machines.
func (r *Reconciler) keepNodes(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.withMachines() {
		s.pool.Status.NodeRefs = machinepool.OfMachines(s.machines)
		return reconciler.Continue(), nil
	}
	if len(s.pool.Spec.ProviderIDList)+len(s.pool.Status.NodeRefs) == 0 {
		s.remote.seen = true
		return reconciler.Continue(), nil
	}
	remote, err := r.connect(ctx, s)
	if err != nil || remote == nil {
		return reconciler.Continue(), err
	}
	others, err := r.others(ctx, s)
	if err != nil {
		return reconciler.Continue(), err
	}
	found, names, err := nodesByID(ctx, remote, s.pool.Spec.ProviderIDList)
	if err != nil {
		return reconciler.Continue(), err
	}
	noted, err := r.noted(ctx, s, remote, names)
	if err != nil {
		return reconciler.Continue(), err
	}
	plan := machinepool.PlanNodes(others, s.infraReport.Believed && s.infraReport.Whole, found, noted)
	s.problems = append(s.problems, plan.Problems...)
	s.standIns = machinepool.StandIns(s.pool, plan.Mine, metav1.NewTime(s.now))
	s.pool.Status.NodeRefs, s.remote.seen = plan.Refs, true
	var errs []error
	for _, node := range plan.Mine {
		errs = append(errs, syncNode(ctx, s, remote, node))
	}
	for _, node := range plan.Retired {
		if err := r.deleteNode(ctx, s, remote, node); err != nil {
			errs = append(errs, err)
			s.pool.Status.NodeRefs = append(s.pool.Status.NodeRefs, machinepool.Reference(node))
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

// connect returns a client of the workload cluster; nil while it cannot be reached,
// the end of which a Source reports.
func (r *Reconciler) connect(ctx context.Context, s *state) (client.Client, error) {
	key := client.ObjectKeyFromObject(s.cluster)
	remote, err := r.Workload.Client(ctx, key)
	if !errors.Is(err, workload.ErrNotConnected) {
		return remote, err
	}
	s.remote.unseen = fmt.Sprintf("Waiting for a connection to the workload cluster of Cluster %s", s.cluster.Name)
	s.remote.until = r.Workload.Health(key).GraceStarts(ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false)).Add(remoteGrace)
	return nil, nil
}

// others reads which other objects have Nodes in the Cluster.
func (r *Reconciler) others(ctx context.Context, s *state) (o machinepool.Others, err error) {
	var machines clusterv1.MachineList
	var pools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&machines, &pools} {
		if err := r.Mgmt.List(ctx, list, client.InNamespace(s.pool.Namespace), client.MatchingFields{index.ClusterName: s.pool.Spec.ClusterName}, client.UnsafeDisableDeepCopy); err != nil {
			return o, fmt.Errorf("list what belongs to Cluster %s: %w", s.pool.Spec.ClusterName, err)
		}
	}
	return machinepool.NewOthers(s.pool, metadata.Pointers(machines.Items), metadata.Pointers(pools.Items)), nil
}

// nodesByID reads the Nodes with the provider IDs of the pool.
func nodesByID(ctx context.Context, remote client.Client, ids []string) (found map[string][]*corev1.Node, names map[string]bool, err error) {
	found, names = make(map[string][]*corev1.Node, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		var nodes corev1.NodeList
		if err := remote.List(ctx, &nodes, client.MatchingFields{workload.NodeByProviderID: id}); err != nil {
			return nil, nil, fmt.Errorf("list Nodes by spec.providerID %s: %w", id, err)
		}
		found[id] = metadata.Pointers(nodes.Items)
		for _, node := range found[id] {
			names[node.Name] = true
		}
	}
	return found, names, nil
}

// noted reads the Nodes of status.nodeRefs that still exist, except those in known.
func (r *Reconciler) noted(ctx context.Context, s *state, remote client.Client, known map[string]bool) (all []*corev1.Node, err error) {
	for _, ref := range s.pool.Status.NodeRefs {
		if known[ref.Name] || !machinepool.Own(ref) {
			continue
		}
		node := &corev1.Node{}
		switch err := remote.Get(ctx, client.ObjectKey{Name: ref.Name}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get Node %s: %w", ref.Name, err)
		default:
			all = append(all, node)
		}
	}
	return all, nil
}

// syncNode updates labels, annotations and taints of a Node.
func syncNode(ctx context.Context, s *state, remote client.Client, node *corev1.Node) error {
	before := node.DeepCopy()
	if !machinepool.Sync(s.pool, node) {
		return nil
	}
	// Taints are a list that other controllers write too, hence the lock.
	if err := remote.Patch(ctx, node.DeepCopy(), client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch Node %s: %w", node.Name, err)
	}
	return nil
}

// deleteNode deletes a Node whose infrastructure machine was deleted. A Node that
// is not found is no error.
func (r *Reconciler) deleteNode(ctx context.Context, s *state, remote client.Client, node *corev1.Node) error {
	if err := remote.Delete(ctx, node.DeepCopy(), client.Preconditions{UID: new(node.UID)}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Node %s: %w", node.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted Node", "Node", node.Name, "providerID", node.Spec.ProviderID)
	r.Recorder.Eventf(s.pool, nil, corev1.EventTypeNormal, "SuccessfulDeleteNode", "DeleteNode", "Node %s, whose host has gone", node.Name)
	return nil
}
