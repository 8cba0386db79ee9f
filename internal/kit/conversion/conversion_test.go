// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Thing is the stored version of a kind. Its metadata vanishes when it is empty.
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Size              int64 `json:"size,omitempty"`
}

func version(v string) schema.GroupVersion { return schema.GroupVersion{Group: "x.io", Version: v} }

// oldThing is an old version of it, which always has metadata.
type oldThing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Length            int64 `json:"length"`
}

func (t *Thing) DeepCopyObject() runtime.Object    { c := *t; return &c }
func (t *oldThing) DeepCopyObject() runtime.Object { c := *t; return &c }

// pairs are between x.io/v2, the stored version, and the versions given. Some
// sizes cannot be converted.
func pairs(versions ...string) (all []Pair) {
	stored := version("v2").WithKind("Thing")
	for _, v := range versions {
		old := version(v).WithKind("Thing")
		all = append(all, Pair{
			Old: old, Stored: stored,
			NewOld: func() runtime.Object { return &oldThing{} }, NewStored: func() runtime.Object { return &Thing{} },
			Up: func(obj runtime.Object) (runtime.Object, error) {
				in := obj.(*oldThing)
				out := &Thing{ObjectMeta: in.ObjectMeta, Size: in.Length}
				out.SetGroupVersionKind(stored)
				return out, nil
			},
			Down: func(obj runtime.Object) (runtime.Object, error) {
				in := obj.(*Thing)
				out := &oldThing{ObjectMeta: in.ObjectMeta, Length: in.Size}
				out.SetGroupVersionKind(old)
				switch in.Size {
				case 13:
					return nil, errors.New("a: 13 is no length")
				case 14:
					panic("14")
				case 7:
					out.Annotations = maps.Clone(in.Annotations)
					metav1.SetMetaDataAnnotation(&out.ObjectMeta, "was", "7")
				}
				return out, nil
			},
		})
	}
	return all
}

func things(t *testing.T) *Converter {
	t.Helper()
	c, err := New(pairs("v0", "v1")...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fields(t *testing.T, text string) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestObjectsAreConvertedAlikeInMemoryAndInJSON(t *testing.T) {
	t.Parallel()
	const metadata = `"metadata": {"name": "a", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "managedFields": [{"manager": "m"}]}`
	tests := map[string]struct{ in, to, want, wantErr string }{
		"down":                        {`{"apiVersion": "x.io/v2", "kind": "Thing", "size": 3, ` + metadata + `}`, "x.io/v1", `{"apiVersion": "x.io/v1", "kind": "Thing", "length": 3, ` + metadata + `}`, ""},
		"up":                          {`{"apiVersion": "x.io/v1", "kind": "Thing", "length": 3, ` + metadata + `}`, "x.io/v2", `{"apiVersion": "x.io/v2", "kind": "Thing", "size": 3, ` + metadata + `}`, ""},
		"through the stored version":  {`{"apiVersion": "x.io/v0", "kind": "Thing", "length": 3, ` + metadata + `}`, "x.io/v1", `{"apiVersion": "x.io/v1", "kind": "Thing", "length": 3, ` + metadata + `}`, ""},
		"with an annotation":          {`{"apiVersion": "x.io/v2", "kind": "Thing", "size": 7, "metadata": {"annotations": {"a": "b"}}}`, "x.io/v1", `{"apiVersion": "x.io/v1", "kind": "Thing", "length": 7, "metadata": {"annotations": {"a": "b", "was": "7"}}}`, ""},
		"without metadata":            {`{"apiVersion": "x.io/v1", "kind": "Thing", "length": 3}`, "x.io/v2", `{"apiVersion": "x.io/v2", "kind": "Thing", "size": 3, "metadata": {}}`, ""},
		"without anything":            {`{"apiVersion": "x.io/v2", "kind": "Thing"}`, "x.io/v1", `{"apiVersion": "x.io/v1", "kind": "Thing", "length": 0, "metadata": {}}`, ""},
		"that is of the version":      {`{"apiVersion": "x.io/v1", "kind": "Thing", "other": 3}`, "x.io/v1", `{"apiVersion": "x.io/v1", "kind": "Thing", "other": 3}`, ""},
		"that cannot be converted":    {`{"apiVersion": "x.io/v2", "kind": "Thing", "size": 13, ` + metadata + `}`, "x.io/v1", "", "a: 13 is no length"},
		"at which the function fails": {`{"apiVersion": "x.io/v2", "kind": "Thing", "size": 14, ` + metadata + `}`, "x.io/v1", "", "convert Thing ns/a to x.io/v1: panic: 14"},
		"of a wrong type":             {`{"apiVersion": "x.io/v2", "kind": "Thing", "size": "x", "metadata": {"name": "a"}}`, "x.io/v1", "", "convert Thing /a to x.io/v1: json: cannot unmarshal string into Go struct field Thing.size of type int64"},
		"of another kind":             {`{"apiVersion": "x.io/v2", "kind": "Other"}`, "x.io/v1", "", "convert Other / to x.io/v1: kind Other.x.io has no conversion"},
		"of another version":          {`{"apiVersion": "x.io/v3", "kind": "Thing"}`, "x.io/v1", "", "convert Thing / to x.io/v1: kind Thing.x.io has no version x.io/v3 that is converted"},
		"to another version":          {`{"apiVersion": "x.io/v2", "kind": "Thing"}`, "y.io/v1", "", "convert Thing / to y.io/v1: kind Thing.x.io has no version y.io/v1 that is converted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, text := things(t), ""
			raw, err := c.JSON([]byte(tc.in), tc.to)
			if err != nil {
				text = err.Error()
			}
			if text != tc.wantErr {
				t.Fatalf("in JSON: error %q, want %q", text, tc.wantErr)
			}
			in := fields(t, tc.in)
			obj, err := c.Object(in, tc.to)
			if text = ""; err != nil {
				text = err.Error()
			}
			if text != tc.wantErr {
				t.Fatalf("in memory: error %q, want %q", text, tc.wantErr)
			}
			if diff := cmp.Diff(fields(t, tc.in), in); diff != "" {
				t.Errorf("what was converted has changed (-want +got):\n%s", diff)
			}
			if tc.wantErr != "" {
				return
			}
			want := fields(t, tc.want)
			data, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, fields(t, string(data))); diff != "" {
				t.Errorf("in memory (-want +got):\n%s", diff)
			}
			if m, ok := want["metadata"].(map[string]any); ok {
				delete(m, "managedFields") // an API server keeps its own
			}
			if diff := cmp.Diff(want, fields(t, string(raw))); diff != "" {
				t.Errorf("in JSON (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPairsOfAKindMustGoTogether(t *testing.T) {
	t.Parallel()
	if _, err := New(pairs("v1", "v1")...); err == nil {
		t.Error("a version may be there twice")
	}
	if _, err := New(pairs("v2")...); err == nil {
		t.Error("the stored version may be an old one")
	}
	c := things(t)
	thing := version("v2").WithKind("Thing")
	if c.Stored(thing.GroupKind()) != "x.io/v2" || c.Stored(schema.GroupKind{Kind: "Thing"}) != "" {
		t.Error("the stored version is not known")
	}
	if c.Converts(thing) || !c.Converts(version("v1").WithKind("Thing")) || c.Converts(version("v1").WithKind("Other")) {
		t.Error("the old versions are not known")
	}
}

// ask sends a review and returns the status and what is answered.
func ask(t *testing.T, body io.Reader) (int, map[string]any) {
	t.Helper()
	recorder := httptest.NewRecorder()
	things(t).ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, Path, body))
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	return recorder.Code, fields(t, recorder.Body.String())
}

func TestReviewsAreAnsweredWholeAndInOrder(t *testing.T) {
	t.Parallel()
	const of = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "u", "desiredAPIVersion": "x.io/v1", "objects": `
	answer := func(result, objects string) map[string]any {
		return fields(t, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {"uid": "u", "convertedObjects": `+objects+`, "result": `+result+`}}`)
	}
	failure := func(message string) string {
		return `{"metadata": {}, "status": "Failure", "message": "` + message + `"}`
	}
	const success = `{"metadata": {}, "status": "Success"}`
	tests := map[string]struct {
		body     string
		wantCode int
		want     map[string]any
	}{
		"all":                    {of + `[{"apiVersion": "x.io/v2", "kind": "Thing", "size": 2}, {"apiVersion": "x.io/v1", "kind": "Thing"}, {"apiVersion": "x.io/v0", "kind": "Thing", "length": 1}]}}`, 200, answer(success, `[{"apiVersion": "x.io/v1", "kind": "Thing", "length": 2, "metadata": {}}, {"apiVersion": "x.io/v1", "kind": "Thing"}, {"apiVersion": "x.io/v1", "kind": "Thing", "length": 1, "metadata": {}}]`)},
		"none":                   {of + `[]}}`, 200, answer(success, `[]`)},
		"one that fails":         {of + `[{"apiVersion": "x.io/v2", "kind": "Thing"}, {"apiVersion": "x.io/v2", "kind": "Thing", "size": 13, "metadata": {"name": "a"}}]}}`, 200, answer(failure("a: 13 is no length"), `[]`)},
		"one that panics":        {of + `[{"apiVersion": "x.io/v2", "kind": "Thing", "size": 14, "metadata": {"name": "a"}}]}}`, 200, answer(failure("convert Thing /a to x.io/v1: panic: 14"), `[]`)},
		"null":                   {of + `[null]}}`, 200, answer(failure("convert object / to x.io/v1: kind  has no conversion"), `[]`)},
		"what is no object":      {of + `[7]}}`, 200, answer(failure("read an object to convert to x.io/v1: json: cannot unmarshal number into Go value of type conversion.identity"), `[]`)},
		"rubbish":                {"rubbish", 400, nil},
		"another kind of review": {`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}`, 400, nil},
		"an old review":          {strings.Replace(of, "k8s.io/v1", "k8s.io/v1beta1", 1) + `[]}}`, 400, nil},
		"no request":             {`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}`, 400, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, got := ask(t, strings.NewReader(tc.body))
			if code != tc.wantCode {
				t.Fatalf("code %d, want %d", code, tc.wantCode)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReviewsAreBounded(t *testing.T) {
	t.Parallel()
	body := io.MultiReader(strings.NewReader(`{"request": "`), bytes.NewReader(bytes.Repeat([]byte{'x'}, maxReview)))
	if code, _ := ask(t, body); code != http.StatusBadRequest {
		t.Errorf("code %d for more than %d bytes", code, maxReview)
	}
}

// BenchmarkConverter converts what has managed fields, as most objects have.
func BenchmarkConverter(b *testing.B) {
	c, err := New(pairs("v1")...)
	if err != nil {
		b.Fatal(err)
	}
	raw := []byte(`{"apiVersion": "x.io/v2", "kind": "Thing", "size": 3, "metadata": {"name": "a", "managedFields": [{"manager": "m", "fieldsV1": {"f:size": {}}}]}}`)
	obj := map[string]any{}
	if err := json.Unmarshal(raw, &obj); err != nil {
		b.Fatal(err)
	}
	obj = runtime.DeepCopyJSON(obj)
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.JSON(raw, "x.io/v1"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("memory", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Object(obj, "x.io/v1"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
