// SPDX-License-Identifier: Apache-2.0

package ssadiff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

// typeOf returns the type of a kind with this spec.
func typeOf(t *testing.T, spec string) *ssadiff.Type {
	t.Helper()
	out, err := ssadiff.NewType(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}, []byte(`{"type":"object","properties":{"spec":`+spec+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSchemasAreReadAsTheServerReads has schemas that a CRD may have, and an object that
// was applied by each: applying it again changes nothing.
func TestSchemasAreReadAsTheServerReads(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ spec, object, live, fields string }{
		"combinations of schemas": {
			`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"oneOf":[{"required":["a"]}],"not":{"required":["c"]},"properties":{"a":{"type":"string","allOf":[{"minLength":1}]},"b":{"type":"string"}}}`,
			`{"a":"x"}`, `{"a":"x"}`, `{"f:a":{}}`,
		},
		"an atomic map": {
			`{"type":"object","properties":{"m":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"},"d":{"type":"string","default":"x"}}}}}`,
			`{"m":{"a":"1"}}`, `{"m":{"a":"1","d":"x"}}`, `{"f:m":{}}`,
		},
		"a list of lists": {
			`{"type":"object","properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}`,
			`{"l":[[1,2],[]]}`, `{"l":[[1,2],[]]}`, `{"f:l":{}}`,
		},
		"a map of lists by key": {
			`{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"number"}}}}}}}`,
			`{"m":{"x":[{"k":"a","v":1.5}]}}`, `{"m":{"x":[{"k":"z"},{"k":"a","v":1.5}]}}`, `{"f:m":{"f:x":{".":{},"k:{\"k\":\"a\"}":{".":{},"f:k":{},"f:v":{}}}}}`,
		},
		"an embedded object": {
			`{"type":"object","properties":{"template":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`,
			`{"template":{"apiVersion":"v1","kind":"X","metadata":{"name":"n","labels":{"a":"b"}},"spec":{"z":null}}}`,
			`{"template":{"apiVersion":"v1","kind":"X","metadata":{"name":"n","labels":{"a":"b"}},"spec":{"z":null}}}`,
			`{"f:template":{"f:apiVersion":{},"f:kind":{},"f:metadata":{"f:name":{},"f:labels":{"f:a":{}}},"f:spec":{".":{},"f:z":{}}}}`,
		},
		"an empty object, and an empty list": {
			`{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"string"}}},"l":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}`,
			`{"o":{},"l":[]}`, `{"o":{},"l":[]}`, `{"f:o":{}}`,
		},
		"a default of null": {
			`{"type":"object","properties":{"atoms":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"string","nullable":true,"default":null}}}}}}`,
			`{"atoms":[{"a":"x"}]}`, `{"atoms":[{"a":"x"}]}`, `{"f:atoms":{}}`,
		},
		"defaults in defaults": {
			`{"type":"object","properties":{"atoms":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"o":{"type":"object","default":{},"properties":{"p":{"type":"integer","default":7}}}}}}}}`,
			`{"atoms":[{"a":"x"}]}`, `{"atoms":[{"a":"x","o":{"p":7}}]}`, `{"f:atoms":{}}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := typeOf(t, tc.spec).Intend("us", object(t, whole(tc.object)))
			if err != nil {
				t.Fatal(err)
			}
			if v := in.Against(object(t, live(tc.live, tc.fields)), nil); v.Changed() {
				t.Errorf("%s: adds %v, removes %v, %s", v.Reason, v.Added, v.Removed, v.Problem)
			}
		})
	}
}

// TestTypesAreSharedByGoroutines: all reconciles of a kind use one.
func TestTypesAreSharedByGoroutines(t *testing.T) {
	t.Parallel()
	of := thing(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				in, err := of.Intend("us", map[string]any{
					"apiVersion": "g/v1", "kind": "Thing", "metadata": map[string]any{"name": "n"}, "spec": map[string]any{"atoms": []any{map[string]any{"a": fmt.Sprint(i)}}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				atoms, _ := json.Marshal(in.Object()["spec"])
				if want := fmt.Sprintf(`{"atoms":[{"a":"%d","b":2}]}`, i); string(atoms) != want {
					t.Errorf("%s, want %s", atoms, want)
				}
			}
		})
	}
	all.Wait()
}

// TestUnusableManagedFieldsAreNamed: another client can write anything there.
func TestUnusableManagedFieldsAreNamed(t *testing.T) {
	t.Parallel()
	in := want(t, whole(`{"name":"a"}`))
	broken := object(t, strings.Replace(live(`{"name":"a","count":3}`, `{"f:name":{},"f:count":{}}`, `{"f:count":{}}`), `"manager":"them"`, `"manager":"them","x":1`, 1))
	entries := broken["metadata"].(map[string]any)["managedFields"].([]any)
	entries[2].(map[string]any)["fieldsV1"] = map[string]any{"k:what": map[string]any{}}
	v := in.Against(broken, nil)
	if v.Reason != ssadiff.Ownership || v.Removed.Size() != 1 {
		t.Fatalf("got %q, removed %v", v.Reason, v.Removed)
	}
	if _, err := in.Remains(broken, v); err == nil || !strings.Contains(err.Error(), "managedFields of them") {
		t.Errorf("what remains: %v", err)
	}
	if _, err := in.After(broken, v); err == nil || !strings.Contains(err.Error(), "apply the intent to a live Thing: managedFields of them") {
		t.Errorf("after: %v", err)
	}
	entries[0].(map[string]any)["fieldsV1"] = "text"
	if _, err := thing(t).Applied("us", broken); err == nil || !strings.Contains(err.Error(), "managedFields of us") {
		t.Errorf("applied: %v", err)
	}
	entries[0] = "text"
	if v := in.Against(broken, nil); v.Reason != ssadiff.NeverApplied {
		t.Errorf("an entry that is no object: %q", v.Reason)
	}
}

// TestIntentSharesNothingWithLiveObject: live objects are those of a cache.
func TestIntentSharesNothingWithLiveObject(t *testing.T) {
	t.Parallel()
	in := want(t, whole(`{"name":"b","atoms":[{"a":"x"}]}`))
	have := object(t, live(`{"name":"a","count":4,"group":{"x":null},"atoms":[{"a":"y"}]}`, `{"f:name":{},"f:count":{}}`))
	before, err := json.Marshal(have)
	if err != nil {
		t.Fatal(err)
	}
	v := in.Against(have, nil)
	if _, err := in.After(have, v); err != nil {
		t.Fatal(err)
	}
	if _, err := in.SpecUnchanged(have); err != nil {
		t.Fatal(err)
	}
	in.Settle(have)
	in.Seed(have)
	if after, err := json.Marshal(have); err != nil || string(after) != string(before) {
		t.Errorf("%v (-before +after):\n%s", err, cmp.Diff(string(before), string(after)))
	}
}
