// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of the first release.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.example.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// GroupVersion is that of the types.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.example.com", Version: "v1alpha1"}

// AddToScheme registers the types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ExampleCluster{}, &ExampleClusterList{}, &ExampleMachine{}, &ExampleMachineList{},
		&ExampleClusterTemplate{}, &ExampleClusterTemplateList{}, &ExampleMachineTemplate{}, &ExampleMachineTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ExampleClusterSpec defines the address of the API server.
type ExampleClusterSpec struct {
	// address was reserved for the API server.
	// +optional
	Address string `json:"address,omitempty"`

	// controlPlaneEndpoint is set by the controller from address.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// ExampleClusterStatus is what the controller reports.
type ExampleClusterStatus struct {
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization has the fields that the contract requires.
type Initialization struct {
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// ExampleCluster is the infrastructure of a Cluster: an address.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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

// ExampleMachineSpec describes a machine.
type ExampleMachineSpec struct {
	// providerID identifies the machine; the controller sets it.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// size of the machine; small by default.
	// +optional
	// +kubebuilder:validation:Enum=small;large
	Size string `json:"size,omitempty"`
}

// ExampleMachineStatus is what the controller reports.
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
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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

// ExampleClusterTemplate is the template of ExampleClusters.
// +kubebuilder:object:root=true
type ExampleClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ExampleClusterTemplateSpec holds the content of the objects created from the template.
type ExampleClusterTemplateSpec struct {
	Template ExampleClusterTemplateResource `json:"template,omitzero"`
}

// ExampleClusterTemplateResource is the initial content of ExampleClusters.
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

// ExampleMachineTemplate is the template of ExampleMachines.
// +kubebuilder:object:root=true
type ExampleMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ExampleMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ExampleMachineTemplateSpec holds the content of the objects created from the template.
type ExampleMachineTemplateSpec struct {
	Template ExampleMachineTemplateResource `json:"template,omitzero"`
}

// ExampleMachineTemplateResource is the initial content of ExampleMachines.
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

// SetDefaultSize sets the default of the webhook.
func (m *ExampleMachine) SetDefaultSize() {
	if m.Spec.Size == "" {
		m.Spec.Size = "small"
	}
}
