// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Mirror returns the condition source of an object as a condition target of
// another. When the object does not have it, the result is fallback; a fallback
// without a status means that the condition is Unknown, not yet reported.
func Mirror(from Getter, source, target string, fallback metav1.Condition) metav1.Condition {
	c := Get(from, source)
	if c == nil {
		c = &fallback
		if c.Status == "" {
			c = new(notYetReported(source))
		}
	}
	if c.Reason == "" {
		c.Reason = NoReasonReportedReason
	}
	return metav1.Condition{
		Type: target, Status: c.Status, Reason: c.Reason, Message: c.Message,
		LastTransitionTime: c.LastTransitionTime,
	}
}

// FromUnstructured reads the conditions of an unstructured object. Conditions in
// the older shape, with a severity and an optional reason, are read too; so is
// the list that objects of the older contract have under status.v1beta2, which
// then takes precedence.
func FromUnstructured(obj *unstructured.Unstructured) (List, error) {
	var all List
	for _, path := range [][]string{{"status", "v1beta2", "conditions"}, {"status", "conditions"}} {
		raw, ok, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			return nil, fmt.Errorf("read conditions of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		if !ok {
			continue
		}
		var found struct {
			Conditions List `json:"conditions"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": raw}, &found); err != nil {
			return nil, fmt.Errorf("decode conditions of %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		for _, c := range found.Conditions {
			if err := valid(c); err != nil {
				return nil, fmt.Errorf("condition %q of %s %s: %w", c.Type, obj.GetKind(), obj.GetName(), err)
			}
			if !Has(all, c.Type) {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func valid(c metav1.Condition) error {
	switch c.Status {
	case metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown:
	default:
		return fmt.Errorf("status is %q, it must be True, False or Unknown", c.Status)
	}
	if c.Type == "" {
		return fmt.Errorf("type is empty")
	}
	return nil
}

func notYetReported(conditionType string) metav1.Condition {
	return metav1.Condition{
		Type: conditionType, Status: metav1.ConditionUnknown, Reason: NotYetReportedReason,
		Message: fmt.Sprintf("Condition %s not yet reported", conditionType),
	}
}
