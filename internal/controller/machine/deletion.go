// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// stage is where a deletion stands.
type stage struct {
	reason, message string
	// sparesNode is why the Node is neither drained nor deleted; empty if it is.
	sparesNode string
	workload   client.Client // nil: not connected, or no Node to look after
}

// at notes where the deletion stands.
func (s *stage) at(reason, format string, args ...any) {
	s.reason, s.message = reason, fmt.Sprintf(format, args...)
}

// deletion lists what happens to a Machine that is deleted, in order.
func (r *Reconciler) deletion() []phase.Phase[*state] {
	return []phase.Phase[*state]{
		phase.Do("look around", r.lookAround),
		phase.Do("pre-drain hooks", waitForPreDrainHooks),
		phase.Do("drain", r.drain),
		phase.Do("volumes", r.waitForVolumes),
		phase.Do("pre-terminate hooks", waitForPreTerminateHooks),
		phase.Do("infrastructure", r.deleteInfrastructure),
		phase.Do("bootstrap", r.deleteBootstrap),
		phase.Do("node", r.deleteNode),
		phase.Do("finalizer", dropFinalizer),
	}
}

// delete takes the Machine down, as far as is possible now.
func (r *Reconciler) delete(ctx context.Context, s *state) (ctrl.Result, error) {
	s.stage.at(clusterv1.MachineDeletingReason, "")
	res, err := phase.InOrder(ctx, s, r.deletion()...)
	if err != nil && s.stage.reason == clusterv1.MachineDeletingReason {
		s.stage.at(clusterv1.MachineDeletingInternalErrorReason, "%v", err)
	}
	return res, err
}

// lookAround finds out what there is to delete, and whether the Node is part
// of it.
func (r *Reconciler) lookAround(ctx context.Context, s *state) (phase.Next, error) {
	for _, ref := range []*provider.Reference{&s.bootstrapConfig, &s.infraMachine} {
		if !ref.Ref.IsDefined() {
			continue
		}
		if err := r.look(ctx, s, ref); err != nil && !ref.Gone() {
			return phase.Continue(), err
		}
	}
	var err error
	if s.stage.workload, err = r.lookNode(ctx, s); err != nil {
		ctrl.LoggerFrom(ctx).V(2).Info("Looking for the Node to delete", "reason", err.Error()) // what needs the Node returns it
	}
	if s.node != nil {
		s.machine.Status.NodeRef.Name = s.node.Name // once its host has gone, nothing else may lead to it
	}
	if s.stage.sparesNode, err = r.sparesNode(ctx, s); err == nil && s.stage.sparesNode != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping drain and deletion of the Node", "reason", s.stage.sparesNode)
	}
	return phase.Continue(), err
}

// sparesNode says why the Node is left alone, or nothing if it is drained and
// deleted: there must be a Node, and a control plane that outlives it.
func (r *Reconciler) sparesNode(ctx context.Context, s *state) (string, error) {
	switch {
	case s.cluster == nil:
		return "its Cluster is gone", nil
	case !s.cluster.DeletionTimestamp.IsZero():
		return "the whole Cluster is being deleted", nil
	case s.node == nil && s.nodeErr == nil && !s.machine.Status.NodeRef.IsDefined():
		return "it has no Node", nil
	}
	if ref := s.cluster.Spec.ControlPlaneRef; ref.IsDefined() {
		cp, err := r.Providers.Get(ctx, s.cluster.Namespace, ref)
		switch {
		case apierrors.IsNotFound(err):
			return "the control plane is gone", nil
		case err != nil:
			return "", fmt.Errorf("spec.controlPlaneRef of Cluster %s: %w", s.cluster.Name, err)
		case !cp.GetDeletionTimestamp().IsZero():
			return "the control plane is being deleted", nil
		}
		c, err := contract.ControlPlaneFor(cp.Contract)
		if err != nil {
			return "", err
		}
		external, _, err := c.ExternallyManaged.Get(cp.Unstructured)
		if err != nil || external {
			return "", err
		}
	}
	var machines clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &machines, client.InNamespace(s.cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}, client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
		return "", fmt.Errorf("list control plane Machines: %w", err)
	}
	if !slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return m.DeletionTimestamp.IsZero() }) {
		return "no control plane Machine is left", nil
	}
	return "", nil
}

// began returns the status of the deletion, to note when a step began.
func began(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	if m.Status.Deletion == nil {
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{}
	}
	return m.Status.Deletion
}

// note stores when a step began, if that was not known, and returns it.
func note(at *metav1.Time, now time.Time) time.Time {
	if at.IsZero() {
		*at = metav1.NewTime(now.UTC().Truncate(time.Second))
	}
	return at.Time
}

func hooks(m *clusterv1.Machine, prefix string) (found []string) {
	for key := range m.Annotations {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

// waitForPreDrainHooks: whoever set the annotations wants to act before the
// Node is drained.
func waitForPreDrainHooks(_ context.Context, s *state) (phase.Next, error) {
	h := hooks(s.machine, clusterv1.PreDrainDeleteHookAnnotationPrefix)
	if s.stage.sparesNode != "" || len(h) == 0 {
		return phase.Continue(), nil
	}
	since := note(&began(s.machine).WaitForPreDrainHookStartTime, s.now)
	s.stage.at(clusterv1.MachineDeletingWaitingForPreDrainHookReason, "Waiting for pre-drain hooks to complete (since %s), that is for the removal of the annotations: %s", since.UTC().Format(time.RFC3339), strings.Join(h, ", "))
	return phase.Wait(0), nil
}

// waitForPreTerminateHooks: whoever set the annotations wants to act before
// the host goes, whether the Node was drained or not.
func waitForPreTerminateHooks(_ context.Context, s *state) (phase.Next, error) {
	h := hooks(s.machine, clusterv1.PreTerminateDeleteHookAnnotationPrefix)
	if len(h) == 0 {
		return phase.Continue(), nil
	}
	since := note(&began(s.machine).WaitForPreTerminateHookStartTime, s.now)
	s.stage.at(clusterv1.MachineDeletingWaitingForPreTerminateHookReason, "Waiting for pre-terminate hooks to complete (since %s), that is for the removal of the annotations: %s", since.UTC().Format(time.RFC3339), strings.Join(h, ", "))
	return phase.Wait(0), nil
}

func (r *Reconciler) deleteInfrastructure(ctx context.Context, s *state) (phase.Next, error) {
	return r.deleteReferred(ctx, s, &s.infraMachine, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
}

func (r *Reconciler) deleteBootstrap(ctx context.Context, s *state) (phase.Next, error) {
	return r.deleteReferred(ctx, s, &s.bootstrapConfig, clusterv1.MachineDeletingWaitingForBootstrapDeletionReason)
}

// deleteReferred asks for the deletion of an object and waits for it to go; the
// watch wakes us. What belongs to somebody else stays.
func (r *Reconciler) deleteReferred(ctx context.Context, s *state, ref *provider.Reference, reason string) (phase.Next, error) {
	if ref.Obj == nil {
		return phase.Continue(), nil
	}
	s.stage.at(reason, "Waiting for %s to be deleted", ref)
	asked := !ref.Obj.GetDeletionTimestamp().IsZero()
	if err := r.Providers.Remove(ctx, ref, claim.ByMachine(s.machine)); err != nil {
		return phase.Continue(), err
	}
	if ref.Held() {
		ctrl.LoggerFrom(ctx).Info("Leaving alone what the Machine refers to", ref.Ref.Kind, ref.Ref.Name, "reason", ref.Err.Error())
		return phase.Continue(), nil
	}
	if !asked {
		ctrl.LoggerFrom(ctx).Info("Deleting what the Machine refers to", ref.Ref.Kind, ref.Ref.Name)
	}
	return phase.Wait(0), nil
}

// deleteNode deletes the Node. It is tried until it succeeds or the time
// allowed for it is over; a host that is gone must not hold up the Machine.
func (r *Reconciler) deleteNode(ctx context.Context, s *state) (phase.Next, error) {
	if s.stage.sparesNode != "" {
		return phase.Continue(), nil
	}
	nodeName := s.machine.Status.NodeRef.Name
	if s.node != nil {
		nodeName = s.node.Name
	}
	s.stage.at(clusterv1.MachineDeletingDeletingNodeReason, "Deleting Node %s", nodeName)
	left, bounded := remaining(s.machine.DeletionTimestamp.Time, s.machine.Spec.Deletion.NodeDeletionTimeoutSeconds, s.now)
	if s.stage.workload == nil && s.nodeErr == nil {
		left = max(left, s.untried) // the time may have run out while nobody was there
		if bounded && left <= 0 {
			r.event(s, corev1.EventTypeWarning, "FailedDeleteNode", "DeleteNode", "Node %s is left behind: its workload cluster is not connected", nodeName)
			return phase.Continue(), nil
		}
		s.stage.at(clusterv1.MachineDeletingDeletingNodeReason, "Waiting for a connection to the workload cluster, to delete Node %s", nodeName)
		return phase.Wait(max(0, left)), nil
	}
	err := s.nodeErr
	if err == nil {
		err = s.stage.workload.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	}
	if client.IgnoreNotFound(err) == nil {
		ctrl.LoggerFrom(ctx).Info("Deleted Node", "Node", nodeName)
		return phase.Continue(), nil
	}
	r.event(s, corev1.EventTypeWarning, "FailedDeleteNode", "DeleteNode", "delete Node %s: %v", nodeName, err)
	if bounded && left <= 0 {
		ctrl.LoggerFrom(ctx).Info("Leaving Node behind, the time to delete it is over", "Node", nodeName, "reason", err.Error())
		return phase.Continue(), nil
	}
	s.stage.at(clusterv1.MachineDeletingDeletingNodeReason, "Deleting Node %s: %v", nodeName, err)
	return phase.Continue(), fmt.Errorf("delete Node %s: %w", nodeName, err)
}

// remaining tells how much of a time limit is left; without a limit bounded is
// false. Zero means no limit.
func remaining(since time.Time, seconds *int32, now time.Time) (left time.Duration, bounded bool) {
	if seconds == nil || *seconds == 0 {
		return 0, false
	}
	return since.Add(time.Duration(*seconds) * time.Second).Sub(now), true
}

func dropFinalizer(_ context.Context, s *state) (phase.Next, error) {
	s.stage.at(clusterv1.MachineDeletingDeletionCompletedReason, "Deletion completed")
	finalizer.Remove(s.machine, clusterv1.MachineFinalizer)
	return phase.Continue(), nil
}
