// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/manifests"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// take copies the fields of a provider object to an object of a kind of the core,
// reports its status and returns it.
type take func(t *testing.T, obj *unstructured.Unstructured, version string) conditions.Setter

func takeCluster(_ *testing.T, infra, controlPlane *unstructured.Unstructured, version string) conditions.Setter {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	f := clusterstatus.Facts{Cluster: c, Generation: 1, Now: now, Infrastructure: known(infra), ControlPlane: known(controlPlane)}
	if infra != nil {
		_, err := clusterstatus.TakeInfrastructure(c, infra, version)
		fail(&f.Infrastructure, err)
	}
	if controlPlane != nil {
		var err error
		f.Replicas, f.Versions, err = clusterstatus.ReadControlPlane(controlPlane, version)
		fail(&f.ControlPlane, err)
		if _, err = clusterstatus.TakeControlPlane(c, controlPlane, version); err != nil {
			fail(&f.ControlPlane, err)
		}
	}
	clusterstatus.Report(f)
	clusterstatus.ReportDeprecated(f)
	return c
}

func takeMachine(_ *testing.T, config, infra *unstructured.Unstructured, version string) conditions.Setter {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	m.Spec.Bootstrap.ConfigRef = ref()
	m.Spec.InfrastructureRef = ref()
	f := machinestatus.Facts{Machine: m, Generation: 1, Now: now, BootstrapConfig: known(config), Infrastructure: known(infra)}
	if config != nil {
		_, err := machinestatus.TakeData(m, config, version)
		fail(&f.BootstrapConfig, err)
	}
	if infra != nil {
		_, err := machinestatus.TakeHost(m, infra, version)
		fail(&f.Infrastructure, err)
	}
	machinestatus.Report(f)
	machinestatus.ReportDeprecated(f)
	return m
}

func takePool(_ *testing.T, obj *unstructured.Unstructured, version string) conditions.Setter {
	p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: clusterv1.MachinePoolSpec{ClusterName: "demo"}}
	p.Spec.Template.Spec.ClusterName, p.Spec.Template.Spec.Bootstrap.DataSecretName, p.Spec.Template.Spec.InfrastructureRef = "demo", new("s"), ref()
	f := machinepool.Facts{Pool: p, Generation: 1, Now: now, Infrastructure: known(obj)}
	var err error
	f.Report, err = machinepool.TakeInfrastructure(p, obj, version)
	fail(&f.Infrastructure, err)
	machinepool.FillStatus(f)
	machinepool.FillDeprecated(f)
	return p
}

func ref() clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "example.com", Kind: "Thing", Name: "t0"}
}

func known(obj *unstructured.Unstructured) reference.Object {
	if obj == nil {
		return reference.Object{}
	}
	return reference.Object{Ref: ref(), Field: "spec.ref", Obj: obj}
}

func fail(o *reference.Object, err error) {
	if err != nil {
		o.Err = err.Error()
	}
}

// TestValuesThatTheAPIRejectsLeaveOtherConditionsAlone has providers report, in each
// field that the core copies, each kind of value that the CRD rejects there.
func TestValuesThatTheAPIRejectsLeaveOtherConditionsAlone(t *testing.T) {
	t.Parallel()
	kinds := crds(t)
	infra := func(t *testing.T, o *unstructured.Unstructured, v string) conditions.Setter {
		return takeCluster(t, o, nil, v)
	}
	controlPlane := func(t *testing.T, o *unstructured.Unstructured, v string) conditions.Setter {
		return takeCluster(t, nil, o, v)
	}
	config := func(t *testing.T, o *unstructured.Unstructured, v string) conditions.Setter {
		return takeMachine(t, o, nil, v)
	}
	host := func(t *testing.T, o *unstructured.Unstructured, v string) conditions.Setter {
		return takeMachine(t, nil, o, v)
	}
	for _, version := range contract.Versions() {
		cluster, err1 := contract.InfraClusterFor(version)
		machine, err2 := contract.InfraMachineFor(version)
		data, err3 := contract.BootstrapConfigFor(version)
		plane, err4 := contract.ControlPlaneFor(version)
		pools, err5 := contract.InfraMachinePoolFor(version)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			field     interface{ Path() []string }
			take      take
			kind      string
			copied    string // where in the kind
			condition string // of the reference
			byName    bool   // a list of the API is a map of the provider
		}{
			{cluster.ControlPlaneEndpoint, infra, "Cluster", "spec.controlPlaneEndpoint", "InfrastructureReady", false},
			{cluster.FailureDomains, infra, "Cluster", "status.failureDomains", "InfrastructureReady", version == contract.V1Beta1},
			{plane.ControlPlaneEndpoint, controlPlane, "Cluster", "spec.controlPlaneEndpoint", "ControlPlaneAvailable", false},
			{plane.StatusVersion, controlPlane, "Cluster", "status.controlPlane.versions[].version", "ControlPlaneAvailable", false},
			{plane.Versions, controlPlane, "Cluster", "status.controlPlane.versions[]", "ControlPlaneAvailable", false},
			{plane.Replicas, controlPlane, "Cluster", "status.controlPlane.desiredReplicas", "ControlPlaneAvailable", false},
			{plane.StatusReplicas, controlPlane, "Cluster", "status.controlPlane.replicas", "ControlPlaneAvailable", false},
			{plane.ReadyReplicas, controlPlane, "Cluster", "status.controlPlane.readyReplicas", "ControlPlaneAvailable", false},
			{plane.UpToDateReplicas, controlPlane, "Cluster", "status.controlPlane.upToDateReplicas", "ControlPlaneAvailable", false},
			{plane.AvailableReplicas, controlPlane, "Cluster", "status.controlPlane.availableReplicas", "ControlPlaneAvailable", false},
			{plane.UnavailableReplicas, controlPlane, "Cluster", "status.controlPlane.availableReplicas", "ControlPlaneAvailable", false},
			{data.DataSecretName, config, "Machine", "spec.bootstrap.dataSecretName", "BootstrapConfigReady", false},
			{machine.ProviderID, host, "Machine", "spec.providerID", "InfrastructureReady", false},
			{machine.Addresses, host, "Machine", "status.addresses", "InfrastructureReady", false},
			{machine.FailureDomain, host, "Machine", "status.failureDomain", "InfrastructureReady", false},
			{machine.WantedFailureDomain, host, "Machine", "spec.failureDomain", "InfrastructureReady", false},
			{pools.ProviderIDList, takePool, "MachinePool", "spec.providerIDList", "", false},
			{pools.Replicas, takePool, "MachinePool", "status.replicas", "InfrastructureReady", false},
		} {
			path := tc.field.Path()
			if len(path) == 0 {
				continue // not in this version
			}
			good := provider(nil, nil)
			want := tc.take(t, good, version)
			rejected := kinds[tc.kind].rejected(t, tc.copied)
			if len(rejected) < 1 {
				t.Errorf("%s of %s: nothing is rejected", tc.copied, tc.kind)
			}
			for name, value := range rejected {
				if tc.byName {
					if value = namedMap(value); value == nil {
						continue // not possible in a map
					}
				}
				t.Run(fmt.Sprintf("%s of %s %s %s", strings.Join(path, "."), tc.kind, version, name), func(t *testing.T) {
					t.Parallel()
					got := tc.take(t, provider(path, value), version)
					kinds[tc.kind].check(t, got)
					for _, c := range want.GetConditions() {
						now := conditions.Get(got, c.Type)
						switch {
						case c.Type == "Ready", c.Type == "Available", c.Type == "ControlPlaneInitialized": // depend on the reference
						case tc.condition == "" && (c.Type == "InfrastructureReady" || c.Type == "MachinesReady"):
							// A list of another type is a problem of the reference, an ID that does not fit one of the Machines.
						case c.Type == tc.condition:
							if now.Status == metav1.ConditionTrue || !strings.Contains(now.Message, strings.Join(path, ".")) {
								t.Errorf("%s %s: %s", c.Type, now.Status, now.Message)
							}
						default:
							if now == nil || now.Status != c.Status {
								t.Errorf("%s: %v, want %s", c.Type, now, c.Status)
							}
						}
					}
				})
			}
		}
	}
}

// provider returns a provider object for each role, which reports value at path.
func provider(path []string, value any) *unstructured.Unstructured {
	endpoint := map[string]any{"host": "10.0.0.1", "port": int64(6443)}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing", "metadata": map[string]any{"name": "t0"},
		"spec": map[string]any{"providerID": "x://0", "providerIDList": []any{"x://0"}, "controlPlaneEndpoint": endpoint, "replicas": int64(1), "version": "v1.36.0"},
		"status": map[string]any{
			"ready": true, "initialized": true, "dataSecretName": "s", "replicas": int64(1), "version": "v1.36.0",
			"initialization": map[string]any{"provisioned": true, "controlPlaneInitialized": true, "dataSecretCreated": true},
			"conditions":     []any{map[string]any{"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-08-01T12:00:00Z"}, map[string]any{"type": "Available", "status": "True", "reason": "Fine", "lastTransitionTime": "2026-08-01T12:00:00Z"}},
		},
	}}
	if path != nil {
		at := obj.Object
		for _, name := range path[:len(path)-1] {
			at = at[name].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
	return obj
}

// namedMap is a list of objects as a map by their names; nil if two have one name.
func namedMap(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for _, item := range list {
		fields, ok := item.(map[string]any)
		name, named := fields["name"].(string)
		if !ok || !named || out[name] != nil {
			return nil
		}
		fields = maps.Clone(fields)
		delete(fields, "name")
		out[name] = fields
	}
	return out
}

// kind is what an API server validates objects of a kind by.
type kind struct {
	schema     *apiextensions.JSONSchemaProps
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	rules      *cel.Validator
	scale      string // the counter that must not be negative
}

func crds(t *testing.T) map[string]kind {
	t.Helper()
	all, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]kind{}
	for _, crd := range all {
		for _, v := range crd.Spec.Versions {
			if !v.Storage {
				continue
			}
			k := kind{schema: &apiextensions.JSONSchemaProps{}}
			err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, k.schema, nil)
			if err == nil {
				k.structural, err = structuralschema.NewStructural(k.schema)
			}
			if err == nil {
				k.validator, _, err = validation.NewSchemaValidator(k.schema)
			}
			if err != nil {
				t.Fatal(err)
			}
			k.rules = cel.NewValidator(k.structural, true, celconfig.PerCallLimit)
			if v.Subresources != nil && v.Subresources.Scale != nil {
				k.scale = strings.TrimPrefix(v.Subresources.Scale.StatusReplicasPath, ".")
			}
			out[crd.Spec.Names.Kind] = k
		}
	}
	return out
}

// check fails if the API server rejects the status, or what was set of the spec.
func (k kind) check(t *testing.T, obj conditions.Setter) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	errs := validation.ValidateCustomResource(nil, fields, k.validator)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, fields)...)
	found, _ := k.rules.Validate(context.Background(), nil, k.structural, fields, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, found...) {
		if err.Field != "spec" { // is not complete
			t.Errorf("the API rejects it: %v", err)
		}
	}
	if n, found, _ := unstructured.NestedInt64(fields, strings.Split(k.scale, ".")...); found && n < 0 {
		t.Errorf("the API rejects it: %s %d", k.scale, n)
	}
}

// rejected returns the values that the API rejects in a field, by reason.
func (k kind) rejected(t *testing.T, path string) map[string]any {
	t.Helper()
	s := *k.schema
	for name := range strings.SplitSeq(path, ".") {
		name, items := strings.CutSuffix(name, "[]")
		child, found := s.Properties[name]
		if !found {
			t.Fatalf("no field %s in %s", name, path)
		}
		if s = child; items && strings.HasSuffix(path, "[]") {
			s.MaxItems = nil // those that it has room for are shown
		} else if items {
			s = *s.Items.Schema
		}
	}
	return bad(s)
}

func bad(s apiextensions.JSONSchemaProps) map[string]any {
	out := map[string]any{}
	switch s.Type {
	case "string":
		out["number"] = int64(1)
		if s.MaxLength != nil {
			out["too long"] = strings.Repeat("\u00fc", int(*s.MaxLength)+1)
		}
		if s.Enum != nil {
			out["unknown"] = "Foo"
		}
		if s.Pattern != "" {
			out["pattern"] = "-\x7f"
		}
	case "integer":
		out["text"], out["too large for a number"], out["negative"] = "x", int64(1)<<40, int64(-1)
		if s.Maximum != nil {
			out["too large"] = int64(*s.Maximum) + 1
		}
	case "boolean":
		out["text"] = "x"
	case "array":
		out["object"] = map[string]any{"x": "y"}
		if s.MaxItems != nil {
			var many []any
			for i := range *s.MaxItems + 1 {
				many = append(many, numbered(*s.Items.Schema, int(i)))
			}
			out["too many"] = many
		}
		if len(s.XListMapKeys) > 0 {
			out["twice"] = []any{numbered(*s.Items.Schema, 0), numbered(*s.Items.Schema, 0)}
		}
		for name, v := range bad(*s.Items.Schema) {
			out["item "+name] = []any{v}
		}
	case "object":
		out["list"] = []any{"x"}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			for what, v := range bad(s.Properties[name]) {
				obj := numbered(s, 0).(map[string]any)
				obj[name] = v
				out[name+" "+what] = obj
			}
		}
		for _, name := range s.Required {
			obj := numbered(s, 0).(map[string]any)
			delete(obj, name)
			out[name+" missing"] = obj
		}
	}
	return out
}

// numbered is a value that the API accepts, another one for each number.
func numbered(s apiextensions.JSONSchemaProps, i int) any {
	switch s.Type {
	case "string":
		if s.Enum != nil {
			return s.Enum[0]
		}
		return fmt.Sprintf("x%d", i)
	case "integer":
		return int64(1)
	case "boolean":
		return true
	}
	out := map[string]any{}
	for name, child := range s.Properties {
		if child.Type != "object" {
			out[name] = numbered(child, i)
		}
	}
	return out
}
