// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
	"github.com/capstan-dev/capstan/internal/pure/podstatus"
)

// Reconciler binds Pods, runs them and writes their status.
type Reconciler struct {
	Mgmt client.Client
	Node *Node
	// Secrets and ConfigMaps watch the objects that Pods name.
	Secrets, ConfigMaps Objects
}

// Setup registers the controller.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Node == nil || r.Secrets == nil || r.ConfigMaps == nil {
		return errors.New("set up the runner: a field is missing")
	}
	if err := mgr.Add(r.Node); err != nil {
		return err
	}
	return controller.For(mgr, "pod", &corev1.Pod{}).
		Unfiltered().
		Watches(&corev1.Node{}, r.waiting).
		WatchesSource(waker{r.Node}).
		WatchesSource(objects{r.Secrets, r.Node}).
		WatchesSource(objects{r.ConfigMaps, r.Node}).
		Complete(r)
}

// waiting returns the unbound Pods: the Node may be suitable for them now.
func (r *Reconciler) waiting(ctx context.Context, node client.Object) (keys []reconcile.Request) {
	all := &corev1.PodList{}
	if node.GetName() != r.Node.Object.Name || r.Mgmt.List(ctx, all) != nil { // a cache lists what it has
		return nil
	}
	for _, pod := range all.Items {
		if pod.Spec.NodeName == "" {
			keys = append(keys, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pod)})
		}
	}
	return keys
}

// Forget ends a Pod that was deleted outside the controller.
func (r *Reconciler) Forget(key client.ObjectKey) {
	r.follow(key, nil)
	if l := r.Node.named(key); l != nil {
		l.stop(0)
		r.Node.running.Go(l.part(func() {
			<-l.ended
			r.Node.forget(l)
		}))
	}
}

// Reconcile implements reconcile.ObjectReconciler. A Pod that causes a panic is
// skipped until it changes.
func (r *Reconciler) Reconcile(ctx context.Context, pod *corev1.Pod) (result ctrl.Result, err error) {
	err = recovery.Call(ctx, func() (err error) {
		result, err = r.reconcile(ctx, pod)
		return err
	})
	if _, panicked := errors.AsType[*recovery.Error](err); panicked {
		r.Node.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, "Panicked", "Running", "The Pod is left out until it changes: %.512s", err)
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, pod *corev1.Pod) (_ ctrl.Result, err error) {
	name := r.Node.Object.Name
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != name {
		return ctrl.Result{}, nil
	}
	l := r.Node.life(pod.UID)
	if !pod.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.end(ctx, pod, l)
	}
	if l == nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) {
		return ctrl.Result{}, nil
	}
	facts := podstatus.Facts{Pod: pod, Now: r.Node.Clock.Now()}
	var result ctrl.Result
	if l == nil {
		// A Pod that was replaced at once under its name is not reported as deleted.
		r.Forget(client.ObjectKeyFromObject(pod))
		problems := podspec.Check(pod)
		if pod.Spec.NodeName == "" {
			node, err := r.node(ctx)
			if err != nil {
				return ctrl.Result{}, err
			}
			if problems = append(problems, podspec.Fits(pod, node)...); len(problems) == 0 {
				problems, result.RequeueAfter = r.Node.waits(pod)
			}
			if len(problems) == 0 {
				return ctrl.Result{}, r.bind(ctx, pod)
			}
		}
		if facts.Unscheduled = podspec.Describe(problems); facts.Unscheduled == "" {
			var over bool
			if facts.Containers, over = podstatus.Interrupted(pod, facts.Now); !over {
				if l, err = r.Node.take(pod); err != nil {
					return ctrl.Result{}, fmt.Errorf("run the Pod: %w", err)
				}
				r.follow(client.ObjectKeyFromObject(pod), pod)
			}
		}
	}
	commit := patch.Snapshot(r.Mgmt, pod, patch.Locked) // other controllers write conditions, too
	if l != nil {
		l.update(pod)
		result.RequeueAfter = l.expire() // nothing else triggers a reconcile at that time
		facts = l.facts(pod)
	} else if facts.Unscheduled != "" {
		r.refused(pod, facts.Unscheduled)
	}
	pod.Status = podstatus.Compute(facts)
	if err := commit(ctx); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// refused reports once why a Pod is not run.
func (r *Reconciler) refused(pod *corev1.Pod, why string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message == why {
			return
		}
	}
	r.Node.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", why)
}

// follow watches the objects that a Pod names; none if the Pod is nil.
func (r *Reconciler) follow(key client.ObjectKey, pod *corev1.Pod) {
	var named podspec.Names
	if pod != nil {
		named = podspec.NamesOf(pod)
	}
	keys := func(names []string) (all []client.ObjectKey) {
		for _, name := range names {
			all = append(all, client.ObjectKey{Namespace: key.Namespace, Name: name})
		}
		return all
	}
	r.Secrets.Follow(key, keys(named.Secrets)...)
	r.ConfigMaps.Follow(key, keys(named.ConfigMaps)...)
}

// node returns the Node, which is created with the first Pod for it.
func (r *Reconciler) node(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := r.Mgmt.Get(ctx, client.ObjectKeyFromObject(r.Node.Object), node)
	if apierrors.IsNotFound(err) {
		node = r.Node.Object.DeepCopy()
		err = r.Mgmt.Create(ctx, node)
		node.Status = corev1.NodeStatus{} // it is created without a status
	}
	if err != nil {
		return nil, fmt.Errorf("make Node %s: %w", r.Node.Object.Name, err)
	}
	return node, r.report(ctx, node)
}

// report writes whether the Node is ready, and its resources.
func (r *Reconciler) report(ctx context.Context, node *corev1.Node) error {
	is, told := r.Node.Object.Status, node.Status
	if len(told.Conditions) > 0 && told.Conditions[0].Message == is.Conditions[0].Message && told.NodeInfo == is.NodeInfo {
		return nil
	}
	commit := patch.Snapshot(r.Mgmt, node)
	// The API server adds the taint to each new Node; in other clusters a
	// controller removes it when the Node is ready.
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	node.Labels = labels.Merge(node.Labels, r.Node.Object.Labels)
	node.Status = *is.DeepCopy()
	now := metav1.NewTime(r.Node.Clock.Now())
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastTransitionTime, node.Status.Conditions[i].LastHeartbeatTime = now, now
	}
	return commit(ctx)
}

func (r *Reconciler) bind(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: r.Node.Object.Name},
	}
	if err := r.Mgmt.SubResource("binding").Create(ctx, pod, binding); err != nil {
		return fmt.Errorf("bind the Pod to Node %s: %w", r.Node.Object.Name, err)
	}
	return nil
}

// end stops a Pod that is being deleted, and completes the deletion when the Pod
// has ended.
func (r *Reconciler) end(ctx context.Context, pod *corev1.Pod, l *life) error {
	if l != nil {
		l.update(pod)
		l.stop(l.grace())
		select {
		case <-l.ended:
		default:
			return nil // its end triggers a reconcile
		}
		r.Node.forget(l)
		r.follow(client.ObjectKeyFromObject(pod), nil)
	}
	if len(pod.Finalizers) > 0 && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 {
		return nil // others have to remove their finalizers
	}
	err := r.Mgmt.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the Pod that has ended: %w", err)
	}
	return nil
}
