// SPDX-License-Identifier: Apache-2.0

package patching_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/patching"
)

// managers lists the managers of an object's fields with how they wrote them.
func managers(u *unstructured.Unstructured) (out []string) {
	for _, m := range u.GetManagedFields() {
		out = append(out, strings.TrimSuffix(m.Manager+" "+string(m.Operation)+" "+m.Subresource, " "))
	}
	slices.Sort(out)
	return out
}

// apply merges intents, each of a manager, one after the other. The first creates the object.
func apply(t *testing.T, k *kinds.Kind, sub string, intents ...[2]string) *unstructured.Unstructured {
	t.Helper()
	var u *unstructured.Unstructured
	var err error
	for _, i := range intents {
		if u, err = patching.Apply(k, sub, u, parse(t, i[1]), i[0], false); err != nil {
			t.Fatalf("%s: %v", i[0], err)
		}
	}
	return u
}

const widget = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: "

// The rows are the rules of server-side apply in the documentation of Kubernetes.
func TestApplyMergesWhatManagersWant(t *testing.T) {
	t.Parallel()
	widgets, configMaps := widgetKind(t), kinds.ByType(&corev1.ConfigMap{})
	cm := func(rest string) string { return "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}" + rest + "}" }
	for name, tc := range map[string]struct {
		kind    *kinds.Kind
		intents [][2]string
		path    string
		want    string
		by      []string
	}{
		"one manager":                   {configMaps, [][2]string{{"a", cm(", data: {x: '1'}")}}, "data", "{x: '1'}", []string{"a Apply"}},
		"two managers of two fields":    {configMaps, [][2]string{{"a", cm(", data: {x: '1'}")}, {"b", cm(", data: {y: '2'}")}}, "data", "{x: '1', y: '2'}", []string{"a Apply", "b Apply"}},
		"a field that is left out":      {configMaps, [][2]string{{"a", cm(", data: {x: '1', y: '2'}")}, {"a", cm(", data: {y: '2'}")}}, "data", "{y: '2'}", []string{"a Apply"}},
		"a field that another has, too": {configMaps, [][2]string{{"a", cm(", data: {x: '1'}")}, {"b", cm(", data: {x: '1'}")}, {"a", cm("")}}, "data", "{x: '1'}", []string{"b Apply"}},
		"a manager of nothing":          {configMaps, [][2]string{{"a", cm(", data: {x: '1'}")}, {"a", cm("")}}, "data", "", nil},
		"elements of a list by key":     {widgets, [][2]string{{"a", widget + "{ports: [{port: 1, name: x}]}}"}, {"b", widget + "{ports: [{port: 2}]}}"}}, "spec.ports", "[{port: 1, name: x}, {port: 2}]", []string{"a Apply", "b Apply"}},
		"an element that is left out":   {widgets, [][2]string{{"a", widget + "{ports: [{port: 1}, {port: 2}]}}"}, {"a", widget + "{ports: [{port: 2}]}}"}}, "spec.ports", "[{port: 2}]", []string{"a Apply"}},
		"fields of one element":         {widgets, [][2]string{{"a", widget + "{ports: [{port: 1}]}}"}, {"b", widget + "{ports: [{port: 1, name: z}]}}"}}, "spec.ports", "[{port: 1, name: z}]", []string{"a Apply", "b Apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := apply(t, tc.kind, "", tc.intents...)
			got, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(tc.path, ".")...)
			var want any
			if tc.want != "" {
				want = parse(t, "{kind: X, value: "+tc.want+"}").Object["value"]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.path, diff)
			}
			if diff := cmp.Diff(tc.by, managers(u)); diff != "" {
				t.Errorf("managers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyConflictsWithOtherManagers(t *testing.T) {
	t.Parallel()
	k := widgetKind(t)
	first := apply(t, k, "", [2]string{"a", widget + "{size: small}}"})
	intent := func() *unstructured.Unstructured { return parse(t, widget+"{size: large}}") }
	_, err := patching.Apply(k, "", first, intent(), "b", false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "a": .spec.size`) {
		t.Errorf("another value: %v, want a conflict with a", err)
	}
	forced, err := patching.Apply(k, "", first, intent(), "b", true)
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedString(forced.Object, "spec", "size"); size != "large" || !slices.Equal(managers(forced), []string{"b Apply"}) {
		t.Errorf("forced: %s by %v", size, managers(forced))
	}
	if size, _, _ := unstructured.NestedString(first.Object, "spec", "size"); size != "small" || !slices.Equal(managers(first), []string{"a Apply"}) {
		t.Errorf("the latest object was changed: %s by %v", size, managers(first))
	}
}

func TestApplyRefusesWhatIsNoIntent(t *testing.T) {
	t.Parallel()
	k := kinds.ByType(&corev1.ConfigMap{})
	for name, text := range map[string]string{
		"an unknown field": "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, bogus: 1}",
		"another type":     "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: [a]}",
		"managed fields":   "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, managedFields: [{manager: x}]}}",
	} {
		if u, err := patching.Apply(k, "", nil, parse(t, text), "a", false); err == nil {
			t.Errorf("%s: %v", name, u)
		}
	}
}

// The status belongs to its subresource: what is applied without it is not changed, nor
// managed, and the spec is not through it.
func TestApplyLeavesOutWhatTheSubresourceDoesNotHave(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind *kinds.Kind
		text string
		want map[string][]string // the fields managed, by subresource
	}{
		"a built-in kind":  {kinds.ByType(&appsv1.Deployment{}), "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}, status: {replicas: 1}}", map[string][]string{"": {"f:spec"}, "status": {"f:status"}}},
		"a defined kind":   {widgetKind(t), "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: s}, status: {phase: p}}", map[string][]string{"": {"f:spec"}, "status": {"f:status"}}},
		"one of no status": {kinds.ByType(&corev1.ConfigMap{}), "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}", map[string][]string{"": {"f:data"}}},
	} {
		for sub, want := range tc.want {
			u, err := patching.Apply(tc.kind, sub, nil, parse(t, tc.text), "a", false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			managed := u.GetManagedFields()
			if len(managed) != 1 || managed[0].Subresource != sub {
				t.Fatalf("%s through %q: managers %v", name, sub, managed)
			}
			fields := parse(t, `{kind: X, value: `+string(managed[0].FieldsV1.Raw)+`}`).Object["value"].(map[string]any)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(fields))); diff != "" {
				t.Errorf("%s through %q (-want +got):\n%s", name, sub, diff)
			}
		}
	}
}

func TestTrackRecordsWhoChangedWhat(t *testing.T) {
	t.Parallel()
	k := kinds.ByType(&corev1.ConfigMap{})
	of := func(data string) *unstructured.Unstructured {
		return parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: "+data+"}")
	}
	step := func(latest, next *unstructured.Unstructured, manager string) *unstructured.Unstructured {
		t.Helper()
		if latest != nil {
			next.SetManagedFields(latest.GetManagedFields())
		}
		u, err := patching.Track(k, "", latest, next, manager)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	created := step(nil, of("{x: '1', z: '1'}"), "a")
	if diff := cmp.Diff([]string{"a Update"}, managers(created)); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	same := step(created, of("{x: '1', z: '1'}"), "b")
	if diff := cmp.Diff([]string{"a Update"}, managers(same)); diff != "" {
		t.Errorf("unchanged (-want +got):\n%s", diff)
	}
	changed := step(created, of("{x: '2', z: '1'}"), "b")
	if diff := cmp.Diff([]string{"a Update", "b Update"}, managers(changed)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	for _, m := range changed.GetManagedFields() {
		if fields := string(m.FieldsV1.Raw); strings.Contains(fields, "f:x") != (m.Manager == "b") || strings.Contains(fields, "f:z") != (m.Manager == "a") {
			t.Errorf("%s has %s", m.Manager, fields)
		}
	}
	removed := step(created, parse(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"), "b")
	if got := managers(removed); len(got) != 0 {
		t.Errorf("removed: managers %v, want none", got)
	}
}

// A conflict is also one with a manager that updated the object.
func TestApplyConflictsWithUpdates(t *testing.T) {
	t.Parallel()
	k := widgetKind(t)
	updated, err := patching.Track(k, "", nil, parse(t, widget+"{size: small}}"), "editor")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := patching.Apply(k, "", updated, parse(t, widget+"{size: large}}"), "a", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "editor" using example.com/v1`) {
		t.Errorf("got %v, want a conflict with the editor", err)
	}
	shared, err := patching.Apply(k, "", updated, parse(t, widget+"{size: small}}"), "a", false)
	if diff := cmp.Diff([]string{"a Apply", "editor Update"}, managers(shared)); diff != "" || err != nil {
		t.Errorf("the same value: error %v (-want +got):\n%s", err, diff)
	}
}

// The names are those that k8s.io/apiserver derives.
func TestManagerNameIsOfTheUserAgent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ named, agent, want string }{
		{"me", "kubectl/v1.36", "me"},
		{"", "kubectl/v1.36 (linux/amd64)", "kubectl"},
		{"", "curl", "curl"},
		{"", "a b/1", "a b"},
		{"", "", "unknown"},
		{"", "/1", "unknown"},
		{"", "\x01\x02/1", "unknown"},
		{"", "ku\x00be\tctl\n/1", "kubectl"},
		{"", strings.Repeat("x", 200), strings.Repeat("x", 128)},
		{"", strings.Repeat("é", 100), strings.Repeat("é", 64)},
		{"", strings.Repeat("x", 127) + "é", strings.Repeat("x", 127)},
		{"", strings.Repeat("\U0001F600", 1<<20), strings.Repeat("\U0001F600", 32)},
	} {
		if got := patching.ManagerName(tc.named, tc.agent); got != tc.want || !utf8.ValidString(got) {
			t.Errorf("%.40q, %.40q: got %q, want %q", tc.named, tc.agent, got, tc.want)
		}
	}
}
