// SPDX-License-Identifier: Apache-2.0

package patchvalidation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

func tree(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDifferencesAreThePathsThatDiffer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a, b string
		want []string
	}{
		"equal objects do not differ":          {`{"a":{"b":[1]}}`, `{"a":{"b":[1]}}`, nil},
		"an absent field equals null":          {`{"a":null}`, `{}`, nil},
		"a value differs":                      {`{"a":{"b":1,"c":2}}`, `{"a":{"b":2,"c":2}}`, []string{"a.b"}},
		"fields come and go":                   {`{"a":{"old":1}}`, `{"a":{"new":{"x":1}}}`, []string{"a.new", "a.old"}},
		"lists differ as a whole":              {`{"a":[1,2]}`, `{"a":[2,1]}`, []string{"a"}},
		"an object becomes something else":     {`{"a":{}}`, `{"a":1}`, []string{"a"}},
		"everything is different":              {`1`, `2`, []string{""}},
		"an empty object is not an absent one": {`{"a":{}}`, `{}`, []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Differences(tree(t, tc.a), tree(t, tc.b))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPathsAreBelowOrOutside(t *testing.T) {
	t.Parallel()
	paths := []string{"spec", "spec.template", "specific", "metadata.labels.a", "metadata"}
	if diff := cmp.Diff([]string{"spec", "spec.template", "metadata.labels.a"}, Below(paths, "spec", "metadata.labels")); diff != "" {
		t.Errorf("below (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"specific", "metadata"}, Outside(paths, "spec", "metadata.labels")); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

func TestJoinNamesTheFirstFew(t *testing.T) {
	t.Parallel()
	for want, paths := range map[string][]string{
		"":                         nil,
		"a, b":                     {"a", "b"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := Join(paths); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	const object = `{"kind":"K","spec":{"a":1,"list":[1]}}`
	tests := map[string]struct {
		kind          hooksv1.PatchType
		patch         string
		want, wantErr string
	}{
		"a JSON patch":                  {hooksv1.JSONPatchType, `[{"op":"add","path":"/spec/list/-","value":2}]`, `{"kind":"K","spec":{"a":1,"list":[1,2]}}`, ""},
		"a JSON patch without a step":   {hooksv1.JSONPatchType, `[]`, object, ""},
		"a merge patch":                 {hooksv1.JSONMergePatchType, `{"spec":{"a":null,"b":{"c":2}}}`, `{"kind":"K","spec":{"b":{"c":2},"list":[1]}}`, ""},
		"no type":                       {"", `{}`, "", `its type is ""`},
		"a type of Kubernetes":          {"application/json-patch+json", `[]`, "", "want JSONPatch or JSONMergePatch"},
		"a patch that is no JSON":       {hooksv1.JSONPatchType, `[{`, "", "no JSON patch"},
		"a merge patch that is no JSON": {hooksv1.JSONMergePatchType, `{`, "", "does not apply"},
		"a path that is not there":      {hooksv1.JSONPatchType, `[{"op":"remove","path":"/spec/b"}]`, "", "does not apply"},
		"a step that is unknown":        {hooksv1.JSONPatchType, `[{"op":"twist","path":"/spec/b"}]`, "", "no JSON patch"},
		"a test that fails":             {hooksv1.JSONPatchType, `[{"op":"test","path":"/kind","value":"L"}]`, "", "does not apply"},
		"the object is taken away":      {hooksv1.JSONMergePatchType, `null`, "", "leaves no object"},
		"the object becomes a list":     {hooksv1.JSONPatchType, `[{"op":"replace","path":"","value":[]}]`, "", "leaves no object"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := tree(t, object).(map[string]any)
			got, err := Apply(given, tc.kind, []byte(tc.patch))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got error %v, want something with %q", err, tc.wantErr)
				}
			} else if err != nil {
				t.Error(err)
			} else if diff := cmp.Diff(tree(t, tc.want), any(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tree(t, object), any(given)); diff != "" {
				t.Errorf("the object given changed (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzApply looks for patches that do worse than not apply.
func FuzzApply(f *testing.F) {
	for _, patch := range []string{`[]`, `null`, `{"a":null}`, `[{"op":"add","path":"","value":null}]`, `[{"op":"copy","from":"/a","path":"/b"}]`, `[{"op":"move","from":"","path":"/b"}]`, `[null]`, `[{"op":"test","path":"/a"}]`, `[{"op":"add","path":"/a/-1","value":1}]`, `[{"op":null,"path":null}]`} {
		f.Add(true, patch)
		f.Add(false, patch)
	}
	f.Fuzz(func(t *testing.T, merge bool, patch string) {
		kind := hooksv1.JSONPatchType
		if merge {
			kind = hooksv1.JSONMergePatchType
		}
		got, err := Apply(tree(t, `{"a":[1],"b":{"c":null}}`).(map[string]any), kind, []byte(patch))
		if err == nil && got == nil {
			t.Error("neither an object nor an error")
		}
	})
}

func TestUnexpectedFieldsAreNeitherCurrentNorDesired(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		current, updated, desired string
		want                      []string
	}{
		"what is current may stay":          {`{"a":1}`, `{"a":1}`, `{"a":2}`, nil},
		"what is desired may come":          {`{"a":1}`, `{"a":2}`, `{"a":2}`, nil},
		"an undesired value is unexpected":  {`{"a":1}`, `{"a":3}`, `{"a":2}`, []string{"a"}},
		"fields may come and go":            {`{"a":{"old":1}}`, `{"a":{"new":1}}`, `{"a":{"new":1}}`, nil},
		"an undesired field":                {`{"a":{}}`, `{"a":{"x":1}}`, `{"a":{}}`, []string{"a.x"}},
		"an object of both sides":           {`{"a":{"b":1}}`, `{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, nil},
		"a field that is gone too early":    {`{"a":1}`, `{}`, `{"a":2}`, []string{"a"}},
		"a list may be on its way":          {`{"a":[1]}`, `{"a":[1,2]}`, `{"a":[2,3]}`, nil},
		"an object in place of two numbers": {`{"a":1}`, `{"a":{"b":1}}`, `{"a":2}`, []string{"a"}},
		"an object that is only desired":    {`{}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, UnexpectedFields(tree(t, tc.current), tree(t, tc.updated), tree(t, tc.desired))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
