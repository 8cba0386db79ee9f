// SPDX-License-Identifier: Apache-2.0

package evolution

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Break is a change that is not allowed in a published version of a hook.
type Break struct {
	// Hook is group/version/hook.
	Hook string

	// Field is the path in a message, such as request.cluster.spec.paused; empty for the
	// hook as a whole.
	Field string

	// What happened to it, as the end of a sentence.
	What string

	// Rule is the number of the rule that forbids it.
	Rule int
}

// String is a sentence with hook, field and rule.
func (b Break) String() string {
	what := "hook " + b.Hook
	if b.Field != "" {
		what = "field " + b.Field + " of " + what
	}
	return fmt.Sprintf("%s %s: rule %d demands a new version of the hook for that", what, b.What, b.Rule)
}

// Breaks lists the changes that make the hooks of one document incompatible with those
// that an earlier one published. New hooks and new optional fields break nothing.
func Breaks(was, is *spec3.OpenAPI) []Break {
	c := &comparison{was: was, is: is}
	if was.Paths == nil {
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(was.Paths.Paths)) {
		old := was.Paths.Paths[path].Post
		if old == nil {
			continue
		}
		c.hook = hookOf(was, path, old)
		if is.Paths == nil || is.Paths.Paths[path] == nil || is.Paths.Paths[path].Post == nil {
			c.found("", "was removed")
			continue
		}
		now := is.Paths.Paths[path].Post
		c.compare("request", request(old), request(now))
		c.compare("response", response(old), response(now))
	}
	return c.breaks
}

func request(op *spec3.Operation) *spec.Schema {
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return nil
	}
	return op.RequestBody.Content["application/json"].Schema
}

func response(op *spec3.Operation) *spec.Schema {
	if op.Responses == nil || op.Responses.StatusCodeResponses[200] == nil || op.Responses.StatusCodeResponses[200].Content["application/json"] == nil {
		return nil
	}
	return op.Responses.StatusCodeResponses[200].Content["application/json"].Schema
}

// hookOf is the name of the hook as users write it: paths are in lower case, kinds are
// not.
func hookOf(doc *spec3.OpenAPI, path string, op *spec3.Operation) string {
	name := strings.TrimPrefix(strings.TrimSuffix(path, "/{name}"), "/")
	s, _ := resolve(doc, request(op))
	if kinds := s.Properties["kind"].Enum; len(kinds) == 1 {
		if hook, ok := strings.CutSuffix(fmt.Sprint(kinds[0]), "Request"); ok {
			return name[:strings.LastIndex(name, "/")+1] + hook
		}
	}
	return name
}

type comparison struct {
	was, is *spec3.OpenAPI
	hook    string
	inside  []string // components that are being compared, against recursion
	breaks  []Break
}

func (c *comparison) found(field, format string, args ...any) {
	c.breaks = append(c.breaks, Break{Hook: c.hook, Field: field, What: fmt.Sprintf(format, args...), Rule: 1})
}

func (c *comparison) compare(field string, oldSchema, newSchema *spec.Schema) {
	was, from := resolve(c.was, oldSchema)
	is, to := resolve(c.is, newSchema)
	if from != "" {
		pair := from + " " + to
		if slices.Contains(c.inside, pair) {
			return
		}
		c.inside = append(c.inside, pair)
		defer func() { c.inside = c.inside[:len(c.inside)-1] }()
	}
	if kind(was) != kind(is) {
		c.found(field, "changed its type from %s to %s", kind(was), kind(is))
		return
	}
	c.compareValues(field, was, is)
	c.compareFields(field, was, is)
	if items(was) != nil {
		c.compare(field+"[]", items(was), items(is))
	}
	if values(was) != nil {
		c.compare(field+"{}", values(was), values(is))
	}
}

// compareValues compares the values that a field may have.
func (c *comparison) compareValues(field string, was, is spec.Schema) {
	if len(was.Enum) == 0 && len(is.Enum) > 0 {
		c.found(field, "now takes only the values %v", is.Enum)
	}
	for _, v := range was.Enum {
		if len(is.Enum) > 0 && !slices.ContainsFunc(is.Enum, func(w any) bool { return reflect.DeepEqual(v, w) }) {
			c.found(field, "no longer takes the value %v", v)
		}
	}
	if was.Default != nil && !reflect.DeepEqual(was.Default, is.Default) {
		c.found(field, "changed its default from %v to %v", was.Default, is.Default)
	}
	if strings.HasPrefix(field, "response") && (was.Pattern != is.Pattern && is.Pattern != "" || narrower(was, is)) {
		c.found(field, "now takes fewer values than before")
	}
}

// narrower reports whether bounds are tighter, or new.
func narrower(was, is spec.Schema) bool {
	return raised(was.Minimum, is.Minimum) || lowered(was.Maximum, is.Maximum) ||
		raised(was.MinLength, is.MinLength) || lowered(was.MaxLength, is.MaxLength) ||
		raised(was.MinItems, is.MinItems) || lowered(was.MaxItems, is.MaxItems) ||
		raised(was.MinProperties, is.MinProperties) || lowered(was.MaxProperties, is.MaxProperties)
}

func raised[T cmp.Ordered](was, is *T) bool { return is != nil && (was == nil || *is > *was) }

func lowered[T cmp.Ordered](was, is *T) bool { return is != nil && (was == nil || *is < *was) }

func (c *comparison) compareFields(field string, was, is spec.Schema) {
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		at := field + "." + name
		now, ok := is.Properties[name]
		if !ok {
			c.found(at, "was removed")
			continue
		}
		before, after := slices.Contains(was.Required, name), slices.Contains(is.Required, name)
		if !before && after {
			c.found(at, "was optional and is required now")
		}
		if before && !after {
			c.found(at, "was required and is optional now")
		}
		c.compare(at, new(was.Properties[name]), &now)
	}
	for _, name := range slices.Sorted(maps.Keys(is.Properties)) {
		now := is.Properties[name]
		if _, had := was.Properties[name]; !had && slices.Contains(is.Required, name) && now.Default == nil {
			c.found(field+"."+name, "was added as required and has no default")
		}
	}
}

// resolve follows references, alone or in allOf, and returns the name of the last
// component on the path.
func resolve(doc *spec3.OpenAPI, s *spec.Schema) (spec.Schema, string) {
	if s == nil {
		return spec.Schema{}, ""
	}
	out, name := *s, ""
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) > 0 {
		ref = s.AllOf[0].Ref.String()
	}
	if ref == "" || doc.Components == nil {
		return out, ""
	}
	name = strings.TrimPrefix(ref, "#/components/schemas/")
	target, deeper := resolve(doc, doc.Components.Schemas[name])
	// Fields next to the reference apply in addition.
	if out.Default != nil {
		target.Default = out.Default
	}
	if len(out.Enum) > 0 {
		target.Enum = out.Enum
	}
	target.Minimum, target.Maximum = cmp.Or(out.Minimum, target.Minimum), cmp.Or(out.Maximum, target.Maximum)
	target.MinLength, target.MaxLength = cmp.Or(out.MinLength, target.MinLength), cmp.Or(out.MaxLength, target.MaxLength)
	target.MinItems, target.MaxItems = cmp.Or(out.MinItems, target.MinItems), cmp.Or(out.MaxItems, target.MaxItems)
	target.Pattern = cmp.Or(out.Pattern, target.Pattern)
	return target, cmp.Or(deeper, name)
}

// kind is the type of a field for readers.
func kind(s spec.Schema) string {
	switch {
	case len(s.Type) == 0:
		return "anything"
	case values(s) != nil:
		return "map"
	case s.Format != "":
		return s.Type[0] + " (" + s.Format + ")"
	default:
		return s.Type[0]
	}
}

func items(s spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func values(s spec.Schema) *spec.Schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

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
			for _, b := range Breaks(document(t), document(t, tc.edits...)) {
				got = append(got, b.String())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
