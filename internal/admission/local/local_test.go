// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

func TestTemplatesDoNotChange(t *testing.T) {
	t.Parallel()
	const old = `{"spec": {"template": {"spec": {"simulated": {}}}}}`
	for name, tc := range map[string]struct {
		obj    string
		dryRun bool
		want   bool
	}{
		"same":                         {obj: old, want: true},
		"labels of what is made":       {obj: `{"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"simulated": {}}}}}`, want: true},
		"changed":                      {obj: `{"spec": {"template": {"spec": {}}}}`},
		"changed in a dry run":         {obj: `{"spec": {"template": {"spec": {}}}}`, dryRun: true},
		"changed in a rehearsal":       {obj: `{"metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}}, "spec": {"template": {"spec": {}}}}`, dryRun: true, want: true},
		"annotated, yet not a dry run": {obj: `{"metadata": {"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}}, "spec": {"template": {"spec": {}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range Webhooks(localinfra.Backends{}) {
				if w.Mutating || w.Kind.Kind == "LocalCluster" {
					continue // not of templates
				}
				kind := `"simulated": {}`
				if w.Kind.Kind == "LocalMachinePoolTemplate" {
					kind = `"template": {"simulated": {}}` // its machines are one level further down
				}
				req := &admissionv1.AdmissionRequest{Name: "t", Namespace: "ns", DryRun: &tc.dryRun}
				req.Object.Raw, req.OldObject.Raw = []byte(strings.ReplaceAll(tc.obj, `"simulated": {}`, kind)), []byte(strings.ReplaceAll(old, `"simulated": {}`, kind))
				got := w.Admit(t.Context(), req)
				if got.Allowed != tc.want {
					t.Errorf("%s: allowed %v, want %v", w.Kind.Kind, got.Allowed, tc.want)
				}
				if want := w.Kind.Kind + `.infrastructure.capstan.dev "t" is invalid: spec.template.spec: Forbidden: cannot change; create another template and refer to that one`; !tc.want && got.Result.Message != want {
					t.Errorf("message %q, want %q", got.Result.Message, want)
				}
			}
		})
	}
}

func TestMetadataOfTemplatesIsChecked(t *testing.T) {
	t.Parallel()
	const label = `spec.template.metadata.labels: Invalid value: "b c": a valid label must be`
	for name, tc := range map[string]struct{ kind, template, want string }{
		"a cluster":                 {"LocalClusterTemplate", `"spec": {"simulated": {}, "controlPlaneEndpoint": {"host": "127.64.1.1", "port": 6443}}`, ""},
		"a cluster with a label":    {"LocalClusterTemplate", `"metadata": {"labels": {"a": "b c"}}, "spec": {"simulated": {}}`, label},
		"a machine":                 {"LocalMachineTemplate", `"metadata": {"labels": {"a": "b"}}, "spec": {"simulated": {}}`, ""},
		"a machine with a label":    {"LocalMachineTemplate", `"metadata": {"labels": {"a": "b c"}}, "spec": {"simulated": {}}`, label},
		"a pool":                    {"LocalMachinePoolTemplate", `"spec": {"template": {"simulated": {}}}`, ""},
		"a pool with a label of it": {"LocalMachinePoolTemplate", `"metadata": {"labels": {"a": "b c"}}, "spec": {"template": {"simulated": {}}}`, label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, w := range Webhooks(localinfra.Backends{}) {
				if w.Kind.Kind != tc.kind {
					continue
				}
				req := &admissionv1.AdmissionRequest{Name: "t", Namespace: "ns"}
				req.Object.Raw = []byte(`{"spec": {"template": {` + tc.template + `}}}`)
				got := w.Admit(t.Context(), req)
				if want := tc.kind + `.infrastructure.capstan.dev "t" is invalid: ` + tc.want; got.Allowed != (tc.want == "") || !got.Allowed && !strings.HasPrefix(got.Result.Message, want) {
					t.Errorf("allowed %v: %v, want %q", got.Allowed, got.Result, want)
				}
			}
		})
	}
}

// backend lets clusters listen on their own addresses.
type backend struct{ localinfra.Backend }

func (backend) CheckEndpoint(at clusterv1.APIEndpoint) error {
	if at.Host == "0.0.0.0" {
		return errors.New("0.0.0.0 is all addresses")
	}
	return nil
}

func TestAClusterListensOnlyWhereClustersMay(t *testing.T) {
	t.Parallel()
	const refused = `LocalCluster.infrastructure.capstan.dev "c" is invalid: spec.controlPlaneEndpoint: Forbidden: 0.0.0.0 is all addresses`
	const everywhere, own = `{"spec": {"simulated": {}, "controlPlaneEndpoint": {"host": "0.0.0.0", "port": 6443}}}`, `{"spec": {"simulated": {}, "controlPlaneEndpoint": {"host": "127.64.1.1", "port": 6443}}}`
	for name, tc := range map[string]struct {
		obj, old string
		want     string
	}{
		"of its own":                             {obj: own},
		"left to the controller":                 {obj: `{"spec": {}}`},
		"everywhere":                             {obj: everywhere, want: refused},
		"changed to everywhere":                  {obj: everywhere, old: own, want: refused},
		"stored before, changed in else":         {obj: everywhere, old: everywhere},
		"corrected":                              {obj: own, old: everywhere},
		"without a kind of machines to check it": {obj: `{"spec": {"controlPlaneEndpoint": {"host": "127.64.1.1", "port": 6443}}}`, want: `LocalCluster.infrastructure.capstan.dev "c" is invalid: spec.controlPlaneEndpoint: Forbidden: spec asks for no kind of machines: set spec.simulated`},
		"managed by others":                      {obj: `{"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "them"}}, "spec": {"controlPlaneEndpoint": {"host": "0.0.0.0", "port": 6443}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{Name: "c", Namespace: "ns"}
			req.Object.Raw, req.OldObject.Raw = []byte(tc.obj), []byte(tc.old)
			got := endpoint(localinfra.Backends{Simulated: backend{}}).Admit(t.Context(), req)
			if got.Allowed != (tc.want == "") || got.Result != nil && !strings.HasPrefix(got.Result.Message, tc.want) {
				t.Errorf("allowed %v: %v, want %q", got.Allowed, got.Result, tc.want)
			}
		})
	}
}

// ProviderID names a machine as others do.
func (backend) ProviderID(machine types.NamespacedName, cluster string) string {
	return "any://" + machine.Namespace + "/" + cluster + "/" + machine.Name
}

func TestAMachineGetsWhatItsControllerWouldWriteFirst(t *testing.T) {
	t.Parallel()
	const meta = `"namespace": "ns", "name": "m", `
	for name, tc := range map[string]struct {
		obj  string
		want string // the provider ID
	}{
		"of a cluster":                  {`{"metadata": {` + meta + `"labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {"simulated": {}}}`, "any://ns/c/m"},
		"of a cluster yet unknown":      {`{"metadata": {` + meta + `"labels": {}}, "spec": {"simulated": {}}}`, ""},
		"whose name is yet to be found": {`{"metadata": {"namespace": "ns", "generateName": "m-", "labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {"simulated": {}}}`, ""},
		"that runs elsewhere":           {`{"metadata": {` + meta + `"labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {}}`, ""},
		"that says it":                  {`{"metadata": {` + meta + `"labels": {"cluster.x-k8s.io/cluster-name": "c"}}, "spec": {"simulated": {}, "providerID": "any://moved"}}`, "any://moved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{Name: "m", Namespace: "ns"}
			req.Object.Raw = []byte(tc.obj)
			m := &infrav1.LocalMachine{}
			admitted(t, localMachine(localinfra.Backends{Simulated: backend{}}), req, m)
			if m.Spec.ProviderID != tc.want || !slices.Equal(m.Finalizers, []string{infrav1.LocalMachineFinalizer}) {
				t.Errorf("provider ID %q and finalizers %v, want %q and its controller's", m.Spec.ProviderID, m.Finalizers, tc.want)
			}
		})
	}
}

// admitted decodes the object that a webhook returns.
func admitted(t *testing.T, w webhook.Webhook, req *admissionv1.AdmissionRequest, into any) {
	t.Helper()
	raw := req.Object.Raw
	if got := w.Admit(t.Context(), req); len(got.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(got.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// TestAnUpdateKeepsTheIdentityThatItLeavesOut, as those of kubectl replace do; another
// one is refused by the schema.
func TestAnUpdateKeepsTheIdentityThatItLeavesOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ obj, want string }{
		"left out":                     {`{"spec": {"simulated": {}}}`, "a"},
		"another":                      {`{"spec": {"simulated": {}, "identity": "b"}}`, "b"},
		"of one that others manage":    {`{"metadata": {"annotations": {"cluster.x-k8s.io/managed-by": "them"}}, "spec": {}}`, ""},
		"left out, and nothing is new": {`{"spec": {}}`, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{Name: "c", Namespace: "ns"}
			req.Object.Raw, req.OldObject.Raw = []byte(tc.obj), []byte(`{"spec": {"simulated": {}, "identity": "a"}}`)
			c := &infrav1.LocalCluster{}
			admitted(t, localCluster(), req, c)
			if c.Spec.Identity != tc.want || len(c.Finalizers) > 0 {
				t.Errorf("identity %q and finalizers %q, want %q and none", c.Spec.Identity, c.Finalizers, tc.want)
			}
		})
	}
}
