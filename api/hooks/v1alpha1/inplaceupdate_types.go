// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// CanUpdateMachineRequest is sent to learn what an extension can change of a control
// plane Machine in place.
// +kubebuilder:object:root=true
type CanUpdateMachineRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// current is what there is.
	// +required
	Current CanUpdateMachineRequestObjects `json:"current,omitempty,omitzero"`

	// desired is what there should be.
	// +required
	Desired CanUpdateMachineRequestObjects `json:"desired,omitempty,omitzero"`
}

// CanUpdateMachineResponse answers a CanUpdateMachineRequest.
// +kubebuilder:object:root=true
type CanUpdateMachineResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// machinePatch changes the current machine as far as the extension
	// can in place.
	// +optional
	MachinePatch Patch `json:"machinePatch,omitempty,omitzero"`

	// infrastructureMachinePatch changes the current infrastructure object as far as the extension
	// can in place.
	// +optional
	InfrastructureMachinePatch Patch `json:"infrastructureMachinePatch,omitempty,omitzero"`

	// bootstrapConfigPatch changes the current bootstrap object as far as the extension
	// can in place.
	// +optional
	BootstrapConfigPatch Patch `json:"bootstrapConfigPatch,omitempty,omitzero"`
}

// CanUpdateMachine is the hook of CanUpdateMachineRequest and CanUpdateMachineResponse.
func CanUpdateMachine(*CanUpdateMachineRequest, *CanUpdateMachineResponse) {}

// CanUpdateMachineRequestObjects are a Machine and what belongs to it.
type CanUpdateMachineRequestObjects struct {
	// machine is the Machine, without status.
	// +required
	Machine clusterv1.Machine `json:"machine,omitempty,omitzero"`

	// infrastructureMachine is its infrastructure object.
	// +required
	InfrastructureMachine runtime.RawExtension `json:"infrastructureMachine,omitempty,omitzero"`

	// bootstrapConfig is its bootstrap object, if it has one.
	// +optional
	BootstrapConfig runtime.RawExtension `json:"bootstrapConfig,omitempty,omitzero"`
}

// CanUpdateMachineSetRequest is sent to learn what an extension can change of the
// Machines of a MachineSet in place.
// +kubebuilder:object:root=true
type CanUpdateMachineSetRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// current is what there is.
	// +required
	Current CanUpdateMachineSetRequestObjects `json:"current,omitempty,omitzero"`

	// desired is what there should be.
	// +required
	Desired CanUpdateMachineSetRequestObjects `json:"desired,omitempty,omitzero"`
}

// CanUpdateMachineSetResponse answers a CanUpdateMachineSetRequest.
// +kubebuilder:object:root=true
type CanUpdateMachineSetResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// machineSetPatch changes the current machineSet as far as the extension
	// can in place.
	// +optional
	MachineSetPatch Patch `json:"machineSetPatch,omitempty,omitzero"`

	// infrastructureMachineTemplatePatch changes the current infrastructure object as far as the extension
	// can in place.
	// +optional
	InfrastructureMachineTemplatePatch Patch `json:"infrastructureMachineTemplatePatch,omitempty,omitzero"`

	// bootstrapConfigTemplatePatch changes the current bootstrap object as far as the extension
	// can in place.
	// +optional
	BootstrapConfigTemplatePatch Patch `json:"bootstrapConfigTemplatePatch,omitempty,omitzero"`
}

// CanUpdateMachineSet is the hook of CanUpdateMachineSetRequest and CanUpdateMachineSetResponse.
func CanUpdateMachineSet(*CanUpdateMachineSetRequest, *CanUpdateMachineSetResponse) {}

// CanUpdateMachineSetRequestObjects are a MachineSet and the templates of
// what belongs to its Machines.
type CanUpdateMachineSetRequestObjects struct {
	// machineSet is the MachineSet, without status.
	// +required
	MachineSet clusterv1.MachineSet `json:"machineSet,omitempty,omitzero"`

	// infrastructureMachineTemplate is its infrastructure object.
	// +required
	InfrastructureMachineTemplate runtime.RawExtension `json:"infrastructureMachineTemplate,omitempty,omitzero"`

	// bootstrapConfigTemplate is its bootstrap object, if it has one.
	// +optional
	BootstrapConfigTemplate runtime.RawExtension `json:"bootstrapConfigTemplate,omitempty,omitzero"`
}

// UpdateMachineRequest is sent to change a Machine in place, repeatedly until the response
// reports that the update is done.
// +kubebuilder:object:root=true
type UpdateMachineRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// desired is what there should be.
	// +required
	Desired UpdateMachineRequestObjects `json:"desired,omitempty,omitzero"`
}

// UpdateMachineResponse answers an UpdateMachineRequest.
// +kubebuilder:object:root=true
type UpdateMachineResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// UpdateMachine is the hook of UpdateMachineRequest and UpdateMachineResponse.
func UpdateMachine(*UpdateMachineRequest, *UpdateMachineResponse) {}

// UpdateMachineRequestObjects are a Machine and what belongs to it.
type UpdateMachineRequestObjects struct {
	// machine is the Machine, without status.
	// +required
	Machine clusterv1.Machine `json:"machine,omitempty,omitzero"`

	// infrastructureMachine is its infrastructure object.
	// +required
	InfrastructureMachine runtime.RawExtension `json:"infrastructureMachine,omitempty,omitzero"`

	// bootstrapConfig is its bootstrap object, if it has one.
	// +optional
	BootstrapConfig runtime.RawExtension `json:"bootstrapConfig,omitempty,omitzero"`
}
