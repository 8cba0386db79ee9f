// SPDX-License-Identifier: Apache-2.0

package ssadiff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

const things = `{"type":"object","properties":{"spec":{"type":"object","properties":{
 "count":{"type":"integer","default":3},"name":{"type":"string"},"maybe":{"type":"string","nullable":true},"size":{"x-kubernetes-int-or-string":true},
 "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
 "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],"items":{"type":"object","properties":{"port":{"type":"integer"},"protocol":{"type":"string","default":"TCP"},"name":{"type":"string"}}}},
 "atoms":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","default":2}}}},
 "group":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}},
 "map":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}},
 "bare":{"type":"object"},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}`

func thing(t testing.TB) *ssadiff.Type {
	t.Helper()
	out, err := ssadiff.NewType(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Thing"}, []byte(things))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func object(t testing.TB, text string) (out map[string]any) {
	t.Helper()
	if err := utiljson.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func want(t testing.TB, text string) *ssadiff.Intent {
	t.Helper()
	in, err := thing(t).Intend("us", object(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// whole is an object with a spec and no managedFields.
func whole(spec string) string {
	return `{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n"},"spec":` + spec + `}`
}

// live is an object with an entry of the manager for some fields of its spec, and
// optional entries of others.
func live(spec, fields string, others ...string) string {
	entry := `{"manager":%q,"operation":%q,"apiVersion":"g/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":%s}}`
	all := []string{fmt.Sprintf(entry, "us", "Apply", fields), `{"manager":"ctrl","operation":"Update","apiVersion":"g/v1","subresource":"status","fieldsType":"FieldsV1","fieldsV1":{"f:status":{}}}`}
	for _, o := range others {
		all = append(all, fmt.Sprintf(entry, "them", "Update", o))
	}
	return `{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n","resourceVersion":"7","managedFields":[` + strings.Join(all, ",") + `]},"spec":` + spec + `,"status":{"x":1}}`
}

func TestAnApplyIsNeededOnlyWhenItChangesSomething(t *testing.T) {
	t.Parallel()
	replace := strings.Replace
	tests := map[string]struct {
		intent, live string
		want         ssadiff.Reason
	}{
		"same":                                {whole(`{"name":"a"}`), live(`{"name":"a","count":3}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"value":                               {whole(`{"name":"a"}`), live(`{"name":"b"}`, `{"f:name":{}}`), ssadiff.Values},
		"field comes":                         {whole(`{"name":"a","count":3}`), live(`{"name":"a","count":3}`, `{"f:name":{}}`), ssadiff.Ownership},
		"field goes":                          {whole(`{"name":"a"}`), live(`{"name":"a","count":4}`, `{"f:name":{},"f:count":{}}`), ssadiff.Ownership},
		"taken from us, to another value":     {whole(`{"name":"a"}`), live(`{"name":"b"}`, `{}`, `{"f:name":{}}`), ssadiff.Ownership},
		"taken from us, and put back":         {whole(`{"name":"a"}`), live(`{"name":"a"}`, `{}`, `{"f:name":{}}`), ssadiff.Ownership},
		"owned by others as well":             {whole(`{"name":"a"}`), live(`{"name":"a"}`, `{"f:name":{}}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"float is int":                        {whole(`{"count":2.0}`), live(`{"count":2}`, `{"f:count":{}}`), ssadiff.Unchanged},
		"int is not string":                   {whole(`{"size":"1"}`), live(`{"size":1}`, `{"f:size":{}}`), ssadiff.Values},
		"default inside an atomic list":       {whole(`{"atoms":[{"a":"x"}]}`), live(`{"atoms":[{"a":"x","b":2}]}`, `{"f:atoms":{}}`), ssadiff.Unchanged},
		"null that is not nullable":           {whole(`{"name":"a","count":null}`), live(`{"name":"a","count":3}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"null that is nullable":               {whole(`{"maybe":null}`), live(`{}`, `{"f:maybe":{}}`), ssadiff.Values},
		"extra field of a bare object":        {whole(`{"bare":{"x":1}}`), live(`{"bare":{}}`, `{"f:bare":{}}`), ssadiff.Unchanged},
		"key with default":                    {whole(`{"ports":[{"port":1}]}`), live(`{"ports":[{"port":1,"protocol":"TCP"}]}`, `{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}`), ssadiff.Unchanged},
		"others' items":                       {whole(`{"tags":["a"]}`), live(`{"tags":["z","a"]}`, `{"f:tags":{"v:\"a\"":{}}}`), ssadiff.Unchanged},
		"order of ours":                       {whole(`{"tags":["b","a"]}`), live(`{"tags":["a","b"]}`, `{"f:tags":{"v:\"a\"":{},"v:\"b\"":{}}}`), ssadiff.Values},
		"unknown fields that are kept":        {whole(`{"free":{"x":{"y":null}}}`), live(`{"free":{"x":{"y":null},"z":1}}`, `{"f:free":{"f:x":{".":{},"f:y":{}}}}`), ssadiff.Unchanged},
		"a key that JSON escapes":             {whole(`{"free":{"a&b":1}}`), live(`{"free":{"a&b":1}}`, `{"f:free":{"f:a\u0026b":{}}}`), ssadiff.Unchanged},
		"an explicit zero":                    {whole(`{"name":""}`), live(`{"name":""}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"no managedFields":                    {whole(`{"name":"a"}`), whole(`{"name":"a"}`), ssadiff.FieldsLost},
		"never applied":                       {whole(`{"name":"a"}`), replace(live(`{"name":"a"}`, `{}`), `"us"`, `"them"`, 1), ssadiff.NeverApplied},
		"never applied, nothing to own":       {whole(`{}`), replace(live(`{}`, `{}`), `"us"`, `"them"`, 1), ssadiff.NeverApplied},
		"no field at all":                     {`{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n"}}`, replace(live(`{}`, `{}`), `"us"`, `"them"`, 1), ssadiff.Unchanged},
		"no field and no managedFields":       {`{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n"}}`, whole(`{}`), ssadiff.Unchanged},
		"entry of another version":            {whole(`{"name":"a"}`), replace(live(`{"name":"a"}`, `{"f:name":{}}`), `"apiVersion":"g/v1","fieldsType"`, `"apiVersion":"g/v0","fieldsType"`, 1), ssadiff.OtherVersion},
		"an update under our name":            {whole(`{"name":"a"}`), replace(live(`{"name":"a"}`, `{"f:name":{}}`), `"Apply"`, `"Update"`, 1), ssadiff.NeverApplied},
		"an apply to status under our name":   {whole(`{"name":"a"}`), replace(live(`{"name":"a"}`, `{"f:name":{}}`), `"operation":"Apply"`, `"subresource":"status","operation":"Apply"`, 1), ssadiff.NeverApplied},
		"a label":                             {`{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n","labels":{"a":"b"}}}`, live(`{}`, `{}`), ssadiff.Ownership},
		"a live object of another schema":     {whole(`{"name":"a"}`), live(`{"name":"a","plain":1}`, `{"f:name":{}}`), ssadiff.Misfit},
		"the uid of a precondition":           {`{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"n","uid":"u"},"spec":{"name":"a"}}`, live(`{"name":"a"}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"managedFields that cannot be read":   {whole(`{"name":"a"}`), live(`{"name":"a"}`, `{"k:name":{}}`), ssadiff.Misfit},
		"a list that others gave a duplicate": {whole(`{"name":"a"}`), live(`{"name":"a","tags":["z","z"]}`, `{"f:name":{}}`), ssadiff.Unchanged},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := want(t, tc.intent).Against(object(t, tc.live), nil)
			if v.Reason != tc.want {
				t.Errorf("got %q, want %q; added %v, removed %v, %s", v.Reason, tc.want, v.Added, v.Removed, v.Problem)
			}
		})
	}
}

func TestWhatTheServerRefusesIsRefusedHere(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]string{
		"unknown field":  `{"other":1}`,
		"wrong type":     `{"name":1}`,
		"twice in a set": `{"tags":["a","a"]}`,
		"one key twice":  `{"ports":[{"port":1},{"port":1,"protocol":"TCP"}]}`,
	} {
		if _, err := thing(t).Intend("us", object(t, whole(spec))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ssadiff.NewType(schema.GroupVersionKind{Kind: "Thing"}, []byte(`{"type":`)); err == nil {
		t.Error("a schema that is no JSON: accepted")
	}
}

func TestWhatIsSentIsComplete(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ spec, want string }{
		"a default, in an atomic list":          {`{"atoms":[{"a":"x"}]}`, `{"atoms":[{"a":"x","b":2.0}]}`},
		"no default, elsewhere":                 {`{"name":"a","ports":[{"port":1}]}`, `{"name":"a","ports":[{"port":1}]}`},
		"no null that is not nullable":          {`{"name":null,"group":{"x":null}}`, `{"group":{}}`},
		"null that is":                          {`{"maybe":null}`, `{"maybe":null}`},
		"null where fields are not known":       {`{"free":{"a":null}}`, `{"free":{"a":null}}`},
		"nothing inside an object of no fields": {`{"bare":{"a":1}}`, `{"bare":{}}`},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(object(t, tc.want), want(t, whole(tc.spec)).Object()["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestWhatAWebhookChangesIsRemembered is about one that writes v1 where 1 was
// applied.
func TestWhatAWebhookChangesIsRemembered(t *testing.T) {
	t.Parallel()
	of := thing(t)
	intend := func(of *ssadiff.Type, spec string) *ssadiff.Intent {
		in, err := of.Intend("us", object(t, whole(spec)))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in, answer := intend(of, `{"name":"1"}`), object(t, live(`{"name":"v1"}`, `{"f:name":{}}`))
	settled := in.Settle(answer)
	if settled == nil {
		t.Fatal("not remembered")
	}
	tests := map[string]struct {
		in   *ssadiff.Intent
		live string
		want ssadiff.Reason
	}{
		"as the webhook left it":  {in, live(`{"name":"v1","count":9}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"the same, made again":    {intend(of, `{"name":"1"}`), live(`{"name":"v1"}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"changed by another":      {in, live(`{"name":"v2"}`, `{"f:name":{}}`), ssadiff.Values},
		"taken by another":        {in, live(`{"name":"v1"}`, `{}`), ssadiff.Ownership},
		"as intended, by another": {in, live(`{"name":"1"}`, `{"f:name":{}}`), ssadiff.Unchanged},
		"another intent":          {intend(of, `{"name":"2"}`), live(`{"name":"v1"}`, `{"f:name":{}}`), ssadiff.Values},
		"another schema":          {want(t, whole(`{"name":"1"}`)), live(`{"name":"v1"}`, `{"f:name":{}}`), ssadiff.Values},
	}
	for name, tc := range tests {
		if v := tc.in.Against(object(t, tc.live), settled); v.Reason != tc.want {
			t.Errorf("%s: got %q, want %q", name, v.Reason, tc.want)
		}
	}
	if in.Settle(object(t, live(`{"name":"1"}`, `{"f:name":{}}`))) != nil {
		t.Error("an answer that holds the intent is remembered too")
	}
	if in.Settle(object(t, whole(`{"name":"v1"}`))) != nil {
		t.Error("an answer without managedFields is remembered too")
	}
}

// TestASeedMakesTheIntentLookApplied tests the repair of lost managedFields.
func TestASeedMakesTheIntentLookApplied(t *testing.T) {
	t.Parallel()
	in, lost := want(t, whole(`{"name":"a","free":{"a&b":1}}`)), object(t, whole(`{"name":"a","count":4,"free":{"a&b":1}}`))
	lost["metadata"].(map[string]any)["managedFields"] = in.Seed(lost)
	if v := in.Against(lost, nil); v.Changed() {
		t.Errorf("got %q", v.Reason)
	}
	if v := want(t, whole(`{"free":{"a&b":1}}`)).Against(lost, nil); v.Removed == nil || v.Removed.Size() != 1 {
		t.Errorf("a field that goes later: %v", v.Removed)
	}
}

// TestASeedTakesNothingFromOthers has another client apply an object whose managedFields
// were lost, before this manager reads it.
func TestASeedTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	in, obj := want(t, whole(`{"name":"a"}`)), object(t, whole(`{"name":"a","count":4}`))
	meta := obj["metadata"].(map[string]any)
	nobodys := map[string]any{"manager": "before-first-apply", "operation": "Update", "apiVersion": "x.io/v1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:name": map[string]any{}}}}
	theirs := map[string]any{"manager": "them", "operation": "Apply", "apiVersion": "x.io/v1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:count": map[string]any{}}}}
	for _, before := range [][]any{{theirs}, {theirs, in.Seed(obj)[0]}} {
		meta["managedFields"] = append([]any{nobodys}, before...)
		if v := in.Against(obj, nil); v.Reason != ssadiff.FieldsLost {
			t.Errorf("got %q, want %q", v.Reason, ssadiff.FieldsLost)
		}
		meta["managedFields"] = in.Seed(obj)
		if v := in.Against(obj, nil); v.Changed() || len(in.Seed(obj)) != 2 {
			t.Errorf("got %q with %v", v.Reason, in.Seed(obj))
		}
	}
}

func TestWhatOthersHoldRemains(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		intent, live string
		want         []string
	}{
		"ours alone":                             {`{}`, live(`{"name":"a"}`, `{"f:name":{}}`), nil},
		"held by another":                        {`{}`, live(`{"name":"a"}`, `{"f:name":{}}`, `{"f:name":{}}`), []string{".spec.name them/Update"}},
		"a struct with another's field inside":   {`{}`, live(`{"group":{"x":"1","y":"2"}}`, `{"f:group":{"f:x":{},"f:y":{}}}`, `{"f:group":{"f:y":{}}}`), []string{".spec.group.y them/Update"}},
		"an item with another's field inside":    {`{}`, live(`{"map":{"a":{"x":"1","y":"2"}}}`, `{"f:map":{"f:a":{".":{},"f:x":{},"f:y":{}}}}`, `{"f:map":{"f:a":{"f:y":{}}}}`), nil},
		"an item that another holds":             {`{}`, live(`{"map":{"a":{"x":"1","y":"2"}}}`, `{"f:map":{"f:a":{".":{},"f:x":{},"f:y":{}}}}`, `{"f:map":{"f:a":{".":{},"f:y":{}}}}`), []string{".spec.map.a.y them/Update"}},
		"nothing goes":                           {`{"name":"a"}`, live(`{"name":"a"}`, `{"f:name":{}}`, `{"f:name":{}}`), nil},
		"below what is no object any more":       {`{"free":{"a":1}}`, live(`{"free":{"a":{"b":1}}}`, `{"f:free":{"f:a":{"f:b":{}}}}`, `{"f:free":{"f:a":{"f:b":{}}}}`), nil},
		"an item of what is no list any more":    {`{"free":{"a":1}}`, live(`{"tags":["a"],"free":{"a":1}}`, `{"f:free":{"f:a":{}},"f:tags":{"v:\"a\"":{}}}`, `{"f:tags":{"v:\"a\"":{}}}`), []string{`.spec.tags[="a"] them/Update`}},
		"another field with an unchanged parent": {`{"group":{"x":"1"}}`, live(`{"group":{"x":"1","y":"2"}}`, `{"f:group":{"f:x":{},"f:y":{}}}`, `{"f:group":{"f:y":{}}}`), []string{".spec.group.y them/Update"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, have := want(t, whole(tc.intent)), object(t, tc.live)
			remains, err := in.Remains(have, in.Against(have, nil))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range remains {
				got = append(got, r.Path.String()+" "+r.By)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestApplyOutcomeIsPredicted distinguishes a template whose spec changes, and
// which must be replaced, from one whose metadata alone does.
func TestApplyOutcomeIsPredicted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ intent, live, want string }{
		"a value":                          {`{"name":"b"}`, live(`{"name":"a","size":1}`, `{"f:name":{}}`), `{"name":"b","size":1,"count":3.0}`},
		"ownership alone":                  {`{"name":"a"}`, live(`{"name":"a","count":3}`, `{}`), `{"name":"a","count":3}`},
		"a field that goes":                {`{}`, live(`{"name":"a","count":3}`, `{"f:name":{}}`), `{"count":3}`},
		"a field that comes back":          {`{"name":"a"}`, live(`{"name":"a","count":4}`, `{"f:name":{},"f:count":{}}`), `{"name":"a","count":3.0}`},
		"a field that others hold":         {`{}`, live(`{"name":"a","count":3}`, `{"f:name":{}}`, `{"f:name":{}}`), `{"name":"a","count":3}`},
		"a map of which nothing is left":   {`{"map":{}}`, live(`{"map":{"a":{"x":"1"}},"count":3}`, `{"f:map":{"f:a":{".":{},"f:x":{}}}}`), `{"count":3}`},
		"an item with another's field":     {`{}`, live(`{"map":{"a":{"x":"1"},"b":{}},"count":3}`, `{"f:map":{"f:a":{".":{}}}}`, `{"f:map":{"f:a":{"f:x":{}},"f:b":{".":{}}}}`), `{"map":{"b":{}},"count":3}`},
		"null where it may not be is gone": {`{"name":"a"}`, live(`{"name":"a","count":3,"group":{"x":null}}`, `{"f:name":{}}`), `{"name":"a","count":3,"group":{}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, have := want(t, whole(tc.intent)), object(t, tc.live)
			after, err := in.After(have, in.Against(have, nil))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.want), after["spec"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestASpecIsKeptByWhatChangesItOnlyInForm, so that a template is not replaced.
func TestASpecIsKeptByWhatChangesItOnlyInForm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		intent, live string
		want         bool
	}{
		"nothing changes":              {`{"name":"a"}`, live(`{"name":"a","count":3}`, `{"f:name":{}}`), true},
		"a value":                      {`{"name":"b"}`, live(`{"name":"a"}`, `{"f:name":{}}`), false},
		"a default that is written":    {`{"name":"a","count":3}`, live(`{"name":"a","count":3}`, `{"f:name":{}}`), true},
		"a default of a newer schema":  {`{"name":"a","count":3}`, live(`{"name":"a"}`, `{"f:name":{}}`), true},
		"a field that goes":            {`{}`, live(`{"name":"a"}`, `{"f:name":{}}`), false},
		"a field that others hold too": {`{}`, live(`{"name":"a"}`, `{"f:name":{}}`, `{"f:name":{}}`), true},
		"the order of a list":          {`{"atoms":[{"a":"x"},{"a":"y"}]}`, live(`{"atoms":[{"a":"y","b":2},{"a":"x","b":2}]}`, `{"f:atoms":{}}`), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(whole(tc.intent), `"name":"n"`, `"name":"n","labels":{"a":"b"}`, 1)
			if got, err := want(t, text).SpecUnchanged(object(t, tc.live)); err != nil || got != tc.want {
				t.Errorf("got %v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestWhatWasAppliedCanBeAppliedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ live, want string }{
		"what others have is left out": {live(`{"name":"a","count":3,"group":{"x":"1","y":"2"}}`, `{"f:name":{},"f:group":{"f:x":{}}}`, `{"f:count":{}}`), whole(`{"name":"a","group":{"x":"1"}}`)},
		"as it is by now":              {live(`{"name":"b"}`, `{"f:name":{}}`), whole(`{"name":"b"}`)},
		"items of lists": {live(`{"tags":["x","y"],"ports":[{"port":1,"protocol":"TCP","name":"n"},{"port":2,"protocol":"TCP"}]}`, `{"f:tags":{"v:\"y\"":{}},"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}}}`),
			whole(`{"tags":["y"],"ports":[{"port":1,"protocol":"TCP"}]}`)},
		"lists that are one value": {live(`{"atoms":[{"a":"1","b":2}]}`, `{"f:atoms":{}}`), whole(`{"atoms":[{"a":"1","b":2}]}`)},
		"never applied":            {strings.Replace(live(`{"name":"a"}`, `{"f:name":{}}`), `"us"`, `"x"`, 1), `null`},
		"by another version":       {strings.Replace(live(`{"name":"a"}`, `{"f:name":{}}`), `"g/v1"`, `"g/v2"`, 2), `null`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := object(t, tc.live)
			live["apiVersion"] = "g/v1"
			got, err := thing(t).Applied("us", live)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got == nil {
				return
			}
			again, err := thing(t).Intend("us", got)
			if err != nil {
				t.Fatal(err)
			}
			if v := again.Against(live, nil); v.Changed() {
				t.Errorf("applied again: %s, adds %v, removes %v", v.Reason, v.Added, v.Removed)
			}
		})
	}
}
