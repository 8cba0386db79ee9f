// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var (
	podKind    = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	budgetKind = kinds.Everywhere().ByKind(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"))
)

// Evict deletes a Pod unless that would leave a PodDisruptionBudget with fewer
// healthy Pods than it needs; then the error is TooManyRequests. What a budget
// allows is counted at that moment, for its status may be behind.
func (s *Store) Evict(namespace, name string, o metav1.DeleteOptions) error {
	s.evicting.Lock()
	defer s.evicting.Unlock()
	e, err := s.Entry(podKind, namespace, name)
	if err != nil {
		return err
	}
	latest, err := Read(podKind, e)
	if err != nil {
		return err
	}
	var pod corev1.Pod
	if err := cmp.Or(checkPreconditions(podKind, latest, o.Preconditions), into(latest, &pod)); err != nil {
		return err
	}
	if guarded(&pod) {
		if err := s.checkBudgets(&pod); err != nil {
			return err
		}
	}
	if len(o.DryRun) == 0 && len(pod.Finalizers) > 0 { // others are deleted before they could show it
		if err := Modify(s, &pod, func(p *corev1.Pod) error {
			target := corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
				Message: "Eviction API: evicting", LastTransitionTime: metav1.NewTime(s.clock.Now()),
			}
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == target.Type })
			p.Status.Conditions = append(p.Status.Conditions, target)
			return nil
		}); err != nil {
			return err
		}
		o.Preconditions = &metav1.Preconditions{UID: &e.UID} // the version is another now
	}
	_, _, err = s.Delete(podKind, namespace, name, o)
	return err
}

// guarded reports whether losing the Pod may disrupt anything.
func guarded(pod *corev1.Pod) bool {
	done := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodPending
	return !done && pod.DeletionTimestamp == nil
}

func (s *Store) checkBudgets(pod *corev1.Pod) error {
	entries, _ := s.raw.List(budgetKind.GroupResource(), pod.Namespace)
	var budgets []policyv1.PodDisruptionBudget
	for _, e := range entries {
		var b policyv1.PodDisruptionBudget
		if err := json.Unmarshal(e.Raw, &b); err != nil {
			return fmt.Errorf("read disruption budget %s: %w", e.Key.Name, err)
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return fmt.Errorf("selector of disruption budget %s: %w", b.Name, err)
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			budgets = append(budgets, b)
		}
	}
	switch len(budgets) {
	case 0:
		return nil
	case 1:
		return s.checkBudget(&budgets[0], pod)
	}
	return apierrors.NewInternalError(fmt.Errorf("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")) // the words of an API server
}

func (s *Store) checkBudget(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) error {
	healthy, needed, _, err := s.Disruptions(b)
	if err != nil {
		return err
	}
	if !ready(pod) {
		always := b.Spec.UnhealthyPodEvictionPolicy != nil && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow
		if always || (healthy >= needed && needed > 0) {
			return nil
		}
	}
	if healthy > needed {
		return nil
	}
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    policyv1.DisruptionBudgetCause,
		Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, needed, healthy),
	}}
	return refusal
}

// Disruptions returns how many Pods of a budget are healthy, how many of them it needs,
// and how many there should be: as many as their controllers desire, or as exist.
func (s *Store) Disruptions(b *policyv1.PodDisruptionBudget) (healthy, needed, expected int, err error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return 0, 0, 0, err
	}
	entries, _ := s.raw.List(podKind.GroupResource(), b.Namespace)
	of := map[types.UID]int{} // how many there are of each controller
	for _, e := range entries {
		if !selector.Matches(labels.Set(e.Labels)) {
			continue
		}
		var pod corev1.Pod
		if err := json.Unmarshal(e.Raw, &pod); err != nil {
			return 0, 0, 0, fmt.Errorf("read pod %s: %w", e.Key.Name, err)
		}
		if ready(&pod) && pod.DeletionTimestamp == nil {
			healthy++
		}
		if owner := metav1.GetControllerOf(&pod); owner != nil {
			of[owner.UID]++
		} else {
			expected++
		}
	}
	for controller, pods := range of {
		if wanted, ok := s.replicasOf(controller); ok {
			pods = wanted
		}
		expected += pods
	}
	needed, err = needs(b, expected)
	return healthy, needed, expected, err
}

func (s *Store) replicasOf(uid types.UID) (int, bool) {
	for _, e := range s.raw.Select(func(e *store.Entry) bool { return e.UID == uid }) {
		var o struct {
			Spec struct {
				Replicas *int `json:"replicas"`
			} `json:"spec"`
		}
		if json.Unmarshal(e.Raw, &o) == nil && o.Spec.Replicas != nil {
			return *o.Spec.Replicas, true
		}
	}
	return 0, false
}

// needs is how many healthy Pods a budget requires.
func needs(b *policyv1.PodDisruptionBudget, expected int) (int, error) {
	switch {
	case b.Spec.MaxUnavailable != nil:
		lost, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, expected, true)
		return max(0, expected-lost), err
	case b.Spec.MinAvailable != nil:
		return intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, expected, true)
	}
	return 1, nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Bind gives a Pod to a node, as schedulers do.
func (s *Store) Bind(namespace string, b *corev1.Binding) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.Name}}
	return Modify(s, pod, func(pod *corev1.Pod) error {
		switch {
		case b.UID != "" && b.UID != pod.UID:
			return apierrors.NewConflict(podKind.GroupResource(), b.Name, fmt.Errorf(
				"Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, pod.UID)) // the words of an API server
		case pod.DeletionTimestamp != nil:
			return apierrors.NewConflict(corev1.Resource("pods/binding"), b.Name, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", b.Name))
		case pod.Spec.NodeName != "":
			return apierrors.NewConflict(corev1.Resource("pods/binding"), b.Name, fmt.Errorf("pod %s is already assigned to node %q", b.Name, pod.Spec.NodeName))
		case len(pod.Spec.SchedulingGates) > 0:
			return apierrors.NewConflict(corev1.Resource("pods/binding"), b.Name, fmt.Errorf("pod %s has non-empty .spec.schedulingGates", b.Name))
		}
		pod.Spec.NodeName = b.Target.Name
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now()),
		})
		return nil
	})
}

// keepAllButContainers reverts what a write must not change that adds ephemeral
// containers to a Pod, or resizes its containers.
func keepAllButContainers(sub string, latest, next *unstructured.Unstructured) {
	wanted := next.DeepCopy()
	managed := next.GetManagedFields()
	carry(next, latest, "metadata", "spec", "status")
	next.SetManagedFields(managed)
	spec, _ := next.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if sub == "ephemeralcontainers" {
		if list, ok, _ := unstructured.NestedSlice(wanted.Object, "spec", "ephemeralContainers"); ok {
			spec["ephemeralContainers"] = list
		}
		return
	}
	for _, field := range []string{"containers", "initContainers"} {
		from, _, _ := unstructured.NestedSlice(wanted.Object, "spec", field)
		to, _ := spec[field].([]any)
		for i := range min(len(from), len(to)) {
			was, _ := to[i].(map[string]any)
			is, _ := from[i].(map[string]any)
			if was != nil && is != nil && was["name"] == is["name"] && is["resources"] != nil {
				was["resources"] = is["resources"]
			}
		}
	}
}
