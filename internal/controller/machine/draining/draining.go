// SPDX-License-Identifier: Apache-2.0

// Package draining decides what happens to each Pod when a Node is drained, and when its
// volumes are detached.
package draining

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// staleAfter is how long a Pod on an unreachable Node can be terminating before it
// counts as deleted: its kubelet cannot report the deletion.
const staleAfter = time.Second

// Behavior is what draining does to a Pod.
type Behavior = clusterv1.MachineDrainRuleDrainBehavior

// Facts are the input of the decision.
type Facts struct {
	Machine *clusterv1.Machine
	Cluster *clusterv1.Cluster
	Rules   []clusterv1.MachineDrainRule // of the Machine's namespace
	Pods    []corev1.Pod                 // on the Node
	// NamespaceLabels are the labels of the Pods' namespaces; only needed if a rule
	// selects by them.
	NamespaceLabels map[string]map[string]string
	// DaemonSets that exist; Pods of others are orphans and are drained.
	DaemonSets map[types.NamespacedName]bool
	// Unreachable says that the Node's kubelet does not answer.
	Unreachable bool
	Now         time.Time
}

// SelectsNamespaces reports whether a rule selects by labels of namespaces.
func (f Facts) SelectsNamespaces() bool {
	return slices.ContainsFunc(f.Rules, func(rule clusterv1.MachineDrainRule) bool {
		return slices.ContainsFunc(rule.Spec.Pods, func(p clusterv1.MachineDrainRulePodSelector) bool { return p.NamespaceSelector != nil })
	})
}

// DaemonSetsOfPods lists the DaemonSets that own Pods, each once.
func (f Facts) DaemonSetsOfPods() (all []types.NamespacedName) {
	for i := range f.Pods {
		if key := daemonSet(&f.Pods[i]); key != nil && !slices.Contains(all, *key) {
			all = append(all, *key)
		}
	}
	return all
}

// daemonSet is the DaemonSet that owns a Pod; nil for none.
func daemonSet(pod *corev1.Pod) *types.NamespacedName {
	o := metav1.GetControllerOfNoCopy(pod)
	if o == nil || o.Kind != "DaemonSet" {
		return nil
	}
	return &types.NamespacedName{Namespace: pod.Namespace, Name: o.Name}
}

// Result is the behavior for one Pod, and its reason.
type Result struct {
	Pod      *corev1.Pod
	Behavior Behavior
	// Order in which Pods are evicted, lowest first. Waiting for a Pod to complete has
	// order 0.
	Order int32
	// Note is a warning for the user, such as lost data; empty for none.
	Note string
}

// evaluate is one of the rules below. ok is false if the rule does not apply.
type check func(Facts, *corev1.Pod) (v Result, ok bool, err error)

// inOrder are the rules; the first that applies decides. A Pod to which no rule applies
// is evicted.
var inOrder = []check{goneOnUnreachable, ofDaemonSet, mirrored, byLabel, byRule}

// Evaluate returns a Result for each Pod, in the order of namespace and name.
func Evaluate(f Facts) ([]Result, error) {
	f.Rules = slices.SortedFunc(slices.Values(f.Rules), func(a, b clusterv1.MachineDrainRule) int { return cmp.Compare(a.Name, b.Name) })
	out := make([]Result, 0, len(f.Pods))
	for i := range f.Pods {
		v, err := f.evaluate(&f.Pods[i])
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b Result) int { return strings.Compare(Key(a.Pod), Key(b.Pod)) })
	return out, nil
}

func (f Facts) evaluate(pod *corev1.Pod) (Result, error) {
	for _, rule := range inOrder {
		v, ok, err := rule(f, pod)
		if err != nil {
			return v, err
		}
		if ok {
			v.Pod = pod
			return v, nil
		}
	}
	return Result{Pod: pod, Behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain, Note: warning(pod)}, nil
}

// goneOnUnreachable: no kubelet can finish the Pod, so it does not block.
func goneOnUnreachable(f Facts, pod *corev1.Pod) (Result, bool, error) {
	gone := f.Unreachable && pod.DeletionTimestamp != nil && f.Now.Sub(pod.DeletionTimestamp.Time) > staleAfter
	return skip(), gone, nil
}

// ofDaemonSet: its DaemonSet would only recreate it; without one it is an orphan.
func ofDaemonSet(f Facts, pod *corev1.Pod) (Result, bool, error) {
	key := daemonSet(pod)
	if key == nil || finished(pod) {
		return Result{}, false, nil
	}
	return skip(), f.DaemonSets[*key], nil
}

// mirrored: a static Pod belongs to the kubelet and cannot be evicted.
func mirrored(_ Facts, pod *corev1.Pod) (Result, bool, error) {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return skip(), is, nil
}

// byLabel: the Pod's own label decides.
func byLabel(_ Facts, pod *corev1.Pod) (Result, bool, error) {
	switch strings.ToLower(pod.Labels[clusterv1.PodDrainLabel]) {
	case "skip":
		return skip(), true, nil
	case "wait-completed", "waitcompleted":
		return Result{Behavior: clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted}, true, nil
	}
	return Result{}, false, nil
}

// byRule: the first rule, by name, that matches machine and Pod.
func byRule(f Facts, pod *corev1.Pod) (Result, bool, error) {
	for i := range f.Rules {
		rule := &f.Rules[i]
		ok, err := f.matches(rule, pod)
		if err != nil {
			return Result{}, false, fmt.Errorf("MachineDrainRule %s/%s: %w", rule.Namespace, rule.Name, err)
		}
		if !ok {
			continue
		}
		v := Result{Behavior: rule.Spec.Drain.Behavior}
		switch v.Behavior {
		case clusterv1.MachineDrainRuleDrainBehaviorDrain:
			v.Note, v.Order = warning(pod), ptr.Deref(rule.Spec.Drain.Order, 0)
		case clusterv1.MachineDrainRuleDrainBehaviorSkip, clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted:
		default:
			return v, false, fmt.Errorf("MachineDrainRule %s/%s: unknown spec.drain.behavior %q", rule.Namespace, rule.Name, v.Behavior)
		}
		return v, true, nil
	}
	return Result{}, false, nil
}

// matches reports whether a rule applies to a Pod on this machine: any entry for
// machines and any for Pods must match, and no entries match all. A Pod is not evaluated
// if its machine does not match, so that a mistake in spec.pods does not block the drain
// of other machines.
func (f Facts) matches(rule *clusterv1.MachineDrainRule, pod *corev1.Pod) (bool, error) {
	machine := len(rule.Spec.Machines) == 0
	for _, s := range rule.Spec.Machines {
		ok, err := both(s.Selector, f.Machine.Labels, s.ClusterSelector, f.Cluster.Labels)
		if err != nil {
			return false, fmt.Errorf("spec.machines: %w", err)
		}
		machine = machine || ok
	}
	if !machine {
		return false, nil
	}
	if len(rule.Spec.Pods) == 0 {
		return true, nil
	}
	for _, s := range rule.Spec.Pods {
		ok, err := both(s.Selector, pod.Labels, s.NamespaceSelector, f.NamespaceLabels[pod.Namespace])
		if err != nil {
			return false, fmt.Errorf("spec.pods: %w", err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

// both reports whether both selectors match; an absent selector matches.
func both(a *metav1.LabelSelector, onA map[string]string, b *metav1.LabelSelector, onB map[string]string) (bool, error) {
	for _, part := range []struct {
		selector *metav1.LabelSelector
		on       map[string]string
	}{{a, onA}, {b, onB}} {
		if part.selector == nil {
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(part.selector)
		if err != nil {
			return false, err
		}
		if !s.Matches(labels.Set(part.on)) {
			return false, nil
		}
	}
	return true, nil
}

// warning returns what an eviction loses.
func warning(pod *corev1.Pod) string {
	var notes []string
	if !finished(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil }) {
		notes = append(notes, "its emptyDir data is lost")
	}
	if metav1.GetControllerOfNoCopy(pod) == nil && !finished(pod) {
		notes = append(notes, "it has no controller that would create it again")
	}
	return strings.Join(notes, ", ")
}

func skip() Result { return Result{Behavior: clusterv1.MachineDrainRuleDrainBehaviorSkip} }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Key is the namespace/name of a Pod.
func Key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// Plan is the next step of the drain.
type Plan struct {
	Evict       []*corev1.Pod // to evict now
	Terminating []*corev1.Pod // evicted already, not deleted yet
	Completing  []*corev1.Pod // the drain waits until they complete
	// The next two wait until the Pods above are deleted.
	Later, CompletingLater []*corev1.Pod
}

// Done reports whether the Node is drained.
func (p Plan) Done() bool {
	return len(p.Evict)+len(p.Terminating)+len(p.Completing)+len(p.Later)+len(p.CompletingLater) == 0
}

// Next selects the Pods of the lowest order that still exist. A Pod that has completed
// needs no wait for its completion.
func Next(results []Result) (p Plan) {
	const wait = clusterv1.MachineDrainRuleDrainBehaviorWaitCompleted
	left := slices.DeleteFunc(slices.Clone(results), func(v Result) bool {
		return v.Behavior == clusterv1.MachineDrainRuleDrainBehaviorSkip || v.Behavior == wait && finished(v.Pod)
	})
	lowest := int32(math.MaxInt32)
	for _, v := range left {
		lowest = min(lowest, v.Order)
	}
	for _, v := range left {
		switch {
		case v.Behavior == wait && v.Order == lowest:
			p.Completing = append(p.Completing, v.Pod)
		case v.Behavior == wait:
			p.CompletingLater = append(p.CompletingLater, v.Pod)
		case v.Pod.DeletionTimestamp != nil:
			p.Terminating = append(p.Terminating, v.Pod)
		case v.Order != lowest:
			p.Later = append(p.Later, v.Pod)
		default:
			p.Evict = append(p.Evict, v.Pod)
		}
	}
	return p
}
