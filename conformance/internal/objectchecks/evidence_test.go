// SPDX-License-Identifier: Apache-2.0

package objectchecks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// parsed is an object of a text of YAML, as a client reads it.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: Host, " + text[1:]))
	obj := &unstructured.Unstructured{}
	if err == nil {
		err = obj.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

// TestPartsLeaveOutWhatTheyMust, and do not change the object.
func TestPartsLeaveOutWhatTheyMust(t *testing.T) {
	t.Parallel()
	const full = `{metadata: {name: h, resourceVersion: "7", managedFields: [{manager: m}]}, spec: {size: 1}, status: {observedGeneration: 2, ready: true,
conditions: [{type: Paused, status: "True"}, {type: Ready, status: "False"}], v1beta2: {conditions: [{type: Paused}]}, deprecated: {v1beta1: {conditions: [{type: Paused}, 3]}}}}`
	for name, tc := range map[string]struct {
		part func(*unstructured.Unstructured) map[string]any
		text string
		want string
	}{
		"whole": {Whole, full, `{metadata: {name: h}, spec: {size: 1}, status: {observedGeneration: 2, ready: true,
conditions: [{type: Paused, status: "True"}, {type: Ready, status: "False"}], v1beta2: {conditions: [{type: Paused}]}, deprecated: {v1beta1: {conditions: [{type: Paused}, 3]}}}}`},
		"substance":                         {Substance, full, `{spec: {size: 1}, status: {ready: true, conditions: [{type: Ready, status: "False"}], deprecated: {v1beta1: {conditions: [3]}}}}`},
		"done":                              {Done, full, `{spec: {size: 1}, status: {ready: true, deprecated: {v1beta1: {conditions: [3]}}}}`},
		"a status of only what is left out": {Done, `{spec: {size: 1}, status: {observedGeneration: 1, v1beta2: {conditions: [{type: Ready}]}, conditions: []}}`, `{spec: {size: 1}}`},
		"no status":                         {Substance, `{metadata: {name: h}, spec: {size: 1}}`, `{spec: {size: 1}}`},
		"a status that is no object":        {Done, `{status: [1]}`, `{status: [1]}`},
		"conditions that are no list":       {Done, `{status: {conditions: none, v1beta2: 1}}`, `{status: {conditions: none, v1beta2: 1}}`},
	} {
		obj := parsed(t, tc.text)
		before := obj.DeepCopy()
		if diff := cmp.Diff(parsed(t, tc.want).Object, tc.part(obj)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
			t.Errorf("%s changed the object (-before +after):\n%s", name, diff)
		}
	}
}

func TestDifferencesNameFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, now      string
		differs, changed string // in lines
	}{
		"nothing":              {`{spec: {a: 1, b: [x]}}`, `{spec: {a: 1, b: [x]}}`, "", ""},
		"a value":              {`{spec: {a: 1}}`, `{spec: {a: 2}}`, "spec.a is 2", "spec.a is 2"},
		"a field is added":     {`{spec: {a: 1}}`, `{spec: {a: 1, b: {c: x}}}`, `spec.b is {"c":"x"}`, ""},
		"a field is removed":   {`{spec: {a: 1, b: 2}}`, `{spec: {a: 1}}`, "spec.b is null", "spec.b is null"},
		"a list":               {`{spec: {a: [1, 2]}}`, `{spec: {a: [2, 1]}}`, "spec.a is [2,1]", "spec.a is [2,1]"},
		"an object is a text":  {`{spec: {a: {b: 1}}}`, `{spec: {a: text}}`, `spec.a is "text"`, `spec.a is "text"`},
		"several, in order":    {`{spec: {b: 1, a: 1}}`, `{spec: {b: 2, a: 2}}`, "spec.a is 2\nspec.b is 2", "spec.a is 2\nspec.b is 2"},
		"a part is removed":    {`{spec: {a: 1}, status: {b: 1}}`, `{spec: {a: 1}}`, "status is null", "status is null"},
		"null is no new value": {`{spec: {a: null}}`, `{spec: {}}`, "", ""},
	} {
		before, now := parsed(t, tc.before).Object, parsed(t, tc.now).Object
		if got := strings.Join(Differences(before, now, ""), "\n"); got != tc.differs {
			t.Errorf("%s: differences %q, want %q", name, got, tc.differs)
		}
		if got := strings.Join(Changed(before, now, ""), "\n"); got != tc.changed {
			t.Errorf("%s: changes %q, want %q", name, got, tc.changed)
		}
	}
}

func TestConditionsAreReadInAnyForm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		n    int
		err  string
		// ready is the status of the condition Ready.
		ready string
	}{
		"none":                     {`{status: {}}`, 0, "", ""},
		"no status":                {`{spec: {}}`, 0, "", ""},
		"null":                     {`{status: {conditions: null}}`, 0, "", ""},
		"two":                      {`{status: {conditions: [{type: Other}, {type: Ready, status: "False"}]}}`, 2, "", "False"},
		"in the place of v1beta2":  {`{status: {v1beta2: {conditions: [1, {type: Ready, status: "True"}]}}}`, 0, "", "True"},
		"in both places":           {`{status: {conditions: [{type: Ready, status: "False"}], v1beta2: {conditions: [{type: Ready, status: "True"}]}}}`, 1, "", "False"},
		"a status that is no text": {`{status: {conditions: [{type: Ready, status: true}]}}`, 1, "", ""},
		"no list":                  {`{status: {conditions: {type: Ready}}}`, 0, "status.conditions is no list", ""},
		"no object":                {`{status: {conditions: [{type: Ready, status: "True"}, Ready]}}`, 0, "status.conditions[1] is no object", ""},
		"a status that is a list":  {`{status: [1]}`, 0, "accessor error", ""},
	} {
		obj := parsed(t, tc.text)
		got, err := Conditions(obj)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if len(got) != tc.n || tc.err == "" && text != "" || !strings.Contains(text, tc.err) {
			t.Errorf("%s: %d conditions, error %v", name, len(got), err)
		}
		if got := Condition(obj, "Ready"); got != tc.ready {
			t.Errorf("%s: Ready is %q, want %q", name, got, tc.ready)
		}
	}
}

func TestWellFormedNamesWhatIsMalformed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`: "",
		`[{type: A, status: "True"}, {type: B, status: Unknown, reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]`: "",
		`[{type: A, status: "True", reason: null, lastTransitionTime: null}]`:                                                         "",
		`[{status: "True"}]`:                                     `condition {"status":"True"} has no type of its own`,
		`[{type: "", status: "True"}]`:                           "has no type of its own",
		`[{type: 1, status: "True"}]`:                            "has no type of its own",
		`[{type: A, status: "True"}, {type: A, status: "True"}]`: "has no type of its own",
		`[{type: A}]`:                                            "condition A has status null, want True, False or Unknown",
		`[{type: A, status: true}]`:                              "condition A has status true",
		`[{type: A, status: Maybe}]`:                             `condition A has status "Maybe"`,
		`[{type: A, status: "True", reason: 1}]`:                 "condition A: reason is no text",
		`[{type: A, status: "True", message: [m]}]`:              "condition A: message is no text",
		`[{type: A, status: "True", lastTransitionTime: 3}]`:     "condition A: lastTransitionTime is no text",
		`[{type: A, status: "True", lastTransitionTime: soon}]`:  `condition A: lastTransitionTime "soon" is no time`,
	} {
		list, err := Conditions(parsed(t, "{status: {conditions: "+text+"}}"))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := WellFormed(list); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	t.Parallel()
	if got := []rune(JSON(strings.Repeat("ü", 1000))); len(got) != 400 || got[399] != '…' {
		t.Errorf("%d characters", len(got))
	}
	if got := JSON(map[string]any{"a": func() {}}); got == "" {
		t.Error("a value that is no JSON has no text")
	}
	obj := parsed(t, `{spec: {a: x, b: 1}}`)
	if Text(obj, "spec", "a") != "x" || Text(obj, "spec", "b") != "" || Text(obj, "spec", "a", "c") != "" || Text(nil, "spec") != "" {
		t.Error("texts of fields are wrong")
	}
}
