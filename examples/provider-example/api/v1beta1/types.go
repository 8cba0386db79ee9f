// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 has the types of the second release, which are stored.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.example.com
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// GroupVersion is that of the types.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.example.com", Version: "v1beta1"}

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ExampleCluster{}, &ExampleClusterList{}, &ExampleMachine{}, &ExampleMachineList{},
		&ExampleClusterTemplate{}, &ExampleClusterTemplateList{}, &ExampleMachineTemplate{}, &ExampleMachineTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ExampleClusterSpec says where the API server is reached.
type ExampleClusterSpec struct {
	// address was reserved for the API server.
	// +optional
	Address string `json:"address,omitempty"`

	// controlPlaneEndpoint is what the controller makes of it.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// ExampleClusterStatus is what the controller tells.
type ExampleClusterStatus struct {
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is what the contract asks for.
type Initialization struct {
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// ExampleCluster is the infrastructure of a Cluster: an address.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
type ExampleCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleClusterSpec   `json:"spec,omitempty,omitzero"`
	Status            ExampleClusterStatus `json:"status,omitempty,omitzero"`
}

// ExampleClusterList is a list of ExampleClusters.
//
// +kubebuilder:object:root=true
type ExampleClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExampleCluster `json:"items"`
}

// ExampleMachineSpec says what a machine is like.
type ExampleMachineSpec struct {
	// providerID names the machine; the controller sets it.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// machineSize was "size" in v1alpha1; small unless it is said.
	// +optional
	// +kubebuilder:validation:Enum=small;large
	MachineSize string `json:"machineSize,omitempty"`
}

// ExampleMachineStatus is what the controller tells.
type ExampleMachineStatus struct {
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExampleMachine is the infrastructure of a Machine: a record, which boots nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
type ExampleMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleMachineSpec   `json:"spec,omitempty,omitzero"`
	Status            ExampleMachineStatus `json:"status,omitempty,omitzero"`
}

// ExampleMachineList is a list of ExampleMachines.
//
// +kubebuilder:object:root=true
type ExampleMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExampleMachine `json:"items"`
}

// ExampleClusterTemplate is what ExampleClusters are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
type ExampleClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ExampleClusterTemplateSpec holds what is made from the template.
type ExampleClusterTemplateSpec struct {
	Template ExampleClusterTemplateResource `json:"template,omitzero"`
}

// ExampleClusterTemplateResource is what ExampleClusters begin with.
type ExampleClusterTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Spec       ExampleClusterSpec   `json:"spec,omitzero"`
}

// ExampleClusterTemplateList is a list of ExampleClusterTemplates.
//
// +kubebuilder:object:root=true
type ExampleClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExampleClusterTemplate `json:"items"`
}

// ExampleMachineTemplate is what ExampleMachines are made from.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
type ExampleMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ExampleMachineTemplateSpec holds what is made from the template.
type ExampleMachineTemplateSpec struct {
	Template ExampleMachineTemplateResource `json:"template,omitzero"`
}

// ExampleMachineTemplateResource is what ExampleMachines begin with.
type ExampleMachineTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	Spec       ExampleMachineSpec   `json:"spec,omitzero"`
}

// ExampleMachineTemplateList is a list of ExampleMachineTemplates.
//
// +kubebuilder:object:root=true
type ExampleMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExampleMachineTemplate `json:"items"`
}

// GetConditions implements conditions.Getter.
func (c *ExampleCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions implements conditions.Setter.
func (c *ExampleCluster) SetConditions(all []metav1.Condition) { c.Status.Conditions = all }

// GetConditions implements conditions.Getter.
func (m *ExampleMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions implements conditions.Setter.
func (m *ExampleMachine) SetConditions(all []metav1.Condition) { m.Status.Conditions = all }

// SetDefaultSize is what the webhook does.
func (m *ExampleMachine) SetDefaultSize() {
	if m.Spec.MachineSize == "" {
		m.Spec.MachineSize = "small"
	}
}

// Hub says that other versions are converted to and from this one.
func (*ExampleCluster) Hub() {}

// Hub says that other versions are converted to and from this one.
func (*ExampleMachine) Hub() {}

// Hub says that other versions are converted to and from this one.
func (*ExampleClusterTemplate) Hub() {}

// Hub says that other versions are converted to and from this one.
func (*ExampleMachineTemplate) Hub() {}
