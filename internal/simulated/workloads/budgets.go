// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var budgets = schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"}

// budget keeps what a PodDisruptionBudget reports. Evictions do not go by it:
// they count for themselves.
func (c *Controllers) budget(key store.Key) (time.Time, error) {
	b := read[policyv1.PodDisruptionBudget](c, key)
	if b == nil {
		delete(c.view.picks, key)
		return time.Time{}, nil
	}
	s := b.Status.DeepCopy()
	s.ObservedGeneration = b.Generation
	allowed := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(c.clock.Now()),
	}
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err == nil {
		c.view.picks[key] = picks{b.Namespace, selector}
		var healthy, needed, expected int
		healthy, needed, expected, err = c.store.Disruptions(b)
		s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods = int32(healthy), int32(needed), int32(expected)
		s.DisruptionsAllowed = int32(max(0, healthy-needed))
		if expected == 0 {
			s.DisruptionsAllowed = 0
		}
	}
	switch {
	case err != nil:
		s.DisruptionsAllowed, allowed.Reason, allowed.Message = 0, policyv1.SyncFailedReason, err.Error()
	case s.DisruptionsAllowed > 0:
		allowed.Status, allowed.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&s.Conditions, allowed)
	if equality.Semantic.DeepEqual(b.Status, *s) {
		return time.Time{}, nil
	}
	return time.Time{}, modify(c, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}, func(o *policyv1.PodDisruptionBudget) error {
		o.Status = *s
		return nil
	})
}
