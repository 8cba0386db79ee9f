// SPDX-License-Identifier: Apache-2.0

package objectchecks

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Whole is an object without fields that the API server changes.
func Whole(obj *unstructured.Unstructured) map[string]any {
	c := obj.DeepCopy()
	c.SetResourceVersion("")
	c.SetManagedFields(nil)
	return c.Object
}

// Substance is an object without metadata and without the condition about a pause.
func Substance(obj *unstructured.Unstructured) map[string]any {
	return without(obj, func(condition any) bool { return condition == clusterv1.PausedCondition })
}

// Done is an object without metadata and conditions, which may report what is awaited.
func Done(obj *unstructured.Unstructured) map[string]any {
	return without(obj, func(any) bool { return true })
}

// without leaves out the metadata of an object, and some conditions by type.
func without(obj *unstructured.Unstructured, out func(condition any) bool) map[string]any {
	c := obj.DeepCopy().Object
	delete(c, "metadata")
	status, ok := c["status"].(map[string]any)
	if !ok {
		return c
	}
	delete(status, "observedGeneration")
	for _, at := range [][]string{{"conditions"}, {"v1beta2", "conditions"}, {"deprecated", "v1beta1", "conditions"}} {
		list, ok, err := unstructured.NestedSlice(status, at...)
		if !ok || err != nil {
			continue
		}
		list = slices.DeleteFunc(list, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && out(m["type"])
		})
		_ = unstructured.SetNestedSlice(status, list, at...) // it existed
		for ; len(at) > 0; at = at[:len(at)-1] {
			if v, _, _ := unstructured.NestedFieldNoCopy(status, at...); reflect.ValueOf(v).Len() == 0 {
				unstructured.RemoveNestedField(status, at...)
			}
		}
	}
	if len(status) == 0 {
		delete(c, "status")
	}
	return c
}

// Differences are the fields that differ, with their present values.
func Differences(before, now any, path string) []string {
	a, ok := before.(map[string]any)
	b, okb := now.(map[string]any)
	if !ok || !okb {
		if reflect.DeepEqual(before, now) {
			return nil
		}
		return []string{fmt.Sprintf("%s is %s", strings.TrimPrefix(path, "."), JSON(now))}
	}
	var all []string
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, Differences(a[k], b[k], path+"."+k)...)
	}
	return all
}

// Changed returns the fields that differ in now or that it lacks, with their present values.
// Added fields do not matter.
func Changed(before, now any, path string) []string {
	a, ok := before.(map[string]any)
	b, okb := now.(map[string]any)
	if !ok || !okb {
		return Differences(before, now, path)
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(a)) {
		all = append(all, Changed(a[k], b[k], path+"."+k)...)
	}
	return all
}

// Conditions are the conditions of an object, even if they are malformed.
func Conditions(obj *unstructured.Unstructured) ([]map[string]any, error) {
	raw, ok, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	if err != nil || !ok || raw == nil {
		return nil, err
	}
	list, ok := raw.([]any)
	if !ok {
		return nil, errors.New("status.conditions is no list")
	}
	var all []map[string]any
	for i, c := range list {
		m, ok := c.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("status.conditions[%d] is no object", i)
		}
		all = append(all, m)
	}
	return all, nil
}

// Condition is the status of a condition; empty if it does not exist.
func Condition(obj *unstructured.Unstructured, name string) string {
	v2, _, _ := unstructured.NestedSlice(obj.Object, "status", "v1beta2", "conditions")
	all, _ := Conditions(obj) // conditionsWellFormed reports it
	for _, c := range v2 {
		if m, ok := c.(map[string]any); ok {
			all = append(all, m)
		}
	}
	for _, c := range all {
		if status, ok := c["status"].(string); ok && c["type"] == name {
			return status
		}
	}
	return ""
}

// WellFormed returns an error if conditions are malformed.
func WellFormed(list []map[string]any) error {
	seen := map[string]bool{}
	for _, c := range list {
		name, _ := c["type"].(string)
		if name == "" || seen[name] {
			return fmt.Errorf("condition %s has no type of its own", JSON(c))
		}
		seen[name] = true
		if status := c["status"]; status != "True" && status != "False" && status != "Unknown" {
			return fmt.Errorf("condition %s has status %s, want True, False or Unknown", name, JSON(status))
		}
		for _, field := range []string{"reason", "message", "lastTransitionTime"} {
			text, ok := c[field].(string)
			if c[field] != nil && !ok {
				return fmt.Errorf("condition %s: %s is no text", name, field)
			}
			if _, err := time.Parse(time.RFC3339, text); field == "lastTransitionTime" && ok && err != nil {
				return fmt.Errorf("condition %s: %s %q is no time", name, field, text)
			}
		}
	}
	return nil
}

// JSON is a value as JSON; it was decoded from JSON.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const limit = 400
	if r := []rune(string(b)); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return string(b)
}

// Text is a text field; empty if it does not exist.
func Text(obj *unstructured.Unstructured, path ...string) string {
	if obj == nil {
		return ""
	}
	v, _, _ := unstructured.NestedString(obj.Object, path...)
	return v
}
