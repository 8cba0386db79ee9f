// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

func TestPatchIsWhatChanged(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before, after string
		json, merge   string // merge: empty where it is refused
	}{
		"nothing":                      {`{"spec":{"a":1}}`, `{"spec":{"a":1.0}}`, ``, ``},
		"a field set":                  {`{"spec":{}}`, `{"spec":{"a":"x"}}`, `[{"op":"add","path":"/spec/a","value":"x"}]`, `{"spec":{"a":"x"}}`},
		"a field changed":              {`{"spec":{"a":1,"b":2}}`, `{"spec":{"a":2,"b":2}}`, `[{"op":"add","path":"/spec/a","value":2}]`, `{"spec":{"a":2}}`},
		"a field removed":              {`{"spec":{"a":1,"b":2}}`, `{"spec":{"b":2}}`, `[{"op":"remove","path":"/spec/a"}]`, `{"spec":{"a":null}}`},
		"a field set to null":          {`{"spec":{"a":1}}`, `{"spec":{"a":null}}`, `[{"op":"add","path":"/spec/a","value":null}]`, ``},
		"a field of another type":      {`{"spec":{"a":1}}`, `{"spec":{"a":{"b":{"c":[]}}}}`, `[{"op":"add","path":"/spec/a","value":{"b":{"c":[]}}}]`, `{"spec":{"a":{"b":{"c":[]}}}}`},
		"spec itself":                  {`{}`, `{"spec":{"a":1}}`, `[{"op":"add","path":"/spec","value":{"a":1}}]`, `{"spec":{"a":1}}`},
		"spec removed":                 {`{"spec":{}}`, `{}`, `[{"op":"remove","path":"/spec"}]`, `{"spec":null}`},
		"fields in order":              {`{"spec":{"b":1}}`, `{"spec":{"d":1,"a":1,"c":1}}`, `[{"op":"add","path":"/spec/a","value":1},{"op":"remove","path":"/spec/b"},{"op":"add","path":"/spec/c","value":1},{"op":"add","path":"/spec/d","value":1}]`, `{"spec":{"a":1,"b":null,"c":1,"d":1}}`},
		"names with slash and tilde":   {`{"spec":{"l":{}}}`, `{"spec":{"l":{"a/b~c":1}}}`, `[{"op":"add","path":"/spec/l/a~1b~0c","value":1}]`, `{"spec":{"l":{"a/b~c":1}}}`},
		"a field without a name":       {`{"spec":{"l":{"":{}}}}`, `{"spec":{"l":{"":{"":1}}}}`, `[{"op":"add","path":"/spec/l","value":{"":{"":1}}}]`, `{"spec":{"l":{"":{"":1}}}}`},
		"an element appended":          {`{"spec":[1]}`, `{"spec":[1,2]}`, `[{"op":"add","path":"/spec/1","value":2}]`, `{"spec":[1,2]}`},
		"an element put first":         {`{"spec":[2,3]}`, `{"spec":[1,2,3]}`, `[{"op":"add","path":"/spec/0","value":1}]`, `{"spec":[1,2,3]}`},
		"elements removed within":      {`{"spec":[1,2,3,4]}`, `{"spec":[1,4]}`, `[{"op":"remove","path":"/spec/2"},{"op":"remove","path":"/spec/1"}]`, `{"spec":[1,4]}`},
		"an element replaced":          {`{"spec":[1,2]}`, `{"spec":[3,2]}`, `[{"op":"replace","path":"/spec/0","value":3}]`, `{"spec":[3,2]}`},
		"a field of an element":        {`{"spec":[{"a":1,"b":2}]}`, `{"spec":[{"a":1,"b":3}]}`, `[{"op":"add","path":"/spec/0/b","value":3}]`, `{"spec":[{"a":1,"b":3}]}`},
		"an element in an element":     {`{"spec":[[1],[2]]}`, `{"spec":[[1],[3]]}`, `[{"op":"replace","path":"/spec/1/0","value":3}]`, `{"spec":[[1],[3]]}`},
		"an element that became null":  {`{"spec":[1]}`, `{"spec":[null]}`, `[{"op":"replace","path":"/spec/0","value":null}]`, ``},
		"a whole number that is large": {`{"spec":{"a":9007199254740992}}`, `{"spec":{"a":9007199254740993}}`, `[{"op":"add","path":"/spec/a","value":9007199254740993}]`, `{"spec":{"a":9007199254740993}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for typ, want := range map[hooksv1.PatchType]string{hooksv1.JSONPatchType: tc.json, hooksv1.JSONMergePatchType: tc.merge} {
				p, err := mutation.Patch([]byte(tc.before), []byte(tc.after), options(typ)...)
				if refused := tc.json != "" && want == ""; refused != (err != nil) {
					t.Errorf("%s: error %v", typ, err)
				}
				if string(p.Patch) != want || (want != "" && p.PatchType != typ) {
					t.Errorf("%s: got %s, want %s", typ, p.Patch, want)
				}
				if want == "" {
					continue
				}
				if got := apply(t, tc.before, p.PatchType, p.Patch); diff(t, tc.after, got) != "" {
					t.Errorf("%s leads to %s, want %s", typ, got, tc.after)
				}
			}
		})
	}
}

func options(typ hooksv1.PatchType) []mutation.Option {
	if typ == hooksv1.JSONMergePatchType {
		return []mutation.Option{mutation.MergePatches()}
	}
	return nil
}

func TestPatchTakesWhatRequestsHold(t *testing.T) {
	t.Parallel()
	current, desired := clusterv1.Machine{}, clusterv1.Machine{}
	current.Spec.ClusterName, desired.Spec.ClusterName = "demo", "demo"
	desired.Spec.Taints = []clusterv1.MachineTaint{{Key: "a"}}
	p, err := mutation.Patch(&current, desired)
	if got, want := string(p.Patch), `[{"op":"add","path":"/spec/taints","value":[{"key":"a"}]}]`; err != nil || got != want {
		t.Errorf("Machines: got %s, %v; want %s", got, err, want)
	}
	raw := func(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }
	p, err = mutation.Patch(raw(`{"spec":{"a":1}}`), raw(`{"spec":{"a":2}}`))
	if err != nil || p.PatchType != hooksv1.JSONPatchType {
		t.Errorf("RawExtensions: got %v, %v", p, err)
	}
	p, err = mutation.Patch(runtime.RawExtension{}, runtime.RawExtension{})
	if err != nil || p.Patch != nil || p.PatchType != "" {
		t.Errorf("without a bootstrap config: got %v, %v; want nothing", p, err)
	}
}

func TestPatchRefusesWhatIsNoChangeOfSpec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before, after any
		want          string
	}{
		"metadata and status": {[]byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"x":1}}`), []byte(`{"metadata":{"labels":{}},"spec":{"x":2},"status":{}}`), "changes /metadata/labels/a, /status: a patch may change only spec"},
		"what begins alike":   {[]byte(`{}`), []byte(`{"specs":1}`), "changes /specs: a patch may change only spec"},
		"nothing before":      {nil, []byte(`{}`), "there is no object before"},
		"nothing after":       {[]byte(`{}`), runtime.RawExtension{}, "there is no object after"},
		"a list":              {[]byte(`[]`), []byte(`{}`), "object before is not a JSON object"},
		"broken JSON":         {[]byte(`{}`), []byte(`{"a"}`), "decode object after: invalid character '}' after object key"},
		"a function":          {[]byte(`{}`), func() {}, "encode object after: json: unsupported type: func()"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := mutation.Patch(tc.before, tc.after)
			if fmt.Sprint(err) != tc.want || p.Patch != nil {
				t.Errorf("got %v %s, want %s", err, p.Patch, tc.want)
			}
		})
	}
}

// FuzzPatch holds every patch to the one thing it is for.
func FuzzPatch(f *testing.F) {
	for _, s := range [][2]string{
		{`{"a":1}`, `{"a":1.0,"b":[null,{"c":null}]}`}, {`[1,2,3]`, `[3,2,1]`}, {`{"a":{"b":1}}`, `{"a":[]}`}, {`null`, `{}`},
		{`[[],[1],{"name":"x"}]`, `[{"name":"x","y":-0.0}]`}, {`{"":{"~/":1e21}}`, `{"":{"~/":[1e400]}}`}, {`"<&>"`, `"\u2028\ud800"`},
		{`[9223372036854775807]`, `[9223372036854775808,18446744073709551615]`}, {`{"a":{"b":null}}`, `{"a":{"b":{}}}`}, {`[1,1,2,1]`, `[1,2,1,1,1]`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		before, after := `{"kind":"K","spec":`+a+`}`, `{"kind":"K","spec":`+b+`}`
		for _, typ := range []hooksv1.PatchType{hooksv1.JSONPatchType, hooksv1.JSONMergePatchType} {
			p, err := mutation.Patch([]byte(before), []byte(after), options(typ)...)
			if err != nil {
				continue // not JSON, more than spec, or null in a merge patch
			}
			again, _ := mutation.Patch([]byte(before), []byte(after), options(typ)...)
			if string(again.Patch) != string(p.Patch) {
				t.Fatalf("%s, then %s", p.Patch, again.Patch)
			}
			reached := []byte(before)
			if p.Patch != nil {
				reached = apply(t, before, p.PatchType, p.Patch)
			}
			left, err := mutation.Patch(reached, []byte(after))
			if err != nil || left.Patch != nil {
				t.Fatalf("%s on %s leads to %s, not to %s: %s is left, %v", p.Patch, before, reached, after, left.Patch, err)
			}
		}
	})
}
