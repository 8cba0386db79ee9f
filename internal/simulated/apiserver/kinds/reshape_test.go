// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// parse reads an object from YAML, with whole numbers as decoded objects have them.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func gvk(group, version, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

const (
	coreEvent = `
apiVersion: v1
kind: Event
metadata: {name: e}
reason: Started
type: Normal
action: Act
message: it runs
count: 3
source: {component: kubelet}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:01:00Z"
reportingComponent: c
reportingInstance: i
involvedObject: {kind: Pod, name: p}
related: {kind: Node, name: n}
`
	ownEvent = `
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: e}
reason: Started
type: Normal
action: Act
note: it runs
deprecatedCount: 3
deprecatedSource: {component: kubelet}
deprecatedFirstTimestamp: "2026-01-01T00:00:00Z"
deprecatedLastTimestamp: "2026-01-01T00:01:00Z"
reportingController: c
reportingInstance: i
regarding: {kind: Pod, name: p}
related: {kind: Node, name: n}
`
)

func TestConvertRenamesFieldsOfEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to string
		as       schema.GroupVersionKind
	}{
		{coreEvent, ownEvent, gvk("events.k8s.io", "v1", "Event")},
		{ownEvent, coreEvent, gvk("", "v1", "Event")},
		{coreEvent, coreEvent, gvk("", "v1", "Event")},
		{"{apiVersion: v1, kind: Event, metadata: {name: e}}", "{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: e}}", gvk("events.k8s.io", "v1", "Event")},
	} {
		got := parse(t, tc.from)
		if err := kinds.Convert(got, tc.as); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parse(t, tc.to).Object, got.Object); diff != "" {
			t.Errorf("as %s (-want +got):\n%s", tc.as, diff)
		}
	}
}

const (
	cpu    = "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}"
	memory = "{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}"
	amount = "{type: Resource, resource: {name: cpu, target: {type: AverageValue, averageValue: 500m}}}"
)

func autoscaler(rest string) string {
	return "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}" + rest + "}\n"
}

var (
	hpaV1 = gvk("autoscaling", "v1", "HorizontalPodAutoscaler")
	hpaV2 = gvk("autoscaling", "v2", "HorizontalPodAutoscaler")
)

// The first version shows the load of processors; what it has no field for comes back.
func TestConvertKeepsTheMetricsOfAutoscalers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec   string
		target any
		want   string // the spec again, if it differs
	}{
		"no metric":                   {spec: ""},
		"processors":                  {spec: ", metrics: [" + cpu + "]", target: int64(70)},
		"memory":                      {spec: ", metrics: [" + memory + "]"},
		"an amount of processors":     {spec: ", metrics: [" + amount + "]"},
		"processors and memory":       {spec: ", metrics: [" + cpu + ", " + memory + "]", target: int64(70)},
		"memory and processors":       {spec: ", metrics: [" + memory + ", " + cpu + "]", target: int64(70), want: ", metrics: [" + cpu + ", " + memory + "]"},
		"a behavior":                  {spec: ", behavior: {scaleDown: {stabilizationWindowSeconds: 60}}"},
		"a behavior and all metrics":  {spec: ", metrics: [" + cpu + ", " + amount + "], behavior: {scaleUp: {selectPolicy: Max, policies: [{type: Pods, value: 4, periodSeconds: 15}]}}", target: int64(70)},
		"a metric of the first order": {spec: ", metrics: [{type: External, external: {metric: {name: queue, selector: {matchLabels: {a: b}}}, target: {type: Value, value: '30'}}}]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := parse(t, autoscaler(tc.spec))
			if err := kinds.Convert(u, hpaV1); err != nil {
				t.Fatal(err)
			}
			spec := u.Object["spec"].(map[string]any)
			if spec["targetCPUUtilizationPercentage"] != tc.target || spec["metrics"] != nil || spec["behavior"] != nil || u.GroupVersionKind() != hpaV1 {
				t.Errorf("the first version %v", u.Object)
			}
			if err := kinds.Convert(u, hpaV2); err != nil {
				t.Fatal(err)
			}
			want := autoscaler(tc.spec)
			if tc.want != "" {
				want = autoscaler(tc.want)
			}
			if diff := cmp.Diff(parse(t, want).Object, u.Object); diff != "" {
				t.Errorf("the second version again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConvertDropsTheStatusThatAVersionDoesNotHave(t *testing.T) {
	t.Parallel()
	u := parse(t, autoscaler("")+"status: {currentReplicas: 2, currentMetrics: [{}], conditions: [{}]}")
	if err := kinds.Convert(u, hpaV1); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"currentReplicas": int64(2)}, u.Object["status"]); diff != "" {
		t.Errorf("first version (-want +got):\n%s", diff)
	}
	u.Object["status"].(map[string]any)["currentCPUUtilizationPercentage"] = int64(5)
	if err := kinds.Convert(u, hpaV2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"currentReplicas": int64(2)}, u.Object["status"]); diff != "" {
		t.Errorf("second version (-want +got):\n%s", diff)
	}
}

// Users can write the annotation that holds the metrics. An API server ignores one that it
// did not write; any other result has the type of the kind.
func TestConvertIgnoresBadMetricsOfUsers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x", "[]", "1", `"a"`, "null", "{}", `{"metrics":"x"}`, `{"metrics":["x"]}`, `{"metrics":[{"type":5}]}`, `{"metrics":[{"resource":{"target":{"averageValue":"x"}}}]}`,
		`{"behavior":[]}`, `{"behavior":{"scaleUp":{"policies":"x"}}}`, `{"metrics":[{"type":"Resource","bogus":{"a":[1]}}]}`, `{"maxReplicas":99,"scaleTargetRef":{"name":"other"}}`,
	} {
		u := parse(t, "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}, targetCPUUtilizationPercentage: 60}\n")
		u.SetAnnotations(map[string]string{"autoscaling.alpha.kubernetes.io/metrics": text, "own": "kept"})
		if err := kinds.Convert(u, hpaV2); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var typed autoscalingv2.HorizontalPodAutoscaler
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &typed, true); err != nil {
			t.Errorf("%s: the result is no autoscaler: %v", text, err)
		}
		spec := typed.Spec
		if len(typed.Annotations) != 1 || spec.MaxReplicas != 3 || spec.ScaleTargetRef.Name != "d" || len(spec.Metrics) == 0 || *spec.Metrics[0].Resource.Target.AverageUtilization != 60 {
			raw, _ := json.Marshal(u.Object)
			t.Errorf("%s: %s", text, raw)
		}
	}
}
