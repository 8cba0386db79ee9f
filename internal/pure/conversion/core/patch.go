// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func patchesUp(patches []clusterv1beta1.ClusterClassPatch, before []clusterv1.ClusterClassPatch) []clusterv1.ClusterClassPatch {
	return rules.List(patches, func(from *clusterv1beta1.ClusterClassPatch, to *clusterv1.ClusterClassPatch) {
		before := rules.Find(before, func(p *clusterv1.ClusterClassPatch) bool { return p.Name == from.Name }).Definitions
		if len(before) != len(from.Definitions) {
			before = nil // definitions have no names, so they cannot be matched reliably
		}
		i := -1
		*to = clusterv1.ClusterClassPatch{
			Name:        from.Name,
			Description: from.Description,
			EnabledIf:   rules.Value(from.EnabledIf),
			Definitions: rules.List(from.Definitions, func(from *clusterv1beta1.PatchDefinition, to *clusterv1.PatchDefinition) {
				i++
				to.Selector = selectorUp(&from.Selector, rules.At(before, i).Selector.MatchResources)
				to.JSONPatches = rules.List(from.JSONPatches, jsonPatchUp)
			}),
		}
		if e := from.External; e != nil {
			to.External = &clusterv1.ExternalPatchDefinition{
				GeneratePatchesExtension:   rules.Value(e.GenerateExtension),
				ValidateTopologyExtension:  rules.Value(e.ValidateExtension),
				DiscoverVariablesExtension: rules.Value(e.DiscoverVariablesExtension),
				Settings:                   e.Settings,
			}
		}
	})
}

func patchDown(from *clusterv1.ClusterClassPatch, to *clusterv1beta1.ClusterClassPatch) {
	*to = clusterv1beta1.ClusterClassPatch{
		Name:        from.Name,
		Description: from.Description,
		EnabledIf:   rules.Pointer(from.EnabledIf),
		Definitions: rules.List(from.Definitions, func(from *clusterv1.PatchDefinition, to *clusterv1beta1.PatchDefinition) {
			to.Selector = selectorDown(&from.Selector)
			to.JSONPatches = rules.List(from.JSONPatches, jsonPatchDown)
		}),
	}
	if e := from.External; e != nil {
		to.External = &clusterv1beta1.ExternalPatchDefinition{
			GenerateExtension:          rules.Pointer(e.GeneratePatchesExtension),
			ValidateExtension:          rules.Pointer(e.ValidateTopologyExtension),
			DiscoverVariablesExtension: rules.Pointer(e.DiscoverVariablesExtension),
			Settings:                   e.Settings,
		}
	}
}

func selectorUp(from *clusterv1beta1.PatchSelector, before clusterv1.PatchSelectorMatch) clusterv1.PatchSelector {
	match := &from.MatchResources
	return clusterv1.PatchSelector{
		APIVersion: from.APIVersion,
		Kind:       from.Kind,
		MatchResources: clusterv1.PatchSelectorMatch{
			ControlPlane:           rules.Meant(match.ControlPlane, before.ControlPlane),
			InfrastructureCluster:  rules.Meant(match.InfrastructureCluster, before.InfrastructureCluster),
			MachineDeploymentClass: (*clusterv1.PatchSelectorMatchMachineDeploymentClass)(match.MachineDeploymentClass),
			MachinePoolClass:       (*clusterv1.PatchSelectorMatchMachinePoolClass)(match.MachinePoolClass),
		},
	}
}

func selectorDown(from *clusterv1.PatchSelector) clusterv1beta1.PatchSelector {
	match := &from.MatchResources
	return clusterv1beta1.PatchSelector{
		APIVersion: from.APIVersion,
		Kind:       from.Kind,
		MatchResources: clusterv1beta1.PatchSelectorMatch{
			ControlPlane:           rules.Value(match.ControlPlane),
			InfrastructureCluster:  rules.Value(match.InfrastructureCluster),
			MachineDeploymentClass: (*clusterv1beta1.PatchSelectorMatchClass)(match.MachineDeploymentClass),
			MachinePoolClass:       (*clusterv1beta1.PatchSelectorMatchClass)(match.MachinePoolClass),
		},
	}
}

func jsonPatchUp(from *clusterv1beta1.JSONPatch, to *clusterv1.JSONPatch) {
	*to = clusterv1.JSONPatch{Op: from.Op, Path: from.Path, Value: from.Value}
	if v := from.ValueFrom; v != nil {
		to.ValueFrom = &clusterv1.JSONPatchValue{Variable: rules.Value(v.Variable), Template: rules.Value(v.Template)}
	}
}

func jsonPatchDown(from *clusterv1.JSONPatch, to *clusterv1beta1.JSONPatch) {
	*to = clusterv1beta1.JSONPatch{Op: from.Op, Path: from.Path, Value: from.Value}
	if v := from.ValueFrom; v != nil {
		to.ValueFrom = &clusterv1beta1.JSONPatchValue{Variable: rules.Pointer(v.Variable), Template: rules.Pointer(v.Template)}
	}
}
