// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// parse reads definitions from YAML.
func parse(t *testing.T, text string) []clusterv1.ClusterClassVariable {
	t.Helper()
	if text == "" {
		return nil
	}
	return *builder.Parse[[]clusterv1.ClusterClassVariable](t, text)
}

// one is a definition of the variable v with a schema.
func one(schema string) string {
	return "[{name: v, required: false, schema: {openAPIV3Schema: " + schema + "}}]"
}

// checked is a table of definitions, and the expected errors.
type checked struct {
	all, old string
	want     []string
}

func runChecks(t *testing.T, tests map[string]checked) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := builder.Messages(Check(field.NewPath("spec", "variables"), parse(t, tc.all), parse(t, tc.old)))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

const at = "spec.variables[v].schema.openAPIV3Schema"

func TestCheckDefinitions(t *testing.T) {
	t.Parallel()
	const text = "required: false, schema: {openAPIV3Schema: {type: string}}"
	runChecks(t, map[string]checked{
		"none":       {all: "[]"},
		"two":        {all: "[{name: a, " + text + "}, {name: b, " + text + "}]"},
		"no name":    {all: "[{" + text + "}]", want: []string{"spec.variables[0].name: Required value: a variable needs a name"}},
		"reserved":   {all: "[{name: builtin, " + text + "}]", want: []string{`spec.variables[0].name: Invalid value: "builtin": "builtin" is the name of the variables that every Cluster has; choose another`}},
		"a dot":      {all: "[{name: a.b, " + text + "}]", want: []string{`spec.variables[0].name: Invalid value: "a.b": must not contain a dot, which separates a variable from its fields`}},
		"twice":      {all: "[{name: a, " + text + "}, {name: a, " + text + "}]", want: []string{`spec.variables[1].name: Duplicate value: "a"`}},
		"too long":   {all: "[{name: " + strings.Repeat("a", 257) + ", " + text + "}]", want: []string{"spec.variables[0].name: Too long: may not be more than 256 bytes"}},
		"unsaid":     {all: "[{name: a, schema: {openAPIV3Schema: {type: string}}}]", want: []string{"spec.variables[a].required: Required value: say whether a Cluster must set the variable"}},
		"old labels": {all: "[{name: a, deprecatedV1Beta1Metadata: {labels: {a: 'b c'}}, " + text + "}]", want: []string{`spec.variables[a].deprecatedV1Beta1Metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"too many":   {all: "[" + strings.Repeat("{name: a, "+text+"},", 1001) + "]", want: []string{"spec.variables: Too many: 1001: must have at most 1000 items"}},
	})
}

func TestCheckSchemas(t *testing.T) {
	t.Parallel()
	const qualified = `: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	runChecks(t, map[string]checked{
		"all types":           {all: one("{type: object, properties: {a: {type: string}, b: {type: integer}, c: {type: number}, d: {type: boolean}, e: {type: array, uniqueItems: true, items: {type: string}}, f: {type: object, additionalProperties: {type: string}}}}")},
		"a number or a text":  {all: one("{x-kubernetes-int-or-string: true, default: 7, example: x, enum: [7, x]}")},
		"anything":            {all: one("{x-kubernetes-preserve-unknown-fields: true, default: {a: [b]}}")},
		"false for nothing":   {all: one("{type: object, x-kubernetes-preserve-unknown-fields: false, exclusiveMinimum: false}")},
		"nothing":             {all: one("{}"), want: []string{at + ".type: Required value: must not be empty for specified object fields"}},
		"no type":             {all: one("{description: x}"), want: []string{at + ".type: Required value: must not be empty for specified object fields"}},
		"a type there is not": {all: one("{type: file}"), want: []string{at + `.type: Unsupported value: "file": supported values: "array", "boolean", "integer", "number", "object", "string"`}},
		"fields and a map":    {all: one("{type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}"), want: []string{at + ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"}},
		"no items":            {all: one("{type: array}"), want: []string{at + ".items: Required value: must be specified"}},
		"not structural":      {all: one("{type: string, allOf: [{type: string}]}"), want: []string{at + ".allOf[0].type: Forbidden: must be empty to be structural"}},
		"a pattern":           {all: one("{type: string, pattern: '['}"), want: []string{at + ".pattern: Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: `[`"}},
		"too long":            {all: one("{type: string, description: " + strings.Repeat("a", 4097) + "}"), want: []string{at + ".description: Too long: may not be more than 4096 bytes"}},
		"labels":              {all: one("{type: string, x-metadata: {labels: {'a b': c}}}"), want: []string{at + ".x-metadata.labels" + qualified}},
		"annotations below":   {all: one("{type: object, properties: {a: {type: string, x-metadata: {annotations: {'a b': c}}}}}"), want: []string{at + ".properties[a].x-metadata.annotations" + qualified}},

		"a default of another type":   {all: one("{type: string, default: 7}"), want: []string{at + `.default: Invalid value: "integer":  in body must be of type string: "integer"`}},
		"a default that is too long":  {all: one("{type: string, default: aaa, maxLength: 2}"), want: []string{at + ".default: Too long: may not be more than 2 bytes"}},
		"a default with more fields":  {all: one("{type: object, properties: {a: {type: string}}, default: {b: c}}"), want: []string{at + `.default: Invalid value: {"b":"c"}: must not have unknown fields`}},
		"a default with fewer fields": {all: one("{type: object, properties: {a: {type: string}}, required: [a], default: {}}"), want: []string{at + ".default.a: Required value"}},
		"a default against a rule":    {all: one(`{type: string, default: a, x-kubernetes-validations: [{rule: "self != 'a'", message: is bad}]}`), want: []string{at + `.default: Invalid value: "a": is bad`}},
		"an example of another type":  {all: one("{type: object, properties: {a: {type: integer, example: x}}}"), want: []string{at + `.properties[a].example: Invalid value: "string":  in body must be of type integer: "string"`}},
		"an example with more fields": {all: one("{type: object, properties: {a: {type: integer}}, example: {b: 1}}"), want: []string{at + `.example: Invalid value: "{\"b\":1}": failed validation: "b" field(s) are not specified in the variable schema of variable "v"`}},
		"an example against a rule":   {all: one(`{type: string, example: a, x-kubernetes-validations: [{rule: "self != 'a'", message: is bad}]}`), want: []string{at + `.example: Invalid value: "a": is bad`}},
		"a choice of another type":    {all: one("{type: string, enum: [a, 7]}"), want: []string{at + `.enum[1]: Invalid value: "integer":  in body must be of type string: "integer"`}},
		"a choice against a rule":     {all: one(`{type: string, enum: [a, b], x-kubernetes-validations: [{rule: "self != 'a'", message: is bad}]}`), want: []string{at + `.enum[0]: Invalid value: "a": is bad`}},
		"what is not checked as such": {all: one("{type: integer, allOf: [{enum: [1, x]}]}")},
	})
}

func TestCheckRules(t *testing.T) {
	t.Parallel()
	const rule = at + ".x-kubernetes-validations[0]"
	rules := func(schema, rule string) string {
		return one("{" + schema + ", x-kubernetes-validations: [{" + rule + "}]}")
	}
	const costs = " budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	const lists = "type: array, items: {type: array, items: {type: string}}"
	const dear = "rule: 'self.all(a, a.all(b, self.all(c, c.all(d, d == b))))'"
	runChecks(t, map[string]checked{
		"one that holds":      {all: rules("type: string, maxLength: 9", `rule: "self.startsWith('a')", messageExpression: "'not ' + self", reason: FieldValueForbidden`)},
		"of a change":         {all: rules("type: string, maxLength: 9", "rule: 'self == oldSelf'")},
		"no rule":             {all: rules("type: string", "rule: ' '"), want: []string{rule + ".rule: Required value: rule is not specified"}},
		"no CEL":              {all: rules("type: string", "rule: 'self =='"), want: []string{rule + ".rule: Invalid value: \"self ==\": compilation failed: ERROR: <input>:1:8: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self ==\n | .......^"}},
		"no result":           {all: rules("type: string", "rule: 'self.size()'"), want: []string{rule + `.rule: Invalid value: "self.size()": cel expression must evaluate to a bool`}},
		"no message":          {all: rules("type: string", "rule: 'self.size() > 3', messageExpression: '7'"), want: []string{rule + `.messageExpression: Invalid value: "self.size() > 3": messageExpression must evaluate to a string`}},
		"a message of lines":  {all: rules("type: string", `rule: 'self.size() > 3', message: "a\nb"`), want: []string{rule + `.message: Invalid value: "a\nb": must not contain line breaks`}},
		"lines, no message":   {all: rules("type: string", `rule: "self.size() >\n3"`), want: []string{rule + ".message: Required value: message must be specified if rule contains line breaks"}},
		"no such field":       {all: rules("type: object, properties: {a: {type: string}}", "rule: 'self.a.size() > 3', fieldPath: .b"), want: []string{rule + `.fieldPath: Invalid value: ".b": must be a valid path`}},
		"no such reason":      {all: rules("type: string", "rule: 'self.size() > 3', reason: Other"), want: []string{rule + `.reason: Unsupported value: "Other": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"`}},
		"twice":               {all: one("{type: string, x-kubernetes-validations: [{rule: 'self.size() > 3'}, {rule: 'self.size() > 3'}]}"), want: []string{at + `.x-kubernetes-validations[1].rule: Duplicate value: "self.size() > 3"`}},
		"too long a message":  {all: one("{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: 'self.size() > 3', message: " + strings.Repeat("a", 2049) + "}]}}}"), want: []string{at + ".properties[a].x-kubernetes-validations[0].message: Too long: may not be more than 2048 bytes"}},
		"one that costs much": {all: rules(lists, dear), want: []string{rule + ".rule: Forbidden: estimated rule cost exceeds" + costs, rule + ".rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema", at + ": Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds" + costs}},
		"of items that come and go": {all: one("{type: array, maxItems: 2, items: {type: string, maxLength: 9, x-kubernetes-validations: [{rule: 'self == oldSelf'}]}}"), want: []string{
			at + `.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within ` + at}},
	})
}

// TestAllRulesTogetherMayNotCostTooMuch though each may.
func TestAllRulesTogetherMayNotCostTooMuch(t *testing.T) {
	t.Parallel()
	var rules []string
	for i := range 60 {
		rules = append(rules, fmt.Sprintf("{rule: 'self.all(x, x.contains(\"%d\"))'}", i))
	}
	schema := "{type: array, maxItems: 1000, items: {type: string, maxLength: 20000}, x-kubernetes-validations: [" + strings.Join(rules, ", ") + "]}"
	got := builder.Messages(Check(field.NewPath("spec", "variables"), parse(t, one(schema)), nil))
	if len(got) == 0 || !strings.Contains(got[len(got)-1], "estimated rule cost total for entire OpenAPIv3 schema exceeds budget") {
		t.Errorf("errors %q", got)
	}
	for _, m := range got[:len(got)-1] {
		if !strings.Contains(m, "contributed to estimated rule cost total") {
			t.Errorf("error %q", m)
		}
	}
}
