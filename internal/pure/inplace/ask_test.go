// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

func object(kind string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "x.io/v1", "kind": kind,
		"metadata": map[string]any{"namespace": "ns", "name": "m", "resourceVersion": "7", "annotations": map[string]any{corev1.LastAppliedConfigAnnotation: "{}"}},
		"spec":     spec, "status": map[string]any{"ready": true},
	}}
}

// sides are a machine with one file, and its desired state with another.
func sides() (from, to Machine) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u", ResourceVersion: "3", Annotations: map[string]string{
		clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "UpdateMachine", "note": "kept",
	}}, Spec: clusterv1.MachineSpec{ClusterName: "c", Version: "v1.36.0", MinReadySeconds: new(int32(1))}}
	from = Machine{m, object("Host", map[string]any{"size": "big"}), object("Boot", map[string]any{"files": []any{"a"}})}
	wanted := m.DeepCopy()
	wanted.Spec.MinReadySeconds = new(int32(5))
	return from, Machine{wanted, from.Infrastructure, object("Boot", map[string]any{"files": []any{"b"}})}
}

func TestExtensionReceivesOnlyRelevantFields(t *testing.T) {
	t.Parallel()
	q := CanUpdateMachine(sides())
	if m := q.Current.Machine; m.Kind != "Machine" || m.ResourceVersion != "" || len(m.Annotations) != 1 || m.Annotations["note"] != "kept" {
		t.Errorf("metadata %+v", m.ObjectMeta)
	}
	if have := *q.Current.Machine.Spec.MinReadySeconds; have != 5 {
		t.Errorf("minReadySeconds, which needs no update, is sent as %d", have)
	}
	if text := string(q.Current.InfrastructureMachine.Raw); strings.Contains(text, "status") || strings.Contains(text, "last-applied") || !strings.Contains(text, `"size":"big"`) {
		t.Errorf("infrastructure %s", text)
	}
}

func TestInterpretMachine(t *testing.T) {
	t.Parallel()
	patch := func(kind hooksv1.PatchType, text string) hooksv1.Patch {
		return hooksv1.Patch{PatchType: kind, Patch: []byte(text)}
	}
	tests := map[string]struct {
		answer  hooksv1.CanUpdateMachineResponse
		version string // the desired version
		why     string
		err     string
	}{
		"nothing is patched": {why: "it does not bring about spec.files of bootstrapConfig"},
		"all is patched":     {answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONPatchType, `[{"op":"replace","path":"/spec/files","value":["b"]}]`)}},
		"as a merge patch":   {answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONMergePatchType, `{"spec":{"files":["b"]}}`)}},
		"what is outside of spec does not count": {
			answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONMergePatchType, `{"metadata":{"name":"x"},"spec":{"files":["b"]}}`)},
		},
		"more is patched than is wanted": {
			answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONMergePatchType, `{"spec":{"files":["b"],"verbosity":3}}`)},
			why:    "it does not bring about spec.verbosity of bootstrapConfig",
		},
		"less is patched than is wanted": {
			version: "v1.37.0",
			answer:  hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONMergePatchType, `{"spec":{"files":["b"]}}`)},
			why:     "it does not bring about spec.version of machine",
		},
		"a patch that does not apply": {
			answer: hooksv1.CanUpdateMachineResponse{MachinePatch: patch(hooksv1.JSONPatchType, `[{"op":"test","path":"/spec/version","value":"v1"}]`)},
			err:    "machinePatch: it does not apply",
		},
		"a patch that is none": {
			answer: hooksv1.CanUpdateMachineResponse{MachinePatch: patch(hooksv1.JSONPatchType, `rubbish`)},
			err:    "machinePatch: it is no JSON patch",
		},
		"a patch of no known type": {
			answer: hooksv1.CanUpdateMachineResponse{MachinePatch: patch("Strategic", `{}`)},
			err:    `machinePatch: its type is "Strategic"`,
		},
		"a patch that leaves nothing": {
			answer: hooksv1.CanUpdateMachineResponse{MachinePatch: patch(hooksv1.JSONMergePatchType, `null`)},
			err:    "machinePatch: it leaves no object",
		},
		"a patch that grows without end": {
			answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONPatchType, "["+strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/spec/files","path":"/spec/files/-"},`, 40), ",")+"]")},
			err:    "bootstrapConfigPatch: it does not apply",
		},
		"a patch of countless operations": {
			answer: hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: patch(hooksv1.JSONPatchType, "["+strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/spec/files/0","value":1},`, 10_001), ",")+"]")},
			err:    "bootstrapConfigPatch: it has 10001 operations: at most 10000 are applied",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := sides()
			if tc.version != "" {
				to.Machine.Spec.Version = tc.version
			}
			got, err := InterpretMachine(CanUpdateMachine(from, to), &tc.answer)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if want := (Answer{Possible: tc.why == "" && tc.err == "", Why: tc.why}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAPatchOfWhatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	from, to := sides()
	from.Bootstrap, to.Bootstrap = nil, nil
	answer := &hooksv1.CanUpdateMachineResponse{BootstrapConfigPatch: hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: []byte(`{"spec":{}}`)}}
	if _, err := InterpretMachine(CanUpdateMachine(from, to), answer); err == nil || err.Error() != "bootstrapConfigPatch: the request has no such object" {
		t.Errorf("error %v", err)
	}
}

func TestOfMachineSetsTheTemplatesAreCompared(t *testing.T) {
	t.Parallel()
	set := func(name, version string, replicas int32, file string) Set {
		s := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{clusterv1.RevisionAnnotation: name}}}
		s.Spec.Replicas, s.Spec.Template.Spec.Version = &replicas, version
		s.Spec.Template.Spec.Bootstrap.ConfigRef.Name = name
		return Set{s, object("HostTemplate", nil), object("BootTemplate", map[string]any{"template": map[string]any{"spec": map[string]any{"files": []any{file}}}})}
	}
	q := CanUpdateMachineSet(set("old", "v1", 3, "a"), set("new", "v1", 0, "b"))
	if s := q.Current.MachineSet; s.Spec.Replicas != nil || s.Annotations != nil {
		t.Errorf("what changes during a rollout is sent: %+v", s)
	}
	got, err := InterpretSet(q, &hooksv1.CanUpdateMachineSetResponse{BootstrapConfigTemplatePatch: hooksv1.Patch{
		PatchType: hooksv1.JSONPatchType, Patch: []byte(`[{"op":"replace","path":"/spec/template/spec/files/0","value":"b"}]`),
	}})
	if err != nil || !got.Possible {
		t.Errorf("got %+v, %v; the name of a template is no difference", got, err)
	}
	got, err = InterpretSet(CanUpdateMachineSet(set("old", "v1", 3, "a"), set("new", "v2", 0, "a")), &hooksv1.CanUpdateMachineSetResponse{})
	if want := "it does not bring about spec.template.spec.version of machineSet"; err != nil || got.Why != want {
		t.Errorf("got %+v, %v, want %s", got, err, want)
	}
}
