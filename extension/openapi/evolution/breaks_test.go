// SPDX-License-Identifier: Apache-2.0

package evolution_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/capstan-dev/capstan/extension/openapi/evolution"
)

// published is a document with one hook, Nap; each test changes it.
const published = `{
 "openapi": "3.0.3", "info": {"title": "t", "version": "v1"},
 "paths": {"/g.example/v1/nap/{name}": {"post": {
  "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/NapRequest"}}}},
  "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NapResponse"}}}}}
 }}},
 "components": {"schemas": {
  "NapRequest": {"type": "object", "required": ["bed"], "properties": {
   "kind": {"type": "string", "enum": ["NapRequest"]},
   "bed": {"allOf": [{"$ref": "#/components/schemas/Bed"}]},
   "hours": {"type": "integer", "format": "int32", "default": 2},
   "pillows": {"type": "array", "items": {"$ref": "#/components/schemas/Pillow"}},
   "settings": {"type": "object", "additionalProperties": {"type": "string"}}
  }},
  "Bed": {"type": "object", "properties": {"width": {"type": "integer"}, "kind": {"type": "string"}, "under": {"$ref": "#/components/schemas/Bed"}}},
  "Pillow": {"type": "object", "required": ["filling"], "properties": {"filling": {"$ref": "#/components/schemas/Filling"}}},
  "Filling": {"type": "string", "enum": ["Down", "Foam"]},
  "NapResponse": {"type": "object", "required": ["status"], "properties": {
   "status": {"type": "string", "enum": ["Failure", "Success"]},
   "message": {"type": "string"},
   "dreams": {"type": "integer", "maximum": 9}
  }}
 }}
}`

func document(t *testing.T, edits ...string) *spec3.OpenAPI {
	t.Helper()
	text := published
	for i := 0; i < len(edits); i += 2 {
		if strings.Count(text, edits[i]) != 1 {
			t.Fatalf("%q is there %d times", edits[i], strings.Count(text, edits[i]))
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	doc := &spec3.OpenAPI{}
	if err := json.Unmarshal([]byte(text), doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestBreakingChangesAreFound(t *testing.T) {
	t.Parallel()
	const hook = " of hook g.example/v1/Nap "
	const rule = ": rule 1 demands a new version of the hook for that"
	tests := map[string]struct {
		edits []string
		want  []string
	}{
		"nothing changed":           {nil, nil},
		"a hook removed":            {[]string{"/g.example/v1/nap/{name}", "/g.example/v2/nap/{name}"}, []string{"hook g.example/v1/Nap was removed" + rule}},
		"a request field removed":   {[]string{`"width": {"type": "integer"}, `, ""}, []string{"field request.bed.width" + hook + "was removed" + rule}},
		"a response field removed":  {[]string{`"message": {"type": "string"},`, ""}, []string{"field response.message" + hook + "was removed" + rule}},
		"a field renamed":           {[]string{`"width"`, `"breadth"`}, []string{"field request.bed.width" + hook + "was removed" + rule}},
		"a field in a list removed": {[]string{`"properties": {"filling": {"$ref": "#/components/schemas/Filling"}}`, `"properties": {}`}, []string{"field request.pillows[].filling" + hook + "was removed" + rule}},
		"another type":              {[]string{`"width": {"type": "integer"}`, `"width": {"type": "string"}`}, []string{"field request.bed.width" + hook + "changed its type from integer to string" + rule}},
		"another format":            {[]string{`"int32"`, `"int64"`}, []string{"field request.hours" + hook + "changed its type from integer (int32) to integer (int64)" + rule}},
		"another type of values":    {[]string{`"additionalProperties": {"type": "string"}`, `"additionalProperties": {"type": "integer"}`}, []string{"field request.settings{}" + hook + "changed its type from string to integer" + rule}},
		"a map became an object":    {[]string{`, "additionalProperties": {"type": "string"}`, ""}, []string{"field request.settings" + hook + "changed its type from map to object" + rule}},
		"another type behind a ref": {[]string{`"Filling": {"type": "string", "enum": ["Down", "Foam"]}`, `"Filling": {"type": "integer"}`}, []string{"field request.pillows[].filling" + hook + "changed its type from string to integer" + rule}},
		"optional became required":  {[]string{`["bed"]`, `["bed", "hours"]`}, []string{"field request.hours" + hook + "was optional and is required now" + rule}},
		"required became optional":  {[]string{`"required": ["status"], `, ""}, []string{"field response.status" + hook + "was required and is optional now" + rule}},
		"required request field added": {
			[]string{`["bed"], "properties": {`, `["bed", "song"], "properties": {"song": {"type": "string"}, `},
			[]string{"field request.song" + hook + "was added as required and has no default" + rule},
		},
		"required response field added": {
			[]string{`["status"], "properties": {`, `["song", "status"], "properties": {"song": {"type": "string"}, `},
			[]string{"field response.song" + hook + "was added as required and has no default" + rule},
		},
		"a value gone":             {[]string{`["Down", "Foam"]`, `["Down"]`}, []string{"field request.pillows[].filling" + hook + "no longer takes the value Foam" + rule}},
		"values for what was free": {[]string{`"message": {"type": "string"}`, `"message": {"type": "string", "enum": ["x"]}`}, []string{"field response.message" + hook + "now takes only the values [x]" + rule}},
		"another default":          {[]string{`"default": 2`, `"default": 3`}, []string{"field request.hours" + hook + "changed its default from 2 to 3" + rule}},
		"a bound of an answer":     {[]string{`"maximum": 9`, `"maximum": 8`}, []string{"field response.dreams" + hook + "now takes fewer values than before" + rule}},
		"several at once": {
			[]string{`"width": {"type": "integer"}, `, "", `"message": {"type": "string"},`, ""},
			[]string{"field request.bed.width" + hook + "was removed" + rule, "field response.message" + hook + "was removed" + rule},
		},

		// What is allowed.
		"an optional field added":        {[]string{`"width": {`, `"height": {"type": "integer"}, "width": {`}, nil},
		"required with default added":    {[]string{`["status"], "properties": {`, `["song", "status"], "properties": {"song": {"type": "string", "default": "none"}, `}, nil},
		"another value":                  {[]string{`["Down", "Foam"]`, `["Down", "Foam", "Wool"]`}, nil},
		"a bound of an answer moved out": {[]string{`"maximum": 9`, `"maximum": 10`}, nil},
		"a bound of a request":           {[]string{`"width": {"type": "integer"}`, `"width": {"type": "integer", "minimum": 1}`}, nil},
		"a Go type renamed":              {[]string{`"Filling": {`, `"Stuffing": {`, `#/components/schemas/Filling`, `#/components/schemas/Stuffing`}, nil},
		"a hook added":                   {[]string{`"paths": {`, `"paths": {"/g.example/v1/start/{name}": {"post": {"responses": {}}}, `}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, b := range evolution.Breaks(document(t), document(t, tc.edits...)) {
				got = append(got, b.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
