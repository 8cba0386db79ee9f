// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadPutsObjectsInOrder(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind, name string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s}\n", apiVersion, kind, name)
	}
	tests := map[string]struct {
		data map[string]string
		want []string
	}{
		"documents of one value": {
			map[string]string{"a": object("v1", "ConfigMap", "a") + "---\n" + object("v1", "ConfigMap", "b")},
			[]string{"ConfigMap a", "ConfigMap b"},
		},
		"values in the order of their keys": {
			map[string]string{"b": object("v1", "ConfigMap", "a"), "a": object("v1", "ConfigMap", "b")},
			[]string{"ConfigMap b", "ConfigMap a"},
		},
		"what others need comes first, and webhooks last": {
			map[string]string{"a": strings.Join([]string{
				object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w"),
				object("example.com/v1", "Widget", "x"), object("apps/v1", "Deployment", "d"), object("v1", "ServiceAccount", "s"),
				object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com"), object("v1", "Namespace", "ns"),
			}, "---\n")},
			[]string{
				"Namespace ns", "CustomResourceDefinition widgets.example.com", "ServiceAccount s", "Deployment d", "Widget x",
				"ValidatingWebhookConfiguration w",
			},
		},
		"lists, of a kind and of JSON, and JSON values that follow each other": {
			map[string]string{
				"a": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
				"b": `[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}]`,
				"c": "{\"apiVersion\":\"v1\",\n\t\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"d\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"e\"}}",
			},
			[]string{"ConfigMap a", "ConfigMap b", "ConfigMap c", "ConfigMap d", "ConfigMap e"},
		},
		"documents without content are nothing": {
			map[string]string{"a": "# a comment\n---\n---\n" + object("v1", "ConfigMap", "a") + "---\n# the end\n"},
			[]string{"ConfigMap a"},
		},
		"YAML in its flow style, with a comment": {
			map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}} # a comment\n"},
			[]string{"ConfigMap a"},
		},
		"the same name in two namespaces": {
			map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns1}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns2}}"},
			[]string{"ConfigMap ns1/a", "ConfigMap ns2/a"},
		},
		"one prefix of names that the server generates, twice": {
			map[string]string{"a": "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: \"\", generateName: a-}}"},
			[]string{"ConfigMap a-*", "ConfigMap a-*"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Read(raw(tc.data))
			var got []string
			for _, obj := range p.Objects {
				got = append(got, Name(obj))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(p.Problems) > 0 {
				t.Errorf("problems %q, objects (-want +got):\n%s", p.Problems, diff)
			}
		})
	}
}

func TestReadNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const good = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good}}\n---\n"
	tests := map[string]struct {
		data map[string]string
		want []string
	}{
		"nothing":                     {nil, []string{"it holds no object"}},
		"only comments":               {map[string]string{"a": "# none\n"}, []string{"it holds no object"}},
		"an empty list":               {map[string]string{"a": "{apiVersion: v1, kind: List, items: []}"}, []string{"it holds no object"}},
		"text":                        {map[string]string{"a": "hunter2"}, []string{"key a: it is not an object"}},
		"no YAML, and no value of it": {map[string]string{"a": good + "kind: x\n  y: hunter2: z\n"}, []string{"key a: document 2 is not YAML: see line 2 of it"}},
		"bytes that are no text":      {map[string]string{"a": "\x00\xff\xfe"}, []string{"key a: document 1 is not YAML"}},
		"no apiVersion":               {map[string]string{"a": good + "{kind: ConfigMap, metadata: {name: x}}"}, []string{"key a, document 2: the object has no apiVersion"}},
		"no kind":                     {map[string]string{"a": "{apiVersion: v1, metadata: {name: x}}"}, []string{"key a: the object has no kind"}},
		"a kind that is no word":      {map[string]string{"a": "{apiVersion: v1, kind: 3, metadata: {name: x}}"}, []string{"key a: the object has no kind"}},
		"no name":                     {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {labels: {}}}"}, []string{"key a: Secret has no metadata.name and no metadata.generateName"}},
		"a name that is no string":    {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {name: [x], generateName: x-}}"}, []string{"key a: Secret has no metadata.name and no metadata.generateName"}},
		"a prefix that is a path":     {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {generateName: ../x-}}"}, []string{"key a: metadata.generateName of Secret ../x-* cannot be a name"}},
		"no metadata":                 {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: none}"}, []string{"key a: Secret has no metadata.name and no metadata.generateName"}},
		"a namespace that is none":    {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: [y]}}"}, []string{"key a: metadata.namespace of Secret x is not a string"}},
		"a name that is a path":       {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {name: ../x}}"}, []string{"key a: metadata.name of Secret ../x cannot be a name"}},
		"a namespace that is a path":  {map[string]string{"a": "{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: ..}}"}, []string{"key a: metadata.namespace of Secret ../x cannot be a name"}},
		"a version that is a path":    {map[string]string{"a": "{apiVersion: a/b/c, kind: Secret, metadata: {name: x}}"}, []string{"key a: apiVersion of Secret is not a group and a version"}},
		"an item of a list":           {map[string]string{"a": "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret}, 3]}"}, []string{"key a, item 1: Secret has no metadata.name and no metadata.generateName", "key a, item 2: it is not an object"}},
		"the same object twice":       {map[string]string{"a": good + good, "b": good}, []string{"key a, document 2: ConfigMap good is in key a, document 1, too", "key b: ConfigMap good is in key a, document 1, too"}},
		"a name that moves cursors":   {map[string]string{"a": `{"apiVersion":"v1","kind":"\u001b[2JSecret"}`}, []string{`key a: \x1b[2JSecret has no metadata.name and no metadata.generateName`}},
		"aliases of aliases":          {map[string]string{"a": bomb(12)}, []string{"key a: document 1 has aliases that make too much of it"}},
		"aliases of a long text":      {map[string]string{"a": "{a: &a " + strings.Repeat("x", 100<<10) + ", b: [" + strings.Repeat("*a,", 1000) + "]}"}, []string{"key a: document 1 has aliases that make too much of it"}},
		"an alias within itself":      {map[string]string{"a": "kind: &a\n- *a\n"}, []string{"key a: document 1 has aliases that make too much of it"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Read(raw(tc.data))
			if diff := cmp.Diff(tc.want, p.Problems); diff != "" || len(p.Objects) > 0 {
				t.Errorf("%d objects, problems (-want +got):\n%s", len(p.Objects), diff)
			}
		})
	}
}

// bomb is a document that is nine times as large with each level.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 x\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

func TestReadLeavesOutWhatTheServerSets(t *testing.T) {
	t.Parallel()
	p := Read(raw(map[string]string{"a": `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, uid: x, resourceVersion: "3", creationTimestamp: null, generation: 4, managedFields: [{}], labels: {a: b}}
data: {one: "1"}
number: 3
fraction: 0.5
`}))
	want := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "labels": map[string]any{"a": "b"}},
		"data": map[string]any{"one": "1"}, "number": int64(3), "fraction": 0.5,
	}
	if len(p.Objects) != 1 {
		t.Fatalf("%d objects, problems %q", len(p.Objects), p.Problems)
	}
	if diff := cmp.Diff(want, p.Objects[0].Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

func TestHashDistinguishesData(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, data := range []map[string]string{nil, {"a": ""}, {"a": "b"}, {"ab": ""}, {"a": "bc"}, {"a": "b", "b": "c"}} {
		h := Read(raw(data)).Hash
		if before, ok := seen[h]; ok {
			t.Errorf("data %d has the hash of data %d", i, before)
		}
		seen[h] = i
	}
}

func TestALargePayloadIsReadWhole(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	n := 0
	for ; b.Len() < 1<<20-100; n++ {
		fmt.Fprintf(&b, "{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n---\n", n)
	}
	p := Read(raw(map[string]string{"a": b.String()}))
	if len(p.Objects) != n || len(p.Problems) > 0 {
		t.Errorf("%d objects of %d, problems %q", len(p.Objects), n, p.Problems)
	}
}

func raw(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}
