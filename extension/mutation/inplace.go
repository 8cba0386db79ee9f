// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"errors"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// InPlace are the fields that an extension can change on a running machine, below
// spec, such as "version" of a Machine or "files" of a KubeadmConfig. Its methods
// are handlers of the hooks for in-place updates: their answers set those fields to
// their desired values, and do not change others.
type InPlace struct{ Machine, Infrastructure, Bootstrap []string }

// CanUpdateMachine answers the hook of that name.
func (f InPlace) CanUpdateMachine(_ context.Context, req *hooksv1.CanUpdateMachineRequest, resp *hooksv1.CanUpdateMachineResponse) error {
	const spec = "spec."
	from, to := req.Current, req.Desired
	return errors.Join(
		fill(&resp.MachinePatch, from.Machine, to.Machine, spec, f.Machine),
		fill(&resp.InfrastructureMachinePatch, from.InfrastructureMachine, to.InfrastructureMachine, spec, f.Infrastructure),
		fill(&resp.BootstrapConfigPatch, from.BootstrapConfig, to.BootstrapConfig, spec, f.Bootstrap))
}

// CanUpdateMachineSet answers the hook of that name, for the same fields of
// templates.
func (f InPlace) CanUpdateMachineSet(_ context.Context, req *hooksv1.CanUpdateMachineSetRequest, resp *hooksv1.CanUpdateMachineSetResponse) error {
	const spec = "spec.template.spec."
	from, to := req.Current, req.Desired
	return errors.Join(
		fill(&resp.MachineSetPatch, from.MachineSet, to.MachineSet, spec, f.Machine),
		fill(&resp.InfrastructureMachineTemplatePatch, from.InfrastructureMachineTemplate, to.InfrastructureMachineTemplate, spec, f.Infrastructure),
		fill(&resp.BootstrapConfigTemplatePatch, from.BootstrapConfigTemplate, to.BootstrapConfigTemplate, spec, f.Bootstrap))
}

func fill(into *hooksv1.Patch, from, to any, spec string, fields []string) (err error) {
	paths := make([]string, len(fields))
	for i, f := range fields {
		paths[i] = spec + f
	}
	*into, err = Take(from, to, paths...)
	return err
}
