// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
		}
		pod.Spec.NodeName = b.Target.Name
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now()),
		})
		return nil
	})
}

// keepAllButContainers undoes what a write may not do that adds ephemeral
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
