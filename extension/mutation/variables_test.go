// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

func variables(t *testing.T) mutation.Variables {
	t.Helper()
	vars, err := mutation.NewVariables([]hooksv1.Variable{
		variable("imageRepository", `{"host":"registry.example.com","port":5000,"tags":["a","b"],"none":null}`),
		variable("subnets", `[{"cidr":"10.0.0.0/24","zones":[["x","y"]]},{"cidr":"10.0.1.0/24"}]`),
		variable("replicas", `3`), variable("ratio", `1.5`), variable("debug", `true`), variable("null", `null`),
		variable("broken", `{`), variable("empty", ``), variable("size", `{"a":1,"b":2}`),
		variable("builtin", `{"cluster":{"name":"demo","topology":{"version":"v1.34.0","class":"c"}},"controlPlane":{"replicas":3}}`),
	}, []hooksv1.Variable{
		variable("size", `{"a":3}`),
		variable("builtin", `{"cluster":{"topology":{"class":"d"}},"machineDeployment":{"topologyName":"md-0","replicas":2}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return vars
}

// get makes a test row of one call.
func get[T any](path string) func(mutation.Variables) (any, bool, error) {
	return func(vars mutation.Variables) (any, bool, error) {
		return fix(mutation.Variable[T](vars, path))
	}
}

func fix[T any](v T, found bool, err error) (any, bool, error) { return v, found, err }

func TestVariableReadsByPath(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		get  func(mutation.Variables) (any, bool, error)
		want any // nil: not found
	}{
		"a field":                        {get[string]("imageRepository.host"), "registry.example.com"},
		"a number":                       {get[int32]("replicas"), int32(3)},
		"a number with a fraction":       {get[float64]("ratio"), 1.5},
		"a boolean":                      {get[bool]("debug"), true},
		"a list":                         {get[[]string]("imageRepository.tags"), []string{"a", "b"}},
		"an element":                     {get[string]("imageRepository.tags[1]"), "b"},
		"a field of an element":          {get[string]("subnets[1].cidr"), "10.0.1.0/24"},
		"an element of an element":       {get[string]("subnets[0].zones[0][1]"), "y"},
		"anything":                       {get[any]("subnets[1]"), map[string]any{"cidr": "10.0.1.0/24"}},
		"the item's instead of the rest": {get[map[string]int]("size"), map[string]int{"a": 3}},
		"a builtin of the cluster":       {get[string]("builtin.cluster.name"), "demo"},
		"a builtin of the item":          {get[string]("builtin.machineDeployment.topologyName"), "md-0"},
		"a builtin of both":              {get[map[string]string]("builtin.cluster.topology"), map[string]string{"version": "v1.34.0", "class": "d"}},
		"no such variable":               {get[string]("other"), nil},
		"no such field":                  {get[string]("imageRepository.path.of"), nil},
		"no such element":                {get[string]("subnets[2].cidr"), nil},
		"null":                           {get[string]("null"), nil},
		"a field of null":                {get[string]("imageRepository.none.x"), nil},
		"an empty value":                 {get[string]("empty"), nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found, err := tc.get(variables(t))
			if err != nil || found != (tc.want != nil) {
				t.Fatalf("got %v, found %v, %v; want %v", got, found, err, tc.want)
			}
			if d := cmp.Diff(tc.want, got); found && d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestVariableIsStrictAboutTypes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		get  func(mutation.Variables) (any, bool, error)
		want string
	}{
		"a number is no string":     {get[string]("imageRepository.port"), "variable imageRepository.port is a number, not string: json: cannot unmarshal number into Go value of type string"},
		"a string is no number":     {get[int]("imageRepository.host"), "variable imageRepository.host is a string, not int: json: cannot unmarshal string into Go value of type int"},
		"a fraction is no int":      {get[int]("ratio"), "variable ratio is a number, not int: json: cannot unmarshal number 1.5 into Go value of type int"},
		"an object is no list":      {get[[]string]("imageRepository"), "variable imageRepository is an object, not []string: json: cannot unmarshal object into Go value of type []string"},
		"a list is no object":       {get[map[string]string]("subnets"), "variable subnets is a list, not map[string]string: json: cannot unmarshal array into Go value of type map[string]string"},
		"a boolean is no string":    {get[string]("debug"), "variable debug is a boolean, not string: json: cannot unmarshal bool into Go value of type string"},
		"a string has no fields":    {get[string]("imageRepository.host.x.y"), "variable imageRepository.host.x.y: imageRepository.host is a string and has no field x"},
		"an object has no elements": {get[string]("subnets[0][1]"), "variable subnets[0][1]: subnets[0] is an object and has no element 1"},
		"broken JSON":               {get[any]("broken"), "decode variable broken: unexpected end of JSON input"},
		"an empty path":             {get[any](""), `path "" of a variable has an empty part`},
		"an empty part":             {get[any]("a..b"), `path "a..b" of a variable has an empty part`},
		"an index of nothing":       {get[any]("[0]"), `path "[0]" of a variable has an empty part`},
		"an open index":             {get[any]("a[0"), `path "a[0" of a variable has a malformed index`},
		"an index below zero":       {get[any]("a[-1]"), `path "a[-1]" of a variable has a malformed index`},
		"an index of letters":       {get[any]("a[0][x]"), `path "a[0][x]" of a variable has a malformed index`},
		"text after an index":       {get[any]("a[0]b"), `path "a[0]b" of a variable has a malformed index`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, found, err := tc.get(variables(t))
			if fmt.Sprint(err) != tc.want || found {
				t.Errorf("found %v\ngot  %v\nwant %s", found, err, tc.want)
			}
		})
	}
}

func TestVariableOrFallsBackOnlyWhenThereIsNone(t *testing.T) {
	t.Parallel()
	if got, err := mutation.VariableOr(variables(t), "other", 7); got != 7 || err != nil {
		t.Errorf("got %d, %v; want 7", got, err)
	}
	if got, err := mutation.VariableOr(variables(t), "replicas", 7); got != 3 || err != nil {
		t.Errorf("got %d, %v; want 3", got, err)
	}
	if _, err := mutation.VariableOr(variables(t), "debug", 7); err == nil {
		t.Error("a boolean was taken for a number")
	}
}

func TestBuiltinsAreMergedAndNeverNil(t *testing.T) {
	t.Parallel()
	got, err := mutation.Builtins(variables(t))
	if err != nil {
		t.Fatal(err)
	}
	want := &hooksv1.Builtins{
		Cluster:           &hooksv1.ClusterBuiltins{Name: "demo", Topology: &hooksv1.ClusterTopologyBuiltins{Version: "v1.34.0", Class: "d"}},
		ControlPlane:      &hooksv1.ControlPlaneBuiltins{Replicas: new(int32(3))},
		MachineDeployment: &hooksv1.MachineDeploymentBuiltins{TopologyName: "md-0", Replicas: new(int64(2))},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, err := mutation.Builtins(mutation.Variables{}); err != nil || got.Cluster == nil {
		t.Errorf("without variables: got %v, %v", got, err)
	}
}

func TestNewVariablesRefusesTwoOfAName(t *testing.T) {
	t.Parallel()
	_, err := mutation.NewVariables([]hooksv1.Variable{variable("a", "1")}, []hooksv1.Variable{variable("b", "1"), variable("b", "1")})
	if got, want := fmt.Sprint(err), "variable b is there twice"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzVariablePath(f *testing.F) {
	for _, path := range []string{"a.b", "a[0].b[1][2]", "a[", "..", "[0]", "a]b[0]", "a[99999999999]"} {
		f.Add(path, `{"b":[1,[2,3]]}`)
	}
	f.Fuzz(func(t *testing.T, path, value string) {
		vars, err := mutation.NewVariables([]hooksv1.Variable{variable("a", value)})
		if err != nil {
			t.Fatal(err)
		}
		if v, found, err := mutation.Variable[any](vars, path); found != (v != nil) || (found && err != nil) {
			t.Fatalf("got %v, found %v, %v", v, found, err)
		}
	})
}
