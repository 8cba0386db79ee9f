// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestDifferenceNamesTheFirstField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ a, b, want string }{
		"nothing":                   {"spec: {a: 1, b: [x]}", "spec: {b: [x], a: 1}", ""},
		"what others write":         {"metadata: {name: a, resourceVersion: '1', generation: 1}\nstatus: {a: 1}", "metadata: {name: a, resourceVersion: '2', generation: 2, managedFields: [{manager: x}]}", ""},
		"a value":                   {"spec: {a: {b: 1, c: 1}}", "spec: {a: {b: 2, c: 2}}", "spec.a.b"},
		"a field more":              {"spec: {}", "spec: {a: 1}", "spec.a"},
		"a field less":              {"spec: {a: 1}", "spec: {}", "spec.a"},
		"an item of a list":         {"spec: {l: [{a: 1}, {a: 2}]}", "spec: {l: [{a: 1}, {a: 3}]}", "spec.l[1].a"},
		"the length of a list":      {"spec: {l: [1]}", "spec: {l: [1, 2]}", "spec.l"},
		"a label":                   {"metadata: {labels: {a/b: x}}", "metadata: {labels: {a/b: y}}", "metadata.labels.a/b"},
		"a map for a list":          {"spec: {l: [1]}", "spec: {l: {}}", "spec.l"},
		"data, without their value": {"data: {password: a}", "data: {password: b}", "data.password"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a, b unstructured.Unstructured
			for text, into := range map[string]*unstructured.Unstructured{tc.a: &a, tc.b: &b} {
				if err := yaml.Unmarshal([]byte(text), &into.Object); err != nil {
					t.Fatal(err)
				}
			}
			if got := difference(&a, &b); got != tc.want {
				t.Errorf("difference %q, want %q", got, tc.want)
			}
		})
	}
}
