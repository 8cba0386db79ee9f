// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// node finds the Node of the Machine, records it, and updates its labels,
// annotations and taints.
func (r *Reconciler) node(ctx context.Context, s *state) (reconciler.Next, error) {
	workloadClient, err := r.lookNode(ctx, s)
	if err != nil || s.seen.Node == nil {
		return reconciler.Continue(), err
	}
	m := s.machine
	if !m.Status.NodeRef.IsDefined() {
		m.Status.NodeRef.Name = s.seen.Node.Name
		ctrl.LoggerFrom(ctx).Info("Infrastructure has become a Node", "Node", s.seen.Node.Name)
		r.event(s, corev1.EventTypeNormal, "SuccessfulSetNodeRef", "SetNodeRef", "Node %s", s.seen.Node.Name)
	}
	m.Status.NodeInfo = s.seen.Node.Status.NodeInfo.DeepCopy()
	if s.pool != nil {
		machinepool.FollowKubelet(m)
	}

	before := s.seen.Node.DeepCopy()
	outdated, err := rollout.Superseded(s.deployment, s.set)
	if err != nil {
		return reconciler.Continue(), err
	}
	if !nodesync.Apply(s.seen.Node, nodesync.Want{Machine: m, Interruptible: interruptible(s), Outdated: outdated, Additional: r.Sync}) {
		return reconciler.Continue(), nil
	}
	// Taints are a list that other controllers write too, hence the lock.
	p := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	if err := workloadClient.Patch(ctx, s.seen.Node.DeepCopy(), p); err != nil {
		return reconciler.Continue(), fmt.Errorf("patch Node %s: %w", s.seen.Node.Name, err)
	}
	return reconciler.Continue(), nil
}

// lookNode finds the Node by its provider ID. The state has the reason if the Node
// is not found; only failures are returned as errors. The client is nil without a
// connection.
func (r *Reconciler) lookNode(ctx context.Context, s *state) (client.Client, error) {
	m := s.machine
	id, err := s.providerID()
	if err != nil {
		s.nodeErr = err
		return nil, err
	}
	if s.seen.Awaited = machinestatus.BeforeNode(m, s.cluster, id, s.infraMachine.String()); s.seen.Awaited != "" {
		return nil, nil
	}
	key := client.ObjectKeyFromObject(s.cluster)
	health := r.Workload.Health(key)
	s.seen.Connected, s.seen.LastProbe = health.Connected, health.LastProbeSuccess
	workloadClient, err := r.Workload.Client(ctx, key)
	if errors.Is(err, workload.ErrNotConnected) {
		s.seen.Connected, s.untried = false, health.Untried(s.now)
		s.seen.GraceEnds = health.GraceStarts(ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false)).Add(r.grace())
		if s.seen.LastProbe.IsZero() {
			s.seen.Awaited = fmt.Sprintf("Waiting for a connection to the workload cluster of Cluster %s", s.cluster.Name)
		}
		return nil, nil // the Source triggers a reconcile
	}
	if err != nil {
		s.nodeErr = err
		return nil, err
	}
	s.seen.Connected = true
	if s.seen.Node, err = findNode(ctx, workloadClient, m, id); err != nil {
		s.nodeErr = err
		return nil, err
	}
	if s.seen.Node == nil {
		s.seen.Gone = m.Status.NodeRef.IsDefined()
		s.seen.Awaited = fmt.Sprintf("Waiting for a Node with spec.providerID %s to exist", id)
	}
	return workloadClient, nil
}

func (s *state) providerID() (string, error) {
	if obj := s.infraMachine.Obj; obj != nil {
		return machinestatus.ProviderID(s.machine, obj.Unstructured, obj.Contract)
	}
	return s.machine.Spec.ProviderID, nil
}

func (r *Reconciler) grace() time.Duration {
	if r.RemoteGrace == 0 {
		return remoteGrace
	}
	return r.RemoteGrace
}

// findNode returns the Node of a Machine, by its provider ID or else by its name; nil
// if not found.
func findNode(ctx context.Context, workloadClient client.Client, m *clusterv1.Machine, id string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if id != "" {
		if err := workloadClient.List(ctx, &nodes, client.MatchingFields{workload.NodeByProviderID: id}); err != nil {
			return nil, fmt.Errorf("list Nodes by spec.providerID %s: %w", id, err)
		}
	}
	switch name := machinestatus.NodeName(m, id); {
	case len(nodes.Items) == 1:
		return &nodes.Items[0], nil
	case len(nodes.Items) > 1:
		return nil, fmt.Errorf("spec.providerID %s is that of Nodes %s and %s: delete the one that does not exist",
			id, nodes.Items[0].Name, nodes.Items[1].Name)
	case name != "":
		node := &corev1.Node{}
		err := workloadClient.Get(ctx, client.ObjectKey{Name: name}, node)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get Node %s: %w", name, err)
		}
		return machinestatus.ByName(node, id), nil
	}
	return nil, nil
}
