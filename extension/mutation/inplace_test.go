// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

func TestOnlyFieldsThatCanChangeInPlaceArePatched(t *testing.T) {
	t.Parallel()
	can := mutation.InPlace{Machine: []string{"version"}, Infrastructure: []string{"size"}}
	made := func(spec string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"kind":"Made","spec":` + spec + `}`)}
	}

	var machine hooksv1.CanUpdateMachineRequest
	machine.Current.Machine.Spec.Version, machine.Desired.Machine.Spec.Version = "v1", "v2"
	machine.Desired.Machine.Spec.FailureDomain = "b"
	machine.Current.InfrastructureMachine, machine.Desired.InfrastructureMachine = made(`{"size":"s","zone":"a"}`), made(`{"size":"l","zone":"b"}`)
	machine.Current.BootstrapConfig, machine.Desired.BootstrapConfig = made(`{"files":[1]}`), made(`{"files":[2]}`)
	var can1 hooksv1.CanUpdateMachineResponse
	if err := can.CanUpdateMachine(t.Context(), &machine, &can1); err != nil {
		t.Fatal(err)
	}
	check(t, "machine", can1.MachinePatch, `[{"op":"add","path":"/spec/version","value":"v2"}]`)
	check(t, "infrastructure", can1.InfrastructureMachinePatch, `[{"op":"add","path":"/spec/size","value":"l"}]`)
	check(t, "bootstrap", can1.BootstrapConfigPatch, "")

	var set hooksv1.CanUpdateMachineSetRequest
	set.Current.MachineSet.Spec.Template.Spec.Version, set.Desired.MachineSet.Spec.Template.Spec.Version = "v1", "v2"
	set.Current.InfrastructureMachineTemplate, set.Desired.InfrastructureMachineTemplate = made(`{"template":{"spec":{"size":"s"}}}`), made(`{"template":{"spec":{"size":"l"}}}`)
	var can2 hooksv1.CanUpdateMachineSetResponse
	if err := can.CanUpdateMachineSet(t.Context(), &set, &can2); err != nil {
		t.Fatal(err)
	}
	check(t, "machine set", can2.MachineSetPatch, `[{"op":"add","path":"/spec/template/spec/version","value":"v2"}]`)
	check(t, "infrastructure template", can2.InfrastructureMachineTemplatePatch, `[{"op":"add","path":"/spec/template/spec/size","value":"l"}]`)
	check(t, "bootstrap template", can2.BootstrapConfigTemplatePatch, "")
}

func check(t *testing.T, what string, got hooksv1.Patch, want string) {
	t.Helper()
	if string(got.Patch) != want {
		t.Errorf("%s: got %s, want %s", what, got.Patch, want)
	}
}
