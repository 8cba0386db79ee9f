// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// TestExactlyOneKindOfMachinesIsAskedFor runs the rules of the local provider's
// kinds as the API server does.
func TestExactlyOneKindOfMachinesIsAskedFor(t *testing.T) {
	t.Parallel()
	const one = "exactly one machine kind must be set: simulated or container"
	const machine, cluster, pool = "localmachines.", "localclusters.", "localmachinepools."
	for name, tc := range map[string]struct{ kind, obj, old, want string }{
		"a machine of none":              {kind: machine, obj: "spec: {}", want: one},
		"a machine of both":              {kind: machine, obj: "spec: {simulated: {}, container: {}}", want: one},
		"a simulated machine":            {kind: machine, obj: "spec: {simulated: {}}"},
		"a container machine":            {kind: machine, obj: "spec: {container: {memoryMiB: 2048}}"},
		"a machine of another kind":      {kind: machine, obj: "spec: {container: {}}", old: "spec: {simulated: {}}", want: "the machine kind cannot change: delete the machine and create another one"},
		"a machine that grows":           {kind: machine, obj: "spec: {container: {memoryMiB: 2048}}", old: "spec: {container: {memoryMiB: 1024}}", want: "container cannot change: delete the machine and create another one"},
		"a machine that gets its ID":     {kind: machine, obj: "spec: {container: {}, providerID: x}", old: "spec: {container: {}}"},
		"a simulated machine's fault":    {kind: machine, obj: "spec: {simulated: {faults: [PoweredOff]}}", old: "spec: {simulated: {}}"},
		"a cluster of both":              {kind: cluster, obj: "spec: {simulated: {}, container: {}}", want: one},
		"a cluster of containers":        {kind: cluster, obj: "spec: {container: {}}"},
		"a cluster of another kind":      {kind: cluster, obj: "spec: {simulated: {}}", old: "spec: {container: {}}", want: "the machine kind cannot change: delete the cluster and create another one"},
		"a pool of none":                 {kind: pool, obj: "spec: {template: {}}", want: one},
		"a pool of containers":           {kind: pool, obj: "spec: {template: {container: {}}}"},
		"a pool of larger containers":    {kind: pool, obj: "spec: {template: {container: {milliCPU: 500}}}", old: "spec: {template: {container: {}}}"},
		"a template of containers":       {kind: "localmachinetemplates.", obj: "spec: {template: {spec: {container: {}}}}"},
		"a template of none":             {kind: "localmachinetemplates.", obj: "spec: {template: {spec: {}}}", want: one},
		"a template of a pool of none":   {kind: "localmachinepooltemplates.", obj: "spec: {template: {spec: {template: {}}}}", want: one},
		"a template of clusters of none": {kind: "localclustertemplates.", obj: "spec: {template: {spec: {}}}", want: one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			validator, schema := rulesOf(t, tc.kind)
			errs, _ := validator.Validate(t.Context(), nil, schema, object(t, tc.obj), object(t, tc.old), celconfig.RuntimeCELCostBudget)
			if err := errs.ToAggregate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// rulesOf are the CEL rules of the CRD whose name has that prefix.
func rulesOf(t *testing.T, prefix string) (*cel.Validator, *structuralschema.Structural) {
	t.Helper()
	for _, crd := range mustCRDs(t) {
		if !strings.HasPrefix(crd.Name, prefix) {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil); err != nil {
			t.Fatal(err)
		}
		schema, err := structuralschema.NewStructural(props)
		if err != nil {
			t.Fatal(err)
		}
		return cel.NewValidator(schema, true, celconfig.PerCallLimit), schema
	}
	t.Fatalf("no CRD is called %s", prefix)
	return nil, nil
}

// object reads an object; nil if the text is empty.
func object(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	obj["apiVersion"], obj["kind"], obj["metadata"] = "infrastructure.capstan.dev/v1beta2", "Any", map[string]any{"name": "x"}
	return obj
}
