// SPDX-License-Identifier: Apache-2.0

package updateextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

const (
	container = `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"LocalMachine","metadata":{"namespace":"ns","name":"m"},"spec":{"container":{},"providerID":"local://ns/c/m"}}`
	simulated = `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"LocalMachine","spec":{"simulated":{}}}`
	another   = `{"apiVersion":"infrastructure.example.com/v1","kind":"LocalMachine","spec":{"container":{}}}`
	templates = `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"LocalMachineTemplate","spec":{"template":{"spec":{"container":{}}}}}`
)

func raw(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }

func TestVersionsOfContainerMachinesChangeInPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		infrastructure, from, to string
		want                     string // the patch of the machine
		fail                     string
	}{
		"a patch":             {container, "v1.36.2", "v1.36.3", `[{"op":"add","path":"/spec/version","value":"v1.36.3"}]`, ""},
		"a minor":             {container, "v1.35.4", "v1.36.3", `[{"op":"add","path":"/spec/version","value":"v1.36.3"}]`, ""},
		"two minors":          {container, "v1.34.0", "v1.36.3", "", ""},
		"back":                {container, "v1.36.3", "v1.36.2", "", ""},
		"no version":          {container, "", "v1.36.2", "", ""},
		"simulated machines":  {simulated, "v1.35.4", "v1.36.3", "", ""},
		"machines of another": {another, "v1.35.4", "v1.36.3", "", ""},
		"rubbish":             {`{`, "v1.35.4", "v1.36.3", "", "read the infrastructure of the request: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, resp := &hooksv1.CanUpdateMachineRequest{}, &hooksv1.CanUpdateMachineResponse{}
			req.Current.Machine.Spec.Version, req.Desired.Machine.Spec.Version = tc.from, tc.to
			req.Current.InfrastructureMachine, req.Desired.InfrastructureMachine = raw(tc.infrastructure), raw(tc.infrastructure)
			check(t, canUpdateMachine(t.Context(), req, resp), tc.fail)
			if diff := cmp.Diff(tc.want, patchOf(t, resp.MachinePatch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersionsOfTemplatesChangeInPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ infrastructure, to, want string }{
		"a minor":            {templates, "v1.36.3", `[{"op":"add","path":"/spec/template/spec/version","value":"v1.36.3"}]`},
		"two minors":         {templates, "v1.37.0", ""},
		"simulated machines": {strings.ReplaceAll(templates, "container", "simulated"), "v1.36.3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, resp := &hooksv1.CanUpdateMachineSetRequest{}, &hooksv1.CanUpdateMachineSetResponse{}
			req.Current.MachineSet.Spec.Template.Spec.Version, req.Desired.MachineSet.Spec.Template.Spec.Version = "v1.35.4", tc.to
			req.Current.InfrastructureMachineTemplate, req.Desired.InfrastructureMachineTemplate = raw(tc.infrastructure), raw(tc.infrastructure)
			check(t, canUpdateMachineSet(t.Context(), req, resp), "")
			if diff := cmp.Diff(tc.want, patchOf(t, resp.MachineSetPatch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

// patchOf returns a patch in its shortest form; "" if it changes nothing.
func patchOf(t *testing.T, p hooksv1.Patch) string {
	t.Helper()
	var operations []map[string]any
	if len(p.Patch) == 0 {
		return ""
	}
	if err := json.Unmarshal(p.Patch, &operations); err != nil {
		t.Fatal(err)
	}
	if len(operations) == 0 {
		return ""
	}
	text, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func check(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// updater records requests, and answers them.
type updater struct {
	asked localinfra.Machine
	localinfra.Progress
	err error
}

func (u *updater) UpdateMachine(_ context.Context, want localinfra.Machine) (localinfra.Progress, error) {
	u.asked = want
	return u.Progress, u.err
}

// known has a Machine of version v1.36.3.
func known(t *testing.T) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	m.Spec.ClusterName, m.Spec.Version = "c", "v1.36.3"
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "LocalMachine", Name: "m"}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).Build()
}

// TestUpdateRefusesWhatMachineDoesNotDesire: any process of the host can send a request.
func TestUpdateRefusesWhatMachineDoesNotDesire(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ machine, cluster, version, infrastructure string }{
		"another version":      {"m", "c", "v1.36.2", container},
		"another cluster":      {"m", "d", "v1.36.3", container},
		"that of another":      {"m", "c", "v1.36.3", strings.ReplaceAll(container, `"m"`, `"n"`)},
		"in another namespace": {"m", "c", "v1.36.3", strings.ReplaceAll(container, `"ns"`, `"other"`)},
		"no Machine":           {"n", "c", "v1.36.3", container},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, req := &updater{}, &hooksv1.UpdateMachineRequest{}
			req.Desired.Machine.Namespace, req.Desired.Machine.Name = "ns", tc.machine
			req.Desired.Machine.Spec = clusterv1.MachineSpec{ClusterName: tc.cluster, Version: tc.version}
			req.Desired.InfrastructureMachine = raw(tc.infrastructure)
			if err := update(t.Context(), u, known(t), req, &hooksv1.UpdateMachineResponse{}); err == nil || u.asked.Name != "" {
				t.Errorf("got %v, and the host was asked for %+v", err, u.asked)
			}
		})
	}
}

func TestTheHostIsAskedForAnUpdate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		infrastructure string
		progress       localinfra.Progress
		err            error
		again          int32
		message, fail  string
	}{
		"done":               {container, localinfra.Progress{Done: true}, nil, 0, "", ""},
		"under way":          {container, localinfra.Progress{Message: "copying"}, nil, again, "copying", ""},
		"failed":             {container, localinfra.Progress{}, errors.New("kubeadm said no"), 0, "", "kubeadm said no"},
		"just started":       {container, localinfra.Progress{}, fmt.Errorf("machine m: %w", localinfra.ErrOpening), again, "machine m: " + localinfra.ErrOpening.Error(), ""},
		"of another machine": {simulated, localinfra.Progress{}, nil, 0, "", "the infrastructure of Machine ns/m is no container machine: register the extension that is to update it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &updater{Progress: tc.progress, err: tc.err}
			req, resp := &hooksv1.UpdateMachineRequest{}, &hooksv1.UpdateMachineResponse{}
			req.Desired.Machine.Namespace, req.Desired.Machine.Name = "ns", "m"
			req.Desired.Machine.Spec = clusterv1.MachineSpec{ClusterName: "c", Version: "v1.36.3"}
			req.Desired.InfrastructureMachine = raw(tc.infrastructure)
			check(t, update(t.Context(), u, known(t), req, resp), tc.fail)
			if resp.RetryAfterSeconds != tc.again || resp.Message != tc.message {
				t.Errorf("asked again after %d s with message %q", resp.RetryAfterSeconds, resp.Message)
			}
			if tc.infrastructure != container {
				return
			}
			want := localinfra.Machine{
				NamespacedName: types.NamespacedName{Namespace: "ns", Name: "m"}, Cluster: "c", Version: "v1.36.3",
				Spec: infrav1.LocalMachineSpec{ProviderID: "local://ns/c/m", Container: &infrav1.LocalMachineContainer{}},
			}
			if diff := cmp.Diff(want, u.asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}
