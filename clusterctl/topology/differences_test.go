// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDifferencesNameFieldsWithTheirValues(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	for name, tc := range map[string]struct {
		is, wanted any
		want       []string
	}{
		"equal":                       {fields{"a": int64(1)}, fields{"a": int64(1)}, nil},
		"changed, sorted":             {fields{"b": "x", "a": fields{"c": int64(1)}}, fields{"b": "y", "a": fields{"c": int64(2)}}, []string{"a.c: 1 -> 2", `b: "x" -> "y"`}},
		"added and removed":           {fields{"a": "x"}, fields{"b": true}, []string{`a: "x" -> none`, "b: none -> true"}},
		"a key with dots":             {fields{"labels": fields{"x.io/a": "b"}}, fields{"labels": fields{}}, []string{`labels[x.io/a]: "b" -> none`}},
		"a list as a whole":           {fields{"l": []any{"a"}}, fields{"l": []any{"a", "b"}}, []string{`l: ["a"] -> ["a","b"]`}},
		"an object instead of a text": {fields{"a": "x"}, fields{"a": fields{"b": "c"}}, []string{`a: "x" -> {"b":"c"}`}},
		"texts that could be lines":   {fields{"a": "x\nb: 1"}, fields{"a": "\x1b[2J"}, []string{`a: "x\nb: 1" -> "\u001b[2J"`}},
		"nothing and an empty object": {nil, fields{}, []string{": none -> {}"}},
	} {
		if diff := cmp.Diff(tc.want, differences("", tc.is, tc.wanted)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"spec.a: none -> 1"}, differences("spec", fields{}, fields{"a": int64(1)})); diff != "" {
		t.Errorf("below a path (-want +got):\n%s", diff)
	}
}

func TestVisibleIsWhatUsersWrite(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x.io/v1", "kind": "A", "status": map[string]any{"ready": true}, "spec": map[string]any{"a": "b"}, "data": "c",
		"metadata": map[string]any{"name": "a", "uid": "u", "labels": map[string]any{"l": "1"}, "annotations": "no map", "finalizers": []any{"f"}},
	}}
	want := map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "1"}}, "spec": map[string]any{"a": "b"}, "data": "c"}
	if diff := cmp.Diff(want, visible(u)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVariablesAreSetOrAdded(t *testing.T) {
	t.Parallel()
	s, err := Read(files(t), "ns", nil)
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.Cluster.Spec.Topology.Variables)
	for _, set := range [][3]string{{"new", "[a, 1]", `["a",1]`}, {"new", "{a: {b: c}}", `{"a":{"b":"c"}}`}, {"new", "1.30", "1.3"}, {"new", "'1.30'", `"1.30"`}, {"new", "", "null"}} {
		if err := s.SetVariable(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
		all := s.Cluster.Spec.Topology.Variables
		if last := all[len(all)-1]; len(all) != before+1 || last.Name != set[0] || string(last.Value.Raw) != set[2] {
			t.Errorf("%s: %d variables, the last is %s=%s", set[1], len(all), last.Name, last.Value.Raw)
		}
	}
	if err := s.SetVariable("new", "[a"); err == nil || !strings.HasPrefix(err.Error(), "variable new: its value is not YAML: ") {
		t.Errorf("error %v", err)
	}
}
