// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wanted is the kind to which the API server's codec converts.
var wanted = schema.GroupVersionKind{Group: "x.io", Version: "v2", Kind: "Thing"}

// converting is a codec like that of the API server: what it decodes into decides
// whether it converts, and metadata is rebuilt.
type converting struct{ conversions *int }

func (c converting) Identifier() runtime.Identifier         { return "converting" }
func (c converting) Encode(runtime.Object, io.Writer) error { return nil }

func (c converting) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, ok := into.(*unstructured.Unstructured)
	if !ok {
		out = &unstructured.Unstructured{}
	}
	convert := into == nil || !out.GroupVersionKind().Empty()
	read := out
	if convert {
		read = &unstructured.Unstructured{}
	}
	_, stored, err := parsed{unstructured.UnstructuredJSONScheme}.Decode(data, defaults, read)
	if err != nil {
		return nil, nil, err
	}
	out.Object = read.Object
	if metadata, ok := out.Object["metadata"].(map[string]any); ok {
		out.Object["metadata"] = map[string]any{"generation": metadata["generation"], "name": "rebuilt"}
	}
	if convert {
		*c.conversions++
		out.SetGroupVersionKind(wanted)
	}
	return out, stored, nil
}

func TestWhatIsStoredAsItIsReadIsNotConverted(t *testing.T) {
	t.Parallel()
	thing := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(wanted)
		return u
	}
	tests := map[string]struct {
		data        string
		into        runtime.Object
		conversions int
		name        string
		err         bool
	}{
		"a list or an update reads": {data: `{"apiVersion":"x.io/v2","kind":"Thing","spec":{"a":"b"}}`, into: thing()},
		"a watch reads":             {data: `{"apiVersion":"x.io/v2","kind":"Thing","spec":{"a":"b"}}`},
		"into no version":           {data: `{"apiVersion":"x.io/v2","kind":"Thing","spec":{"a":"b"}}`, into: &unstructured.Unstructured{}},
		"well-formed metadata": {
			data: `{"apiVersion":"x.io/v2","kind":"Thing","spec":{"a":"b"},"metadata":{"name":"a","generation":1}}`, into: thing(), name: "a",
		},
		"metadata that old servers wrote": {
			data: `{"apiVersion":"x.io/v2","kind":"Thing","spec":{"a":"b"},"metadata":{"name":"a","generation":1,"labels":{"a":1}}}`, into: thing(), name: "rebuilt",
		},
		"another version is stored": {data: `{"apiVersion":"x.io/v1","kind":"Thing","spec":{"a":"b"}}`, into: thing(), conversions: 1},
		"a watch of another":        {data: `{"apiVersion":"x.io/v1","kind":"Thing","spec":{"a":"b"}}`, conversions: 1},
		"what cannot be read":       {data: `{`, into: thing(), err: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conversions := 0
			got, _, err := storedCodec{converting{&conversions}, unstructured.UnstructuredJSONScheme, wanted, &history{}}.Decode([]byte(tc.data), nil, tc.into)
			if (err != nil) != tc.err || conversions != tc.conversions {
				t.Fatalf("%d conversions, want %d; error %v", conversions, tc.conversions, err)
			}
			if tc.err {
				return
			}
			u, ok := got.(*unstructured.Unstructured)
			if !ok || tc.into != nil && got != tc.into {
				t.Fatalf("decoded into %T, not into what was given", got)
			}
			if a, _, _ := unstructured.NestedString(u.Object, "spec", "a"); a != "b" || u.GroupVersionKind() != wanted || u.GetName() != tc.name {
				t.Errorf("got %v", u.Object)
			}
		})
	}
	conversions := 0
	if _, _, err := (storedCodec{converting{&conversions}, unstructured.UnstructuredJSONScheme, wanted, &history{}}).Decode([]byte(`{"apiVersion":"v1","kind":"Status"}`), nil, &metav1.Status{}); err != nil {
		t.Error(err)
	}
}
