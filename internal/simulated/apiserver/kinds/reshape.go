// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Convert converts u to an object of another kind that is stored as the same.
func Convert(u *unstructured.Unstructured, to schema.GroupVersionKind) error {
	from := u.GroupVersionKind()
	u.SetGroupVersionKind(to)
	switch {
	case from.Group != to.Group:
		renameFields(u, to.Group == "")
	case to.Kind == "HorizontalPodAutoscaler" && to.Version == "v1":
		return oneMetric(u)
	case to.Kind == "HorizontalPodAutoscaler":
		return allMetrics(u)
	}
	return nil
}

// renamed are the paths of an Event's fields in the core group and in its own.
var renamed = [][2]string{
	{"involvedObject", "regarding"},
	{"message", "note"},
	{"source", "deprecatedSource"},
	{"firstTimestamp", "deprecatedFirstTimestamp"},
	{"lastTimestamp", "deprecatedLastTimestamp"},
	{"count", "deprecatedCount"},
	{"reportingComponent", "reportingController"},
}

func renameFields(u *unstructured.Unstructured, core bool) {
	was, is := 0, 1
	if core {
		was, is = 1, 0
	}
	for _, names := range renamed {
		if v, ok := u.Object[names[was]]; ok {
			delete(u.Object, names[was])
			u.Object[names[is]] = v
		}
	}
}

// otherMetrics holds what the first version of an autoscaler has no fields
// for, so that it is not lost when that version is written.
const otherMetrics = "autoscaling.alpha.kubernetes.io/metrics"

func unset(u *unstructured.Unstructured, path ...string) {
	unstructured.RemoveNestedField(u.Object, path...)
}

func isCPU(metric any) bool {
	m, _ := metric.(map[string]any)
	name, _, _ := unstructured.NestedString(m, "resource", "name")
	_, ok, _ := unstructured.NestedInt64(m, "resource", "target", "averageUtilization")
	return name == "cpu" && ok
}

// oneMetric converts an autoscaler to the first version, which has only the load of
// processors.
func oneMetric(u *unstructured.Unstructured) error {
	metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
	if i := slices.IndexFunc(metrics, isCPU); i >= 0 {
		target, _, _ := unstructured.NestedInt64(metrics[i].(map[string]any), "resource", "target", "averageUtilization")
		metrics = slices.Delete(metrics, i, i+1)
		if err := unstructured.SetNestedField(u.Object, target, "spec", "targetCPUUtilizationPercentage"); err != nil {
			return err
		}
	}
	unset(u, "spec", "metrics")
	behavior, _, _ := unstructured.NestedMap(u.Object, "spec", "behavior")
	unset(u, "spec", "behavior")
	for _, name := range []string{"currentMetrics", "conditions"} {
		unset(u, "status", name)
	}
	if len(metrics) == 0 && behavior == nil {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metrics": metrics, "behavior": behavior})
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(u.Object, string(raw), "metadata", "annotations", otherMetrics)
}

// allMetrics undoes what oneMetric does.
func allMetrics(u *unstructured.Unstructured) error {
	var other autoscalingv2.HorizontalPodAutoscalerSpec
	if text := u.GetAnnotations()[otherMetrics]; text != "" {
		if json.Unmarshal([]byte(text), &other) != nil { // a user can write it
			other = autoscalingv2.HorizontalPodAutoscalerSpec{}
		}
		unset(u, "metadata", "annotations", otherMetrics)
		if len(u.GetAnnotations()) == 0 {
			unset(u, "metadata", "annotations")
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&other)
	if err != nil {
		return err
	}
	metrics, _ := content["metrics"].([]any)
	if target, ok, _ := unstructured.NestedInt64(u.Object, "spec", "targetCPUUtilizationPercentage"); ok {
		metrics = append([]any{map[string]any{"type": "Resource", "resource": map[string]any{
			"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": target},
		}}}, metrics...)
		unset(u, "spec", "targetCPUUtilizationPercentage")
	}
	unset(u, "status", "currentCPUUtilizationPercentage")
	if behavior := content["behavior"]; behavior != nil {
		if err := unstructured.SetNestedField(u.Object, behavior, "spec", "behavior"); err != nil {
			return err
		}
	}
	if len(metrics) == 0 {
		return nil
	}
	return unstructured.SetNestedSlice(u.Object, metrics, "spec", "metrics")
}
