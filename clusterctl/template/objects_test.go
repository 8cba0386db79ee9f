// SPDX-License-Identifier: Apache-2.0

package template

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestObjects(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "apiVersion: v1\nkind: B\nmetadata: {name: b}\n"
	tests := map[string]struct {
		in   string
		want []string
	}{
		"nothing":                                {"", nil},
		"documents, comments and nothing":        {"# only words\n---\n" + a + "---\n---\n\n--- # more\n" + b + "---\nnull\n", []string{"A a", "B b"}},
		"a separator with blanks":                {a + "---   \n" + b, []string{"A a", "B b"}},
		"a separator with a comment":             {a + "--- # the next\n" + b, []string{"A a", "B b"}},
		"an object on the line of its separator": {"--- {apiVersion: v1, kind: A, metadata: {name: a}}\n--- {apiVersion: v1, kind: B, metadata: {name: b}}\n", []string{"A a", "B b"}},
		"a separator at the end of the file":     {a + "---", []string{"A a"}},
		"no line end at the end":                 {strings.TrimSpace(a), []string{"A a"}},
		"the end of a document":                  {a + "...\n" + b + "...\n---\n" + a, []string{"A a", "B b", "A a"}},
		"the version of YAML":                    {"%YAML 1.1\n---\n" + a + "...\n%YAML 1.1\n---\n" + b, []string{"A a", "B b"}},
		"line ends of DOS":                       {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"A a", "B b"}},
		"a byte order mark":                      {"\ufeff" + a, []string{"A a"}},
		"a separator that is text":               {a + "data:\n  x: |\n    ---\n    y\n  z: a ---\n", []string{"A a"}},
		"JSON":                                   {`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}`, []string{"A a"}},
		"JSON with tabs":                         {"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"A\",\n\t\"metadata\": {\n\t\t\"name\": \"a\"\n\t}\n}\n", []string{"A a"}},
		"a list is taken apart":                  {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {apiVersion: v1, kind: BList, items: [{apiVersion: v1, kind: B, metadata: {name: b}}]}\n", []string{"A a", "B b"}},
		"an empty list":                          {"apiVersion: v1\nkind: List\nitems:\n", nil},
		"what has items and is no list":          {"apiVersion: x/v1\nkind: Basket\nmetadata: {name: a}\nitems: [1]\n", []string{"Basket a"}},
		"an anchor":                              {"apiVersion: v1\nkind: A\nmetadata: {name: &n a, labels: {x: *n}}\n", []string{"A a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects, err := Objects([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind()+" "+o.GetName())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNoObjectIsNamedWithItsDocumentAndLine(t *testing.T) {
	const good = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\n"
	bomb := "a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 1000) + "]\n"
	tests := map[string]struct{ in, want string }{
		"no kind":                    {"a: b", "document 1 (line 1) has no apiVersion and kind"},
		"no kind, further down":      {good + "\n# words\napiVersion: v1\n", "document 2 (line 7) has no apiVersion and kind"},
		"a text":                     {good + "kind\n", "document 2 (line 5) is no object, but a text"},
		"a list":                     {good + "- a\n", "document 2 (line 5) is no object, but a list"},
		"an item without a kind":     {good + "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A}, {}]\n", "document 2 (line 5) has item 2 that has no apiVersion and kind"},
		"a brace in the middle":      {good + "apiVersion: v1\nkind: A\nmetadata: {name: a\n---\n" + good, "document 2, which begins at line 5, is not valid YAML: line 7: did not find expected ',' or '}'"},
		"a key that is out of line":  {good + "apiVersion: v1\nkind: A\n metadata: {}\n" + good, "document 2, which begins at line 5, is not valid YAML: line 7: mapping values are not allowed in this context"},
		"an item among keys":         {good + "apiVersion: v1\n- a\nkind: A\n", "document 2, which begins at line 5, is not valid YAML: line 6: did not find expected key"},
		"a quote that is not closed": {good + "apiVersion: v1\nkind: \"A\n---\n" + good, "document 2, which begins at line 5, is not valid YAML: line 6: found unexpected end of stream"},
		"a tab":                      {good + "apiVersion: v1\nmetadata:\n\tname: a\n", "document 2, which begins at line 5, is not valid YAML: line 7: found character that cannot start any token: indent with blanks, not with tabs"},
		"a key twice":                {good + "apiVersion: v1\nkind: A\nkind: B\nkind: C\n", "document 2, which begins at line 5, is not valid YAML: line 7: key \"kind\" already set in map"},
		"a key twice, further in":    {good + "apiVersion: v1\nkind: A\nspec:\n  a: 1\n  a: 1\n", "document 2, which begins at line 5, is not valid YAML: line 9: key \"a\" already set in map"},
		"a key twice in JSON":        {`{"apiVersion":"v1","kind":"A","kind":"A"}`, "document 1, which begins at line 1, is not valid YAML: line 1: key \"kind\" already set in map"},
		"an alias of nothing":        {good + "apiVersion: v1\nkind: *a\n", "document 2, which begins at line 5, is not valid YAML: line 5: unknown anchor 'a' referenced"},
		"a bomb of anchors":          {bomb, "document 1, which begins at line 1, is not valid YAML: line 1: YAML with aliases that make too much of it"},
		"too deep":                   {strings.Repeat("[", 20000), "document 1, which begins at line 1, is not valid YAML: line 1: exceeded max depth of 10000"},
		"a name that is a number":    {good + "apiVersion: v1\nkind: A\nmetadata:\n  name: 1\n", "document 2 (line 5) has metadata.name 1, which is no text but a number: quote it"},
		"a label that is a boolean":  {good + "apiVersion: v1\nkind: A\nmetadata:\n  labels: {a: yes}\n", "document 2 (line 5) has metadata.labels[a] true, which is no text but true or false: quote it"},
		"metadata that are a text":   {"apiVersion: v1\nkind: A\nmetadata: a\n", "document 1 (line 1) has metadata that are no object, but a text"},
		"what is not of UTF-8":       {good + "a: \xff\n", "document 2 (line 5) is not text of UTF-8"},
		"no number":                  {good + "apiVersion: v1\nkind: A\nspec: .inf\n", "document 2, which begins at line 5, is not valid YAML: line 5: json: unsupported value: +Inf"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if objects, err := Objects([]byte(tc.in)); err == nil || err.Error() != tc.want {
				t.Errorf("%v\n%v, want\n%s", objects, err, tc.want)
			}
		})
	}
}

func TestObjectsLoseNothing(t *testing.T) {
	const in = `apiVersion: v1
kind: A
metadata:
  name: "1e3"
  labels: {a: "", b: }
  creationTimestamp: null
spec:
  empty: {}
  none: []
  zero: 0
  small: -9223372036854775808
  large: 9223372036854775807
  larger: 18446744073709551615
  huge: 1e300
  exact: 9007199254740993
  fraction: 0.1
  octal: 0644
  text: "0644"
  date: 2020-01-01
  yes: no
  block: |2
      two more
    end
`
	objects, err := Objects([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "A",
		"metadata": map[string]any{"name": "1e3", "labels": map[string]any{"a": "", "b": ""}, "creationTimestamp": nil},
		"spec": map[string]any{
			"empty": map[string]any{}, "none": []any{}, "zero": int64(0),
			"small": int64(math.MinInt64), "large": int64(math.MaxInt64), "larger": 18446744073709551615.0, "huge": 1e300,
			"exact": int64(9007199254740993), "fraction": 0.1, "octal": int64(420), "text": "0644", "date": "2020-01-01",
			"true": false, "block": "  two more\nend\n",
		},
	}
	if diff := cmp.Diff(want, objects[0].Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	text, err := YAML(append(objects, objects...))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*unstructured.Unstructured{objects[0], objects[0]}, again); diff != "" {
		t.Errorf("what is written and read again (-want +got):\n%s\n%s", diff, text)
	}
}

func TestLocalTemplateNeedsThreeVariables(t *testing.T) {
	_, err := Envsubst{}.Process(Local(), func(string) (string, bool) { return "", false })
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("error %v, want the missing variables", err)
	}
	if diff := cmp.Diff([]string{"CLUSTER_NAME", "KUBERNETES_VERSION", "NAMESPACE"}, missing.Names); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// An empty algorithm would be RSA, which costs more than all else that a
// simulated cluster does.
func TestLocalTemplateAsksForKeysThatAreCheapToMake(t *testing.T) {
	doc, err := Envsubst{}.Process(Local(), func(string) (string, bool) { return "v1.36.3", true })
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "KubeadmControlPlane" {
			continue
		}
		got, _, err := unstructured.NestedString(o.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", "encryptionAlgorithm")
		if err != nil || got != "ECDSA-P256" {
			t.Errorf("encryptionAlgorithm is %q, %v", got, err)
		}
	}
}
