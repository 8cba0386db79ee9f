// SPDX-License-Identifier: Apache-2.0

package machinedeletion

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/machine/draining"
)

// The minimum and maximum time between two polls of a Node; see the package comment.
const firstLook, lastLook = time.Second, 20 * time.Second

// spared returns why the Node is neither drained nor deleted; empty if it is: a Node
// must exist, and a control plane that is not deleted with it.
func (p *planner) spared() (why string, known bool) {
	switch {
	case p.Cluster == nil:
		return "its Cluster is gone", true
	case !p.Cluster.DeletionTimestamp.IsZero():
		return "the whole Cluster is being deleted", true
	case p.Node == nil && p.NodeFailure == nil && !p.Machine.Status.NodeRef.IsDefined():
		return "it has no Node", true
	}
	if p.Cluster.Spec.ControlPlaneRef.IsDefined() {
		switch cp, known := p.Ask(Question{Kind: ControlPlane}); {
		case !known:
			return "", false
		case cp.Going:
			return "the control plane is being deleted", true
		case cp.External:
			return "", true
		}
	}
	left, known := p.Ask(Question{Kind: ControlPlaneMachines})
	if known && left.Number == 0 {
		return "no control plane Machine is left", true
	}
	return "", known
}

// tooLate returns why it is too late, or useless, to wait for anything on the Node;
// empty if it is not.
func (p *planner) tooLate(exclusion string) (why string, known bool) {
	if _, excluded := p.Machine.Annotations[exclusion]; excluded {
		return "the Machine has the annotation " + exclusion, true
	}
	switch spared, known := p.spared(); {
	case !known || spared != "":
		return spared, known
	case p.plan.Began != nil && !p.plan.Began.WaitForPreTerminateHookStartTime.IsZero():
		return "the pre-terminate hooks are under way", true
	case !p.Infrastructure.Exists || p.Infrastructure.Going:
		return "the host is gone or going", true
	}
	return "", true
}

// drain evicts the Pods from the Node and waits until they are deleted.
func drain(p *planner) (bool, error) {
	if why, known := p.tooLate(clusterv1.ExcludeNodeDrainingAnnotation); !known {
		return false, nil
	} else if why != "" {
		p.skip("drain", why)
		return true, nil
	}
	since := p.note(&p.began().NodeDrainStartTime)
	left, bounded := p.remaining(since, p.Machine.Spec.Deletion.NodeDrainTimeoutSeconds)
	if bounded && left <= 0 {
		p.skip("drain", "its time is over")
		return true, nil
	}
	p.at(clusterv1.MachineDeletingDrainingNodeReason, "Drain not completed yet (started at %s)", since.UTC().Format(time.RFC3339))
	if read, err := p.nodeRead(left); !read || p.Node == nil {
		return read, err
	}
	todo, refused, known, err := p.evict()
	if err != nil || !known {
		return false, err
	}
	if todo.Done() {
		if p.began().WaitForNodeVolumeDetachStartTime.IsZero() {
			p.record(corev1.EventTypeNormal, "SuccessfulDrainNode", "DrainNode", "drained Node %s", p.Node.Name)
		}
		return true, nil
	}
	p.plan.Message = draining.Report(since, todo, refused)
	p.lookAfter(since, left, bounded)
	return false, nil
}

// nodeRead reports whether the Node was read, whether or not it exists. A step that needs
// it waits until then.
func (p *planner) nodeRead(left time.Duration) (bool, error) {
	switch {
	case p.NodeFailure != nil:
		p.plan.Message += ": " + p.NodeFailure.Error()
		return false, p.NodeFailure
	case !p.Connected:
		p.plan.Message += ": waiting for a connection to the workload cluster"
		p.plan.After = max(0, left)
		return false, nil
	}
	return true, nil
}

// evict evicts the next Pods. It returns the Pods still to wait for, and which evictions
// were refused.
func (p *planner) evict() (todo draining.Plan, refused []draining.Refusal, known bool, err error) {
	if !p.Node.Spec.Unschedulable { // first, so that no Pod is added after the others are counted
		if _, known := p.Ask(Question{Kind: DoCordon}); !known {
			return todo, nil, false, nil
		}
	}
	verdicts, known, err := p.drainDecisions()
	if err != nil || !known {
		return todo, nil, false, err
	}
	todo = draining.Next(verdicts)
	var grace int64
	if unreachable(p.Node) {
		grace = 1 // no kubelet can use a longer one
	}
	var left []*corev1.Pod
	for _, pod := range todo.Evict {
		a, ok := p.Ask(Question{Kind: DoEvict, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Grace: grace})
		known = known && ok
		if !a.Gone {
			left = append(left, pod)
		}
		if a.Refused != "" {
			refused = append(refused, draining.Refusal{Pod: pod, Why: a.Refused})
		}
	}
	todo.Evict = left
	return todo, refused, known, nil
}

// drainDecisions requests the facts for a drain and returns the decision of package draining.
func (p *planner) drainDecisions() (verdicts []draining.Result, known bool, err error) {
	rules, known := p.Ask(Question{Kind: DrainRules})
	if !known {
		return nil, false, nil
	}
	pods, known := p.Ask(Question{Kind: Pods, Name: p.Node.Name})
	if !known {
		return nil, false, nil
	}
	f := draining.Facts{
		Machine: p.Machine, Cluster: p.Cluster, Rules: rules.Rules, Pods: pods.Pods, Unreachable: unreachable(p.Node), Now: p.Now,
		DaemonSets: map[types.NamespacedName]bool{},
	}
	for _, key := range f.DaemonSetsOfPods() {
		a, ok := p.Ask(Question{Kind: DaemonSet, Namespace: key.Namespace, Name: key.Name})
		known, f.DaemonSets[key] = known && ok, a.Exists
	}
	if !known {
		return nil, false, nil
	}
	if f.SelectsNamespaces() {
		a, known := p.Ask(Question{Kind: NamespaceLabels})
		if !known {
			return nil, false, nil
		}
		f.NamespaceLabels = a.Labels
	}
	if verdicts, err = draining.Evaluate(f); err != nil {
		return nil, false, fmt.Errorf("drain Node %s: %w", p.Node.Name, err)
	}
	return verdicts, true, nil
}

// volumes waits until the volumes of drained Pods are detached from the Node: a volume
// that is not detached cleanly may not be attachable to another Node for minutes.
func volumes(p *planner) (bool, error) {
	why, known := "", true
	switch {
	case p.Node == nil && p.Connected:
		why = "the Node does not exist"
	case p.Node != nil && unreachable(p.Node):
		why = "the Node is unreachable, no kubelet would detach them"
	default:
		why, known = p.tooLate(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation)
	}
	if !known {
		return false, nil
	}
	if why != "" {
		p.skip("wait for volumes", why)
		return true, nil
	}
	since := p.note(&p.began().WaitForNodeVolumeDetachStartTime)
	left, bounded := p.remaining(since, p.Machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds)
	if bounded && left <= 0 {
		p.skip("wait for volumes", "its time is over")
		return true, nil
	}
	p.at(clusterv1.MachineDeletingWaitingForVolumeDetachReason, "Waiting for Node volumes to be detached (started at %s)", since.UTC().Format(time.RFC3339))
	if read, err := p.nodeRead(left); !read {
		return false, err
	}
	attached, known, err := p.attached()
	if err != nil || !known || len(attached) == 0 {
		return known, err
	}
	p.plan.Message += ":\n* " + strings.Join(attached, "\n* ")
	p.lookAfter(since, left, bounded)
	return false, nil
}

// attached lists the volumes to wait for. The facts that distinguish them are requested
// only if there are any.
func (p *planner) attached() (all []string, known bool, err error) {
	a, known := p.Ask(Question{Kind: VolumeAttachments})
	if !known {
		return nil, false, nil
	}
	v := draining.Volumes{Node: p.Node, Attachments: a.Attachments, PersistentVolumes: map[string]corev1.PersistentVolume{}}
	if len(v.Attached()) == 0 {
		return nil, true, nil
	}
	if a, known = p.Ask(Question{Kind: PersistentVolumes}); !known {
		return nil, false, nil
	}
	for _, pv := range a.Volumes {
		v.PersistentVolumes[pv.Name] = pv
	}
	if v.Results, known, err = p.drainDecisions(); err != nil || !known {
		return nil, false, err
	}
	return v.Attached(), true, nil
}

// node deletes the Node. It retries until it succeeds or its timeout expires; a deleted
// infrastructure machine must not block the deletion of the Machine.
func node(p *planner) (bool, error) {
	why, known := p.spared()
	if !known {
		return false, nil
	}
	if why != "" {
		p.skip("deletion of the Node", why)
		return true, nil
	}
	name := p.Machine.Status.NodeRef.Name
	if p.Node != nil {
		name = p.Node.Name
	}
	left, bounded := p.remaining(p.Machine.DeletionTimestamp.Time, p.Machine.Spec.Deletion.NodeDeletionTimeoutSeconds)
	if !p.Connected && p.NodeFailure == nil {
		left = max(left, p.Untried) // the timeout may have expired while no controller ran
		if bounded && left <= 0 {
			p.at(clusterv1.MachineDeletingDeletingNodeReason, "Deleting Node %s", name)
			p.record(corev1.EventTypeWarning, "FailedDeleteNode", "DeleteNode", "Node %s is left behind: its workload cluster is not connected", name)
			return true, nil
		}
		p.at(clusterv1.MachineDeletingDeletingNodeReason, "Waiting for a connection to the workload cluster, to delete Node %s", name)
		p.plan.After = max(0, left)
		return false, nil
	}
	p.at(clusterv1.MachineDeletingDeletingNodeReason, "Deleting Node %s", name)
	failure := p.NodeFailure
	if failure == nil {
		a, known := p.Ask(Question{Kind: DoDeleteNode, Name: name})
		if !known {
			return false, nil
		}
		failure = a.NodeNotGone
	}
	if failure == nil {
		return true, nil
	}
	p.record(corev1.EventTypeWarning, "FailedDeleteNode", "DeleteNode", "delete Node %s: %v", name, failure)
	if bounded && left <= 0 {
		p.skip("deletion of the Node", "its time is over: "+failure.Error())
		return true, nil
	}
	p.at(clusterv1.MachineDeletingDeletingNodeReason, "Deleting Node %s: %v", name, failure)
	return false, fmt.Errorf("delete Node %s: %w", name, failure)
}

// note returns when a step started, now if it had not.
func (p *planner) note(at *metav1.Time) time.Time {
	if at.IsZero() {
		*at = metav1.NewTime(p.Now.UTC().Truncate(time.Second))
	}
	return at.Time
}

// remaining returns how much of a timeout is left; without a timeout bounded is false.
// Zero means no timeout.
func (p *planner) remaining(since time.Time, seconds *int32) (left time.Duration, bounded bool) {
	if seconds == nil || *seconds == 0 {
		return 0, false
	}
	return since.Add(time.Duration(*seconds) * time.Second).Sub(p.Now), true
}

// lookAfter sets when to poll again in a step that started at since.
func (p *planner) lookAfter(since time.Time, left time.Duration, bounded bool) {
	p.plan.After = min(max(p.Now.Sub(since), firstLook), lastLook)
	if bounded {
		p.plan.After = min(p.plan.After, left)
	}
}

// unreachable reports whether the Node's kubelet does not answer.
func unreachable(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionUnknown
		}
	}
	return false
}
