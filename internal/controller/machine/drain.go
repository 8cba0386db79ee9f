// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/draining"
)

const (
	// evictionBudget bounds the evictions of one reconcile; the rest is for the next.
	evictionBudget = 10 * time.Second

	// Pods of workload clusters are not watched, there may be a great many, so
	// what leaves a Node is looked for: after firstLook, then with backoff.
	firstLook, lastLook = time.Second, 20 * time.Second

	podsPerPage = 100
)

// lookAfter tells when to look again at something that began at since.
func lookAfter(since, now time.Time) time.Duration {
	return min(max(now.Sub(since), firstLook), lastLook)
}

// skipsDrain says why the Node is not drained, or nothing if it is.
func skipsDrain(s *state) string {
	m := s.machine
	_, excluded := m.Annotations[clusterv1.ExcludeNodeDrainingAnnotation]
	switch {
	case excluded:
		return "the Machine has the annotation " + clusterv1.ExcludeNodeDrainingAnnotation
	default:
		return pastDraining(s)
	}
}

// pastDraining says why it is too late, or no use, to wait for anything on the
// Node; nothing if it is not.
func pastDraining(s *state) string {
	switch {
	case s.stage.sparesNode != "":
		return s.stage.sparesNode
	case s.machine.Status.Deletion != nil && !s.machine.Status.Deletion.WaitForPreTerminateHookStartTime.IsZero():
		return "the pre-terminate hooks are under way"
	case s.infraMachine.Obj == nil || !s.infraMachine.Obj.GetDeletionTimestamp().IsZero():
		return "the host is gone or going"
	default:
		return ""
	}
}

// drain evicts the Pods from the Node and waits for them to leave.
func (r *Reconciler) drain(ctx context.Context, s *state) (phase.Next, error) {
	if why := skipsDrain(s); why != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping drain", "reason", why)
		return phase.Continue(), nil
	}
	d := began(s.machine)
	since := note(&d.NodeDrainStartTime, s.now)
	left, bounded := remaining(since, s.machine.Spec.Deletion.NodeDrainTimeoutSeconds, s.now)
	if bounded && left <= 0 {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping drain", "reason", "its time is over")
		return phase.Continue(), nil
	}
	s.stage.at(clusterv1.MachineDeletingDrainingNodeReason, "Drain not completed yet (started at %s)", since.UTC().Format(time.RFC3339))
	if s.nodeErr != nil {
		s.stage.message += ": " + s.nodeErr.Error()
		return phase.Continue(), s.nodeErr
	}
	if s.stage.workload == nil {
		s.stage.message += ": waiting for a connection to the workload cluster"
		return phase.Wait(max(0, left)), nil
	}
	if s.node == nil {
		return phase.Continue(), nil
	}
	if err := cordon(ctx, s); err != nil {
		return phase.Continue(), err
	}
	verdicts, err := r.judge(ctx, s)
	if err != nil {
		return phase.Continue(), fmt.Errorf("drain Node %s: %w", s.node.Name, err)
	}
	todo := draining.Next(verdicts)
	var refused []draining.Refusal
	todo.Evict, refused = evict(ctx, s, todo.Evict)
	if todo.Done() {
		if d.WaitForNodeVolumeDetachStartTime.IsZero() {
			r.event(s, corev1.EventTypeNormal, "SuccessfulDrainNode", "DrainNode", "drained Node %s", s.node.Name)
		}
		return phase.Continue(), nil
	}
	s.stage.message = draining.Report(since, todo, refused)
	next := lookAfter(since, s.now)
	if bounded {
		next = min(next, left)
	}
	return phase.Wait(next), nil
}

// cordon keeps new Pods off the Node.
func cordon(ctx context.Context, s *state) error {
	if s.node.Spec.Unschedulable {
		return nil
	}
	before := s.node.DeepCopy()
	s.node.Spec.Unschedulable = true
	if err := s.stage.workload.Patch(ctx, s.node.DeepCopy(), client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("cordon Node %s: %w", s.node.Name, err)
	}
	return nil
}

// judge reads what a drain depends on and lets package draining decide.
func (r *Reconciler) judge(ctx context.Context, s *state) ([]draining.Verdict, error) {
	f := draining.Facts{Machine: s.machine, Cluster: s.cluster, Unreachable: unreachable(s.node), Now: s.now}
	var rules clusterv1.MachineDrainRuleList
	if err := r.Mgmt.List(ctx, &rules, client.InNamespace(s.machine.Namespace)); err != nil {
		return nil, fmt.Errorf("list MachineDrainRules: %w", err)
	}
	f.Rules = rules.Items
	var err error
	if f.Pods, err = podsOf(ctx, s.stage.workload, s.node.Name); err != nil {
		return nil, err
	}
	if f.DaemonSets, err = daemonSetsOf(ctx, s.stage.workload, f.Pods); err != nil {
		return nil, err
	}
	for _, rule := range f.Rules {
		for _, p := range rule.Spec.Pods {
			if p.NamespaceSelector != nil && f.NamespaceLabels == nil {
				if f.NamespaceLabels, err = namespaceLabels(ctx, s.stage.workload); err != nil {
					return nil, err
				}
			}
		}
	}
	return draining.Judge(f)
}

func podsOf(ctx context.Context, workloadClient client.Client, node string) (all []corev1.Pod, err error) {
	page := &corev1.PodList{}
	for {
		if err := workloadClient.List(ctx, page, client.MatchingFields{"spec.nodeName": node}, client.Limit(podsPerPage), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("list Pods: %w", err)
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			return all, nil
		}
	}
}

// daemonSetsOf tells which DaemonSets that own one of the Pods exist.
func daemonSetsOf(ctx context.Context, workloadClient client.Client, pods []corev1.Pod) (map[types.NamespacedName]bool, error) {
	exists := map[types.NamespacedName]bool{}
	for i := range pods {
		o := metav1.GetControllerOfNoCopy(&pods[i])
		if o == nil || o.Kind != "DaemonSet" {
			continue
		}
		key := types.NamespacedName{Namespace: pods[i].Namespace, Name: o.Name}
		if _, known := exists[key]; known {
			continue
		}
		err := workloadClient.Get(ctx, key, &appsv1.DaemonSet{})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get DaemonSet %s: %w", key, err)
		}
		exists[key] = err == nil
	}
	return exists, nil
}

func namespaceLabels(ctx context.Context, workloadClient client.Client) (map[string]map[string]string, error) {
	var namespaces corev1.NamespaceList
	if err := workloadClient.List(ctx, &namespaces); err != nil {
		return nil, fmt.Errorf("list Namespaces: %w", err)
	}
	out := map[string]map[string]string{}
	for _, n := range namespaces.Items {
		out[n.Name] = n.Labels
	}
	return out, nil
}

// evict asks for the eviction of Pods until the budget of time is used. It
// returns those that are still to be waited for, and why some were refused.
func evict(ctx context.Context, s *state, pods []*corev1.Pod) (left []*corev1.Pod, refused []draining.Refusal) {
	within, cancel := context.WithTimeout(ctx, evictionBudget)
	defer cancel()
	log := ctrl.LoggerFrom(ctx)
	var grace *int64
	if unreachable(s.node) {
		grace = new(int64(1)) // nobody is there to use a longer one
	}
	for i, pod := range pods {
		if within.Err() != nil {
			return append(left, pods[i:]...), append(refused, draining.Refusal{Pod: pod, Why: "its turn comes next, evictions take long"})
		}
		log.Info("Evicting Pod", "Pod", draining.Key(pod))
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: new(pod.UID)}},
		}
		err := s.stage.workload.SubResource("eviction").Create(within, pod.DeepCopy(), eviction)
		if apierrors.IsNotFound(err) {
			continue // it went by itself
		}
		left = append(left, pod)
		if why := refusal(err); why != "" {
			refused = append(refused, draining.Refusal{Pod: pod, Why: why})
		}
	}
	return left, refused
}

// refusal says why an eviction was refused; nothing if it was not.
func refusal(err error) string {
	switch {
	case err == nil || apierrors.IsConflict(err): // a conflict: another Pod has its name, perhaps on this Node
		return ""
	case apierrors.IsTooManyRequests(err) && len(causes(err)) > 0: // without causes the API server is only busy
		return "cannot evict pod as it would violate the pod's disruption budget. " + strings.Join(causes(err), " ")
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "the namespace is being deleted, waiting for it to take the pod along"
	default:
		return "failed to evict Pod, " + err.Error()
	}
}

// causes lists what the API server gives as reasons.
func causes(err error) (out []string) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			out = append(out, cause.Message)
		}
	}
	return out
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
