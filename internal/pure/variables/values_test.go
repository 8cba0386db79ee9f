// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// class is the definitions of a class with these variables, in this order.
func class(t *testing.T, text string) *Definitions {
	t.Helper()
	var status []clusterv1.ClusterClassStatusVariable
	for _, v := range parse(t, text) {
		status = append(status, clusterv1.ClusterClassStatusVariable{Name: v.Name, Definitions: []clusterv1.ClusterClassStatusVariableDefinition{{From: "inline", Required: v.Required, Schema: v.Schema}}})
	}
	d, err := Resolve(status, Compile)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const nested = "{type: object, properties: {cpu: {type: integer, default: 4}, disk: {type: object, default: {}, properties: {size: {type: string, default: 10Gi}}}}}"

func TestDefault(t *testing.T) {
	t.Parallel()
	variables := "[{name: z, required: true, schema: {openAPIV3Schema: {type: string, default: zz}}}, {name: a, required: false, schema: {openAPIV3Schema: {type: integer}}}, {name: m, required: false, schema: {openAPIV3Schema: " + nested + "}}, {name: b, required: false, schema: {openAPIV3Schema: {type: boolean, default: false}}}]"
	tests := map[string]struct{ topology, want string }{
		"nothing set":                     {"{}", "variables: [{name: z, value: zz}, {name: b, value: false}]"},
		"what is set comes first":         {"variables: [{name: b, value: true}, {name: a, value: 1}]", "variables: [{name: b, value: true}, {name: a, value: 1}, {name: z, value: zz}]"},
		"gaps in a value":                 {"variables: [{name: m, value: {}}, {name: z, value: y}, {name: b, value: true}]", "variables: [{name: m, value: {cpu: 4, disk: {size: 10Gi}}}, {name: z, value: y}, {name: b, value: true}]"},
		"some of the gaps":                {"variables: [{name: m, value: {cpu: 2, disk: {}}}, {name: z, value: y}, {name: b, value: true}]", "variables: [{name: m, value: {cpu: 2, disk: {size: 10Gi}}}, {name: z, value: y}, {name: b, value: true}]"},
		"what is not defined is left":     {"variables: [{name: x, value: 1}, {name: z, value: y}, {name: b, value: true}]", "variables: [{name: x, value: 1}, {name: z, value: y}, {name: b, value: true}]"},
		"another type is left":            {"variables: [{name: m, value: [1]}, {name: z, value: 7}, {name: b, value: true}]", "variables: [{name: m, value: [1]}, {name: z, value: 7}, {name: b, value: true}]"},
		"null is filled":                  {"variables: [{name: z, value: null}, {name: b, value: true}]", "variables: [{name: z, value: zz}, {name: b, value: true}]"},
		"overrides have their gaps alone": {"{controlPlane: {variables: {overrides: [{name: m, value: {cpu: 1}}]}}, workers: {machineDeployments: [{name: md, variables: {overrides: [{name: m, value: {}}]}}, {name: other}], machinePools: [{name: mp, variables: {overrides: [{name: m, value: {}}]}}]}}", "{variables: [{name: z, value: zz}, {name: b, value: false}], controlPlane: {variables: {overrides: [{name: m, value: {cpu: 1, disk: {size: 10Gi}}}]}}, workers: {machineDeployments: [{name: md, variables: {overrides: [{name: m, value: {cpu: 4, disk: {size: 10Gi}}}]}}, {name: other}], machinePools: [{name: mp, variables: {overrides: [{name: m, value: {cpu: 4, disk: {size: 10Gi}}}]}}]}}"},
	}
	d := class(t, variables)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := builder.Parse[clusterv1.Topology](t, tc.topology)
			if errs := d.Default(field.NewPath("spec", "topology"), got); len(errs) > 0 {
				t.Fatal(errs)
			}
			text, _ := yaml.Marshal(got)
			want, _ := yaml.Marshal(builder.Parse[clusterv1.Topology](t, tc.want))
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
			again := got.DeepCopy()
			if d.Default(nil, again); !cmp.Equal(got, again) {
				t.Errorf("defaulted again: %s", cmp.Diff(got, again))
			}
		})
	}
}

// TestAValueWithoutGapsStaysAsItIsWritten to the byte: clients must not see a change
// without an effect.
func TestAValueWithoutGapsStaysAsItIsWritten(t *testing.T) {
	t.Parallel()
	const written = `{ "disk": {"size":"1"},   "cpu": 1 }`
	topology := &clusterv1.Topology{Variables: []clusterv1.ClusterVariable{{Name: "v"}}}
	topology.Variables[0].Value.Raw = []byte(written)
	class(t, one(nested)).Default(field.NewPath("t"), topology)
	if got := string(topology.Variables[0].Value.Raw); got != written {
		t.Errorf("value %s", got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	d := class(t, `[
{name: must, required: true, schema: {openAPIV3Schema: {type: string}}},
{name: grows, required: false, schema: {openAPIV3Schema: {type: integer, x-kubernetes-validations: [{rule: "self >= oldSelf", message: must not shrink}]}}},
{name: even, required: false, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}, x-kubernetes-validations: [{rule: "self.size % 2 == 0", messageExpression: "string(self.size) + ' is odd'", reason: FieldValueForbidden, fieldPath: .size}]}}},
{name: fields, required: false, schema: {openAPIV3Schema: {type: object, required: [a], properties: {a: {type: string, enum: [x, "y"]}}}}},
{name: set, required: false, schema: {openAPIV3Schema: {type: array, uniqueItems: true, maxItems: 2, items: {type: string}}}}]`)
	const must = "{name: must, value: a}"
	tests := map[string]struct {
		topology, old string
		want          []string
	}{
		"what must be": {topology: "variables: [" + must + "]"},
		"nothing":      {topology: "{}", want: []string{`t.variables[must]: Required value: required variable "must" must be set`}},
		"only an override of what must be": {topology: "controlPlane: {variables: {overrides: [" + must + "]}}", want: []string{
			`t.variables[must]: Required value: required variable "must" must be set`}},
		"unknown": {topology: "variables: [" + must + ", {name: x, value: 1}]", want: []string{`t.variables[x]: Invalid value: "x": variable is not defined`}},
		"twice":   {topology: "variables: [" + must + ", " + must + "]", want: []string{`t.variables[must]: Invalid value: "must": variable "must" is set more than once`}},
		"null":    {topology: "variables: [{name: must, value: null}]", want: []string{`t.variables[must].value: Invalid value: "null":  in body must be of type string: "null"`}},
		"fields that are not defined": {topology: "variables: [" + must + ", {name: fields, value: {a: x, b: 1, c: {d: 1}}}]", want: []string{
			`t.variables[fields].value: Invalid value: "{\"a\":\"x\",\"b\":1,\"c\":{\"d\":1}}": failed validation: "b,c" field(s) are not specified in the variable schema of variable "fields"`}},
		"a field missing":    {topology: "variables: [" + must + ", {name: fields, value: {}}]", want: []string{"t.variables[fields].value.a: Required value"}},
		"no choice":          {topology: "variables: [" + must + ", {name: fields, value: {a: z}}]", want: []string{`t.variables[fields].value.a: Unsupported value: "z": supported values: "x", "y"`}},
		"items twice":        {topology: "variables: [" + must + ", {name: set, value: [a, a]}]", want: []string{`t.variables[set].value: Invalid value: "":  in body shouldn't contain duplicates`}},
		"too many items":     {topology: "variables: [" + must + ", {name: set, value: [a, b, c]}]", want: []string{"t.variables[set].value: Too many: 3: must have at most 2 items"}},
		"a rule":             {topology: "variables: [" + must + ", {name: even, value: {size: 2}}]"},
		"against a rule":     {topology: "variables: [" + must + ", {name: even, value: {size: 3}}]", want: []string{"t.variables[even].value.size: Forbidden: 3 is odd"}},
		"new":                {topology: "variables: [" + must + ", {name: grows, value: 1}]", old: "variables: [" + must + "]"},
		"more than before":   {topology: "variables: [" + must + ", {name: grows, value: 2}]", old: "variables: [{name: grows, value: 1}]"},
		"less than before":   {topology: "variables: [" + must + ", {name: grows, value: 1}]", old: "variables: [{name: grows, value: 2}]", want: []string{"t.variables[grows].value: Invalid value: 1: must not shrink"}},
		"less than the list": {topology: "{variables: [" + must + "], controlPlane: {variables: {overrides: [{name: grows, value: 1}]}}}", old: "variables: [{name: grows, value: 2}]"},
		"overrides": {
			topology: "{variables: [" + must + "], controlPlane: {variables: {overrides: [{name: grows, value: 1}]}}, workers: {machineDeployments: [{name: a, variables: {overrides: [{name: grows, value: 1}]}}], machinePools: [{name: a, variables: {overrides: [{name: grows, value: 1}, {name: x, value: 1}]}}]}}",
			old:      "{controlPlane: {variables: {overrides: [{name: grows, value: 2}]}}, workers: {machineDeployments: [{name: b, variables: {overrides: [{name: grows, value: 2}]}}, {name: a, variables: {overrides: [{name: grows, value: 3}]}}], machinePools: [{name: a, variables: {overrides: [{name: grows, value: 0}]}}]}}",
			want: []string{
				"t.controlPlane.variables.overrides[grows].value: Invalid value: 1: must not shrink",
				"t.workers.machineDeployments[a].variables.overrides[grows].value: Invalid value: 1: must not shrink",
				`t.workers.machinePools[a].variables.overrides[x]: Invalid value: "x": variable is not defined`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := builder.Messages(d.Validate(field.NewPath("t"), builder.Parse[clusterv1.Topology](t, tc.topology), builder.Parse[clusterv1.Topology](t, tc.old)))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRulesOfAllValuesShareOneBudget, or a Cluster could keep the server busy for
// as long as it has overrides.
func TestRulesOfAllValuesShareOneBudget(t *testing.T) {
	t.Parallel()
	d := class(t, one(`{type: integer, x-kubernetes-validations: [{rule: "self > 0"}]}`))
	topology := builder.Parse[clusterv1.Topology](t, "{variables: [{name: v, value: 1}], controlPlane: {variables: {overrides: [{name: v, value: 1}]}}, workers: {machineDeployments: [{name: md, variables: {overrides: [{name: v, value: 1}]}}]}}")
	for budget, want := range map[int64]int{100: 0, 5: 1, 2: 2, 0: 3} {
		got := builder.Messages(d.validate(field.NewPath("t"), topology, nil, budget))
		if len(got) != want {
			t.Errorf("with a budget of %d: %q", budget, got)
		}
		for _, m := range got {
			if !strings.Contains(m, "validation failed due to running out of cost budget") {
				t.Errorf("with a budget of %d: %s", budget, m)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	source := func(from, variables string) Source { return Source{from, parse(t, variables)} }
	tests := map[string]struct {
		sources []Source
		want    string // name: sources, of each variable
		err     string
	}{
		"none": {},
		"by name": {sources: []Source{source("inline", "[{name: b, required: true, schema: {openAPIV3Schema: {type: string}}}, {name: a, required: true, schema: {openAPIV3Schema: {type: string}}}]")},
			want: "a: inline; b: inline"},
		"the same, said in another way": {sources: []Source{
			source("inline", "[{name: a, required: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: false, default: {x: 1, y: 2}}}}]"),
			source("p", "[{name: a, schema: {openAPIV3Schema: {type: object, exclusiveMaximum: false, default: {y: 2, x: 1}}}}]")},
			want: "a: inline p"},
		"one must be, the other not": {sources: []Source{
			source("inline", "[{name: b, required: true, schema: {openAPIV3Schema: {type: string}}}, {name: a, required: true, schema: {openAPIV3Schema: {type: string}}}]"),
			source("p", "[{name: a, required: false, schema: {openAPIV3Schema: {type: string}}}]"),
			source("q", "[{name: b, required: true, schema: {openAPIV3Schema: {type: integer}}}, {name: c, required: true, schema: {openAPIV3Schema: {type: integer}}}]")},
			want: "a!: inline p; b!: inline q; c: q", err: "the following variables have conflicting schemas: a,b"},
		"other metadata": {sources: []Source{
			source("p", "[{name: a, deprecatedV1Beta1Metadata: {labels: {a: b}}, required: true, schema: {openAPIV3Schema: {type: string}}}]"),
			source("q", "[{name: a, required: true, schema: {openAPIV3Schema: {type: string}}}]")},
			want: "a!: p q", err: "the following variables have conflicting schemas: a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged, err := Merge(tc.sources, nil)
			var all []string
			for _, v := range merged {
				text := v.Name
				if *v.DefinitionsConflict {
					text += "!"
				}
				text += ":"
				for _, d := range v.Definitions {
					text += " " + d.From
				}
				all = append(all, text)
			}
			if got := strings.Join(all, "; "); got != tc.want {
				t.Errorf("variables %q, want %q", got, tc.want)
			}
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestAClassHoldsNoMoreThanItCan(t *testing.T) {
	t.Parallel()
	was := []clusterv1.ClusterClassStatusVariable{{Name: "was"}}
	variable := func(name string) clusterv1.ClusterClassVariable { return clusterv1.ClusterClassVariable{Name: name} }
	many, often := []Source{{From: "inline"}}, []Source{}
	for i := range 1001 {
		many[0].Variables = append(many[0].Variables, variable(fmt.Sprint(i)))
	}
	for i := range 101 {
		often = append(often, Source{fmt.Sprint(i), []clusterv1.ClusterClassVariable{variable("a")}})
	}
	for want, sources := range map[string][]Source{
		"class and extensions define 1001 variables together, and 1000 is the most": many,
		`variable "a" is defined by 101 sources, and 100 is the most`:               often,
	} {
		if got, err := Merge(sources, was); err == nil || err.Error() != want || len(got) != 1 || got[0].Name != "was" {
			t.Errorf("%d variables, error %v, want %s", len(got), err, want)
		}
	}
}

func TestAPatchSeesWhatIsInlineAndItsOwn(t *testing.T) {
	t.Parallel()
	merged, err := Merge([]Source{
		{"inline", parse(t, "[{name: a, schema: {openAPIV3Schema: {type: string}}}]")},
		{"p", parse(t, "[{name: b, schema: {openAPIV3Schema: {type: string}}}]")},
		{"q", parse(t, "[{name: c, schema: {openAPIV3Schema: {type: string}}}]")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range Visible(merged, "q", []clusterv1.ClusterVariable{{Name: "c"}, {Name: "x"}, {Name: "b"}, {Name: "a"}}) {
		got = append(got, v.Name)
	}
	if want := []string{"c", "a"}; !cmp.Equal(got, want) {
		t.Errorf("sees %q, want %q", got, want)
	}
}

func TestKeysOfSchemas(t *testing.T) {
	t.Parallel()
	key := func(text string) string { return Key(parse(t, one(text))[0].Schema) }
	if key("{type: string, uniqueItems: false}") != key("{type: string}") {
		t.Error("the same has two keys")
	}
	if key("{type: string}") == key("{type: string, maxLength: 1}") {
		t.Error("two have the same key")
	}
}

// FuzzDefaultAndValidate passes unchecked schemas and values: none may crash the
// process, and a checked and defaulted value needs no further defaults.
func FuzzDefaultAndValidate(f *testing.F) {
	for _, s := range []string{`{"type":"string","default":"a"}`, `{"type":"object","properties":{"a":{"type":"integer","default":1}}}`, `{"type":"array","items":{"type":"string"}}`, `{"x-kubernetes-int-or-string":true}`, `{"type":"object","additionalProperties":{"type":"object","properties":{"b":{"default":{}}}}}`, `{"allOf":[{"not":{"enum":[null]}}]}`} {
		for _, v := range []string{`"a"`, `{"a":null}`, `[1,"b"]`, `7`, `null`, `1e400`, `{`} {
			f.Add(s, v)
		}
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		var s clusterv1.JSONSchemaProps
		if yaml.Unmarshal([]byte(schema), &s) != nil {
			return
		}
		definition := clusterv1.ClusterClassVariable{Name: "v", Required: new(true), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: s}}
		valid := len(Check(field.NewPath("v"), []clusterv1.ClusterClassVariable{definition}, nil)) == 0
		c, err := Compile(definition.Schema)
		if err != nil {
			if valid {
				t.Fatalf("checked, and not compiled: %v", err)
			}
			return
		}
		if !valid {
			return // admission and discovery let none of these through
		}
		d := &Definitions{all: []Definition{{Name: "v", Schema: c}}}
		d.byName = map[string]*Definition{"v": &d.all[0]}
		topology := &clusterv1.Topology{Variables: []clusterv1.ClusterVariable{{Name: "v"}}}
		topology.Variables[0].Value.Raw = []byte(value)
		if d.Default(field.NewPath("t"), topology) != nil {
			return
		}
		again := topology.DeepCopy()
		d.Default(field.NewPath("t"), again)
		if !cmp.Equal(topology, again) {
			t.Fatalf("defaulted again: %s", cmp.Diff(topology, again))
		}
		d.Validate(field.NewPath("t"), topology, again)
	})
}

// BenchmarkFortyVariables measures one computation of a Cluster's variables: half of
// them have a rule, and each is set.
func BenchmarkFortyVariables(b *testing.B) {
	d, t := &Definitions{byName: map[string]*Definition{}}, &clusterv1.Topology{}
	for i := range 40 {
		rule := ""
		if i%2 == 0 {
			rule = fmt.Sprintf(`, x-kubernetes-validations: [{rule: "self.size.size() < %d && self.count >= 0"}]`, 20+i)
		}
		text := `[{name: v, required: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: string, maxLength: 100}, count: {type: integer, default: 1}}` + rule + `}}}]`
		definition := builder.Parse[[]clusterv1.ClusterClassVariable](b, text)
		schema, err := Compile((*definition)[0].Schema)
		if err != nil {
			b.Fatal(err)
		}
		d.all = append(d.all, Definition{Name: fmt.Sprint("v", i), Required: true, Schema: schema})
		v := clusterv1.ClusterVariable{Name: fmt.Sprint("v", i)}
		v.Value.Raw = []byte(`{"size": "10Gi", "count": 3}`)
		t.Variables = append(t.Variables, v)
	}
	for i := range d.all {
		d.byName[d.all[i].Name] = &d.all[i]
	}
	for b.Loop() {
		if errs := append(d.Default(field.NewPath("t"), t), d.Validate(field.NewPath("t"), t, t)...); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
