// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// LocalMachinePoolFinalizer retains a LocalMachinePool until its machines are deleted. The
// LocalMachinePool controller sets and removes it.
const LocalMachinePoolFinalizer = "infrastructure.capstan.dev/localmachinepool"

// Annotations of the LocalMachines of a pool: what each was created from. The LocalMachinePool
// controller sets them.
const (
	// PoolTemplateAnnotation holds a hash of the pool's template and version of
	// Kubernetes. A machine with another one is replaced.
	PoolTemplateAnnotation = "infrastructure.capstan.dev/pool-template"

	// PoolVersionAnnotation holds the version of Kubernetes on the machine.
	PoolVersionAnnotation = "infrastructure.capstan.dev/pool-version"

	// PoolFailureDomainAnnotation holds the failure domain the machine is
	// placed in.
	PoolFailureDomainAnnotation = "infrastructure.capstan.dev/pool-failure-domain"
)

// LocalMachinePoolSpec is the desired state of a LocalMachinePool.
type LocalMachinePoolSpec struct {
	// template is what each machine of the pool looks like.
	// +required
	Template LocalMachinePoolMachineTemplate `json:"template,omitempty,omitzero"`

	// providerID names the pool itself, for example
	// simulated://<namespace>/<cluster>/pool/<name> or, of container machines,
	// local://<namespace>/<cluster>/pool/<name>. The controller sets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// providerIDList names the machines of the pool as their Nodes do, for as
	// long as each exists. The controller sets it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
}

// LocalMachinePoolMachineTemplate is what each machine of a pool looks like.
// +kubebuilder:validation:XValidation:rule="has(self.simulated) != has(self.container)",message="exactly one machine kind must be set: simulated or container"
// +kubebuilder:validation:XValidation:rule="has(self.container) == has(oldSelf.container)",message="the machine kind cannot change: delete the pool and create another one"
type LocalMachinePoolMachineTemplate struct {
	// simulated makes the machines of the pool simulated ones.
	// +optional
	Simulated *LocalMachineSimulated `json:"simulated,omitempty"`

	// container makes the machines of the pool container ones.
	// +optional
	Container *LocalMachineContainer `json:"container,omitempty"`
}

// LocalMachinePoolStatus is the observed state of a LocalMachinePool.
type LocalMachinePoolStatus struct {
	// conditions are the current conditions: Ready, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; the MachinePool controller
	// reads it.
	// +optional
	Initialization LocalMachinePoolInitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is true together with initialization.provisioned, for clients that read the contract
	// v1beta1.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// infrastructureMachineKind is the kind of the objects that represent one machine of the pool
	// each; the MachinePool controller creates a Machine for each of them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	InfrastructureMachineKind string `json:"infrastructureMachineKind,omitempty"`

	// replicas is the number of machines observed last, including those that are starting and those
	// that are being deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// failureReason is a one-word reason for the permanent failure of a machine of the pool, as
	// long as that machine exists.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains failureReason, and names the machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// capacity is the capacity of a machine of the pool, for an autoscaler that starts from zero.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo describes the Node of a machine of the pool.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// instances are the machines of the pool, by name.
	// +optional
	// +listType=map
	// +listMapKey=instanceName
	// +kubebuilder:validation:MaxItems=10000
	Instances []LocalMachinePoolInstance `json:"instances,omitempty"`
}

// LocalMachinePoolInitializationStatus reports the progress of the first provisioning of a
// LocalMachinePool.
// +kubebuilder:validation:MinProperties=1
type LocalMachinePoolInitializationStatus struct {
	// provisioned is true once all desired machines of the pool have run at the same time. It never
	// changes back.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// LocalMachinePoolInstance is one machine of a pool.
type LocalMachinePoolInstance struct {
	// instanceName is the machine's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	InstanceName string `json:"instanceName,omitempty"`

	// providerID names the machine as its Node does.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// version is the Kubernetes version the machine runs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// addresses are where the machine is reached.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// ready is true while the machine runs and has executed its bootstrap data.
	// +optional
	Ready *bool `json:"ready,omitempty"`
}

// LocalMachinePool is a set of equal machines on this host.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachinepools,scope=Namespaced,categories=cluster-api,shortName=lmp
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas",description="Machines seen last"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether all machines run"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type==\"Paused\")].status",description="Whether reconciling is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalMachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalMachinePoolSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status LocalMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (p *LocalMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions.
func (p *LocalMachinePool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// LocalMachinePoolList is a list of LocalMachinePools.
// +kubebuilder:object:root=true
type LocalMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalMachinePools.
	Items []LocalMachinePool `json:"items"`
}

// LocalMachinePoolTemplateSpec is what a LocalMachinePoolTemplate holds.
type LocalMachinePoolTemplateSpec struct {
	// template is the content of the LocalMachinePools created from this template.
	// +required
	Template LocalMachinePoolTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalMachinePoolTemplateResource is the content of a LocalMachinePool created from a template.
type LocalMachinePoolTemplateResource struct {
	// metadata are the labels and annotations of the LocalMachinePool.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the LocalMachinePool's spec.
	// +required
	Spec LocalMachinePoolSpec `json:"spec,omitempty,omitzero"`
}

// LocalMachinePoolTemplate is the template of the LocalMachinePools of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachinepooltemplates,scope=Namespaced,categories=cluster-api,shortName=lmpt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalMachinePoolTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalMachinePoolTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LocalMachinePoolTemplateList is a list of LocalMachinePoolTemplates.
// +kubebuilder:object:root=true
type LocalMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalMachinePoolTemplates.
	Items []LocalMachinePoolTemplate `json:"items"`
}
