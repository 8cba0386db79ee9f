// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/server"
)

// withExtension is a plane with a registered extension that gives workers a startup time
// of as many milliseconds as its variable has, and allows ten at most.
func withExtension(t *testing.T) *Plane {
	t.Helper()
	x, err := server.New(server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := func(of []hooksv1.Variable) string {
		for _, v := range of {
			if v.Name == "delay" {
				return string(v.Value.Raw)
			}
		}
		return "none"
	}
	if err := errors.Join(
		server.Handle(x, hooksv1.DiscoverVariables, func(_ context.Context, _ *hooksv1.DiscoverVariablesRequest, resp *hooksv1.DiscoverVariablesResponse) error {
			schema := clusterv1.JSONSchemaProps{Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("9")}}
			resp.Variables = []clusterv1.ClusterClassVariable{{Name: "delay", Required: new(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}}
			return nil
		}),
		server.Handle(x, hooksv1.GeneratePatches, func(_ context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
			for _, item := range req.Items {
				if item.HolderReference.Kind == "MachineDeployment" && item.HolderReference.FieldPath == "spec.template.spec.infrastructureRef" {
					patch := fmt.Sprintf(`{"spec": {"template": {"spec": {"simulated": {"startupMilliseconds": %s}}}}}`, value(req.Variables))
					resp.Items = append(resp.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONMergePatchType, Patch: []byte(patch)})
				}
			}
			return nil
		}),
		server.Handle(x, hooksv1.ValidateTopology, func(_ context.Context, req *hooksv1.ValidateTopologyRequest, _ *hooksv1.ValidateTopologyResponse) error {
			if got := value(req.Variables); len(got) > 1 {
				return errors.New(got + " ms is too slow")
			}
			return nil
		}),
	); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(x)
	t.Cleanup(s.Close)
	config := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: "ext"}}
	config.Spec.ClientConfig = runtimev1.ClientConfig{URL: s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	for name, hook := range map[string]string{"discover-variables": "DiscoverVariables", "generate-patches": "GeneratePatches", "validate-topology": "ValidateTopology"} {
		config.Status.Handlers = append(config.Status.Handlers, runtimev1.ExtensionHandler{
			Name: name + ".ext", RequestHook: runtimev1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: hook}, TimeoutSeconds: 30, FailurePolicy: runtimev1.FailurePolicyFail,
		})
	}
	return planeWith(t, config)
}

// TestExtensionsAreAskedForAComparison as the plane would call them, including those that
// only a file registers.
func TestExtensionsAreAskedForAComparison(t *testing.T) {
	t.Parallel()
	const last = "valueFrom: {variable: startup}}"
	const asked = last + "\n  - name: asked\n    external: {generatePatchesExtension: generate-patches.ext, validateTopologyExtension: validate-topology.ext, discoverVariablesExtension: discover-variables.ext}"
	for name, tc := range map[string]struct {
		changes []string
		want    string
		err     string
	}{
		"by its default": {nil, "make LocalMachineTemplate ns/demo-md-0-*: in place of demo-md-0-*, spec.template.spec.simulated.startupMilliseconds: 5 -> 9", ""},
		"by a value":     {[]string{"version: v1.35.0", "version: v1.35.0\n    variables: [{name: delay, value: 7}]"}, "make LocalMachineTemplate ns/demo-md-0-*: in place of demo-md-0-*, spec.template.spec.simulated.startupMilliseconds: 5 -> 7", ""},
		"what it refuses": {
			[]string{"version: v1.35.0", "version: v1.35.0\n    variables: [{name: delay, value: 11}]"}, "",
			`patch "asked": extension validate-topology.ext: call extension handler "validate-topology.ext" of hook ValidateTopology for Cluster ns/demo: the extension answered Failure: 11 ms is too slow`,
		},
		"one without registration": {
			[]string{"generate-patches.ext", "generate-patches.none"}, "",
			`patch "asked": extension generate-patches.none: call an extension handler of hook GeneratePatches for Cluster ns/demo: handler "generate-patches.none" is not known`,
		},
	} {
		p := withExtension(t)
		changes := append([]string{last, asked}, tc.changes...)
		s, err := Read(files(t, changes...), "ns", p.Lookup(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Compare(t.Context(), s)
		if err == nil != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: error %v, want %s", name, err, tc.err)
		}
		got := ""
		if len(c.Changes) > 0 {
			got = random.ReplaceAllString(fmt.Sprintf("%s %s: %s", c.Changes[0].Verb, c.Changes[0].Object, strings.Join(c.Changes[0].Details, ", ")), "$1-*")
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
