// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/openapi"
)

// hooksDocument is the committed document, as an independent library reads it.
func hooksDocument(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.JSON())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheDocumentOfHooksIsValid(t *testing.T) {
	t.Parallel()
	if err := hooksDocument(t).Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaDefaultsValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		t.Error(err)
	}
}

// operation is where a hook is in the document.
func operation(t *testing.T, doc *openapi3.T, d catalog.Descriptor) *openapi3.Operation {
	t.Helper()
	path := d.Path("{name}")
	if d.Singleton {
		path = d.Path("")
	}
	item := doc.Paths.Value(path)
	if item == nil || item.Post == nil {
		t.Fatalf("no operation at %s", path)
	}
	return item.Post
}

func TestExamplesPassTheSchemasOfTheirHooks(t *testing.T) {
	t.Parallel()
	doc := hooksDocument(t)
	for _, d := range catalog.Default().Hooks() {
		t.Run(d.Hook, func(t *testing.T) {
			t.Parallel()
			x, ok := examples[d.Hook]
			if !ok {
				t.Fatal("there is no example")
			}
			op := operation(t, doc, d)
			x.request.GetObjectKind().SetGroupVersionKind(d.Request)
			x.response.GetObjectKind().SetGroupVersionKind(d.Response)
			request := op.RequestBody.Value.Content["application/json"].Schema.Value
			response := op.Responses.Status(200).Value.Content["application/json"].Schema.Value
			if err := request.VisitJSON(tree(t, x.request)); err != nil {
				t.Errorf("request: %v", err)
			}
			if err := response.VisitJSON(tree(t, x.response)); err != nil {
				t.Errorf("response: %v", err)
			}
			if err := request.VisitJSON(tree(t, x.response)); err == nil {
				t.Error("a response passes as a request")
			}
			bad := tree(t, x.response)
			bad["status"] = "Maybe"
			if err := response.VisitJSON(bad); err == nil {
				t.Error("any status passes")
			}
			delete(bad, "status")
			if err := response.VisitJSON(bad); err == nil {
				t.Error("a response without status passes")
			}
			bad["status"], bad["somethingNew"] = "Success", true
			if err := response.VisitJSON(bad); err != nil {
				t.Errorf("a field that is not known does not pass: %v", err)
			}
		})
	}
}

func TestBadMessagesDoNotPass(t *testing.T) {
	t.Parallel()
	doc := hooksDocument(t)
	tests := map[string]struct {
		component, message, want string
	}{
		"no pause":                {"BeforeClusterCreateResponse", `{"status": "Success"}`, `"retryAfterSeconds" is missing`},
		"a negative pause":        {"BeforeClusterCreateResponse", `{"status": "Success", "retryAfterSeconds": -1}`, `"/retryAfterSeconds": number must be at least 0`},
		"a pause that is text":    {"BeforeClusterCreateResponse", `{"status": "Success", "retryAfterSeconds": "1"}`, `"/retryAfterSeconds": value must be an integer`},
		"no cluster":              {"BeforeClusterCreateRequest", `{}`, `"cluster" is missing`},
		"a handler without hook":  {"DiscoveryResponse", `{"status": "Success", "handlers": [{"name": "a"}]}`, `"requestHook" is missing`},
		"a handler in upper case": {"DiscoveryResponse", `{"status": "Success", "handlers": [{"name": "A", "requestHook": {"apiVersion": "g/v1", "hook": "H"}}]}`, `/name": string doesn't match the regular expression`},
		"a handler that is slow":  {"DiscoveryResponse", `{"status": "Success", "handlers": [{"name": "a", "timeoutSeconds": 31, "requestHook": {"apiVersion": "g/v1", "hook": "H"}}]}`, `/timeoutSeconds": number must be at most 30`},
		"a patch of another kind": {"GeneratePatchesResponse", `{"status": "Success", "items": [{"uid": "1", "patchType": "Strategic", "patch": "e30="}]}`, `value is not one of the allowed values ["JSONMergePatch","JSONPatch"]`},
		"no machine":              {"UpdateMachineRequestObjects", `{"infrastructureMachine": {}}`, `"machine" is missing`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var message any
			if err := json.Unmarshal([]byte(tc.message), &message); err != nil {
				t.Fatal(err)
			}
			schema := doc.Components.Schemas["hooks.v1alpha1."+tc.component]
			if schema == nil {
				t.Fatal("there is no such component")
			}
			err := schema.Value.VisitJSON(message)
			if err == nil {
				t.Fatal("it passes")
			}
			if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, tc.want) { // schema and value follow
				t.Errorf("got %s, want one with %s", first, tc.want)
			}
		})
	}
}

func tree(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type example struct {
	request  runtime.Object
	response hooksv1.ResponseObject
}

var (
	settings = hooksv1.CommonRequest{Settings: map[string]string{"region": "north"}}
	success  = hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess}
	blocks   = hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{Status: hooksv1.ResponseStatusSuccess, Message: "waiting for quota"}, RetryAfterSeconds: 10}
	proceeds = hooksv1.CommonRetryResponse{CommonResponse: success}
	steps    = []hooksv1.UpgradeStepInfo{{Version: "v1.35.0"}, {Version: "v1.36.0"}}
	thing    = runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.example/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"size":3}}`)}
	patch    = hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"spec":{"size":4}}`)}
	holder   = hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineDeployment", Namespace: "default", Name: "md", FieldPath: "spec.template.spec.infrastructureRef"}
	values   = []hooksv1.Variable{{Name: "size", Value: apiextensionsv1.JSON{Raw: []byte(`3`)}}, {Name: "tags", Value: apiextensionsv1.JSON{Raw: []byte(`{"a":["b"]}`)}}}

	cluster = clusterv1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: "c1", Namespace: "default", UID: "4d1f", ResourceVersion: "7", CreationTimestamp: metav1.Unix(1800000000, 0), Labels: map[string]string{"a": "b"}},
		Spec: clusterv1.ClusterSpec{
			Paused: new(false),
			Topology: clusterv1.Topology{
				ClassRef:     clusterv1.ClusterClassRef{Name: "quick"},
				Version:      "v1.36.0",
				ControlPlane: clusterv1.ControlPlaneTopology{Replicas: new(int32(3))},
				Variables:    []clusterv1.ClusterVariable{{Name: "size", Value: apiextensionsv1.JSON{Raw: []byte(`3`)}}},
			},
		},
	}
	reference = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.example", Kind: "Thing", Name: "t"}
	machine   = clusterv1.Machine{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{Name: "m1", Namespace: "default"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "c1", Version: "v1.36.0", InfrastructureRef: reference,
			Bootstrap: clusterv1.Bootstrap{DataSecretName: new("m1-bootstrap")},
		},
	}
	machineSet = clusterv1.MachineSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "ms", Namespace: "default"},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: "c1", Replicas: new(int32(2)),
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: machine.Spec},
		},
	}
	machines    = hooksv1.CanUpdateMachineRequestObjects{Machine: machine, InfrastructureMachine: thing, BootstrapConfig: thing}
	machineSets = hooksv1.CanUpdateMachineSetRequestObjects{MachineSet: machineSet, InfrastructureMachineTemplate: thing}
)

// examples are of all hooks; a new hook needs one.
var examples = map[string]example{
	"Discovery": {&hooksv1.DiscoveryRequest{}, &hooksv1.DiscoveryResponse{CommonResponse: success, Handlers: []hooksv1.ExtensionHandler{
		{Name: "quota", RequestHook: hooksv1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "BeforeClusterCreate"}, TimeoutSeconds: new(int32(5)), FailurePolicy: new(hooksv1.FailurePolicyIgnore)},
	}}},
	"BeforeClusterCreate":          {&hooksv1.BeforeClusterCreateRequest{CommonRequest: settings, Cluster: cluster}, &hooksv1.BeforeClusterCreateResponse{CommonRetryResponse: blocks}},
	"AfterControlPlaneInitialized": {&hooksv1.AfterControlPlaneInitializedRequest{Cluster: cluster}, &hooksv1.AfterControlPlaneInitializedResponse{CommonResponse: success}},
	"BeforeClusterUpgrade":         {&hooksv1.BeforeClusterUpgradeRequest{Cluster: cluster, FromKubernetesVersion: "v1.34.0", ToKubernetesVersion: "v1.36.0", ControlPlaneUpgrades: steps, WorkersUpgrades: steps[1:]}, &hooksv1.BeforeClusterUpgradeResponse{CommonRetryResponse: proceeds}},
	"BeforeControlPlaneUpgrade":    {&hooksv1.BeforeControlPlaneUpgradeRequest{Cluster: cluster, FromKubernetesVersion: "v1.34.0", ToKubernetesVersion: "v1.35.0", ControlPlaneUpgrades: steps}, &hooksv1.BeforeControlPlaneUpgradeResponse{CommonRetryResponse: proceeds}},
	"AfterControlPlaneUpgrade":     {&hooksv1.AfterControlPlaneUpgradeRequest{Cluster: cluster, KubernetesVersion: "v1.35.0", ControlPlaneUpgrades: steps[1:]}, &hooksv1.AfterControlPlaneUpgradeResponse{CommonRetryResponse: blocks}},
	"BeforeWorkersUpgrade":         {&hooksv1.BeforeWorkersUpgradeRequest{Cluster: cluster, FromKubernetesVersion: "v1.34.0", ToKubernetesVersion: "v1.36.0", WorkersUpgrades: steps}, &hooksv1.BeforeWorkersUpgradeResponse{CommonRetryResponse: proceeds}},
	"AfterWorkersUpgrade":          {&hooksv1.AfterWorkersUpgradeRequest{Cluster: cluster, KubernetesVersion: "v1.36.0"}, &hooksv1.AfterWorkersUpgradeResponse{CommonRetryResponse: proceeds}},
	"AfterClusterUpgrade":          {&hooksv1.AfterClusterUpgradeRequest{CommonRequest: settings, Cluster: cluster, KubernetesVersion: "v1.36.0"}, &hooksv1.AfterClusterUpgradeResponse{CommonRetryResponse: proceeds}},
	"BeforeClusterDelete":          {&hooksv1.BeforeClusterDeleteRequest{Cluster: cluster}, &hooksv1.BeforeClusterDeleteResponse{CommonRetryResponse: blocks}},
	"GeneratePatches": {
		&hooksv1.GeneratePatchesRequest{CommonRequest: settings, Variables: values, Items: []hooksv1.GeneratePatchesRequestItem{{UID: "1", HolderReference: holder, Object: thing, Variables: values[:1]}}},
		&hooksv1.GeneratePatchesResponse{CommonResponse: success, Items: []hooksv1.GeneratePatchesResponseItem{{UID: "1", PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"add","path":"/spec/a","value":1}]`)}}},
	},
	"ValidateTopology": {
		&hooksv1.ValidateTopologyRequest{Variables: values, Items: []*hooksv1.ValidateTopologyRequestItem{{HolderReference: holder, Object: thing}}},
		&hooksv1.ValidateTopologyResponse{CommonResponse: hooksv1.CommonResponse{Status: hooksv1.ResponseStatusFailure, Message: "too big"}},
	},
	"DiscoverVariables": {&hooksv1.DiscoverVariablesRequest{CommonRequest: settings}, &hooksv1.DiscoverVariablesResponse{CommonResponse: success, Variables: []clusterv1.ClusterClassVariable{{
		Name: "size", Required: new(true),
		Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{Type: "object", Properties: map[string]clusterv1.JSONSchemaProps{"disk": {Type: "integer"}}}},
	}}}},
	"CanUpdateMachine":    {&hooksv1.CanUpdateMachineRequest{Current: machines, Desired: machines}, &hooksv1.CanUpdateMachineResponse{CommonResponse: success, InfrastructureMachinePatch: patch}},
	"CanUpdateMachineSet": {&hooksv1.CanUpdateMachineSetRequest{Current: machineSets, Desired: machineSets}, &hooksv1.CanUpdateMachineSetResponse{CommonResponse: success, MachineSetPatch: patch}},
	"UpdateMachine":       {&hooksv1.UpdateMachineRequest{Desired: hooksv1.UpdateMachineRequestObjects{Machine: machine, InfrastructureMachine: thing}}, &hooksv1.UpdateMachineResponse{CommonRetryResponse: blocks}},
	"GenerateUpgradePlan": {
		&hooksv1.GenerateUpgradePlanRequest{Cluster: cluster, FromControlPlaneKubernetesVersion: "v1.34.0", ToKubernetesVersion: "v1.36.0"},
		&hooksv1.GenerateUpgradePlanResponse{CommonResponse: success, ControlPlaneUpgrades: []hooksv1.UpgradeStep{{Version: "v1.35.0"}, {Version: "v1.36.0"}}, WorkersUpgrades: []hooksv1.UpgradeStep{{Version: "v1.36.0"}}},
	},
}
