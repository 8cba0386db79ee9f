// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MachineSetTopologyFinalizer lets the topology controller delete the
	// templates of a MachineSet after it.
	MachineSetTopologyFinalizer = "machineset.topology.cluster.x-k8s.io"
	// MachineSetFinalizer retains a MachineSet until its Machines are deleted.
	MachineSetFinalizer = "cluster.x-k8s.io/machineset"
	// MachineSetMoveMachinesToMachineSetAnnotation on a MachineSet names the other MachineSet
	// to which its Machines are moved instead of being deleted.
	MachineSetMoveMachinesToMachineSetAnnotation = "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset"
	// MachineSetReceiveMachinesFromMachineSetsAnnotation on a MachineSet names the other
	// MachineSets that may move Machines to it.
	MachineSetReceiveMachinesFromMachineSetsAnnotation = "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets"
	// AcknowledgedMoveAnnotation on a MachineSet lists received Machines that its
	// MachineDeployment has counted.
	AcknowledgedMoveAnnotation = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move"
)

// MachineSetDeletionOrder defines which Machines are deleted first when there are too many.
type MachineSetDeletionOrder string

const (
	// RandomMachineSetDeletionOrder takes healthy Machines in no order. It is what
	// happens when no order is given.
	RandomMachineSetDeletionOrder MachineSetDeletionOrder = "Random"
	// NewestMachineSetDeletionOrder deletes the youngest healthy Machines first.
	NewestMachineSetDeletionOrder MachineSetDeletionOrder = "Newest"
	// OldestMachineSetDeletionOrder deletes the oldest healthy Machines first.
	OldestMachineSetDeletionOrder MachineSetDeletionOrder = "Oldest"
)

// MachineTemplateSpec is the template of Machines.
type MachineTemplateSpec struct {
	// metadata is put on the Machines, and on their bootstrap and infrastructure objects.
	// +optional
	ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the Machines; its references are to templates.
	// +required
	Spec MachineSpec `json:"spec,omitempty,omitzero"`
}

// MachineSetSpec is the desired state of a MachineSet.
type MachineSetSpec struct {
	// clusterName is the Cluster that the MachineSet belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// replicas is the desired number of Machines. Admission fills it in.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// selector picks the Machines; it must match the labels of the template.
	// +required
	Selector metav1.LabelSelector `json:"selector,omitempty,omitzero"`

	// template is the template of Machines.
	// +required
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`

	// machineNaming defines how Machines are named.
	// +optional
	MachineNaming MachineNamingSpec `json:"machineNaming,omitempty,omitzero"`

	// deletion defines which Machines are deleted first.
	// +optional
	Deletion MachineSetDeletionSpec `json:"deletion,omitempty,omitzero"`
}

// MachineSetDeletionSpec defines which Machines are deleted first.
// +kubebuilder:validation:MinProperties=1
type MachineSetDeletionSpec struct {
	// order in which healthy Machines are deleted. Random when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	Order MachineSetDeletionOrder `json:"order,omitempty"`
}

// MachineSetStatus is the observed state of a MachineSet.
// +kubebuilder:validation:MinProperties=1
type MachineSetStatus struct {
	// conditions summarize the state; their types are the constants MachineSet...Condition.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// selector is spec.selector as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is how many Machines there are.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is how many Machines are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many Machines are available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is how many Machines match the desired state of their owner.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// versions counts Machines by version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []StatusVersion `json:"versions,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *MachineSetDeprecatedStatus `json:"deprecated,omitempty"`
}

// MachineSetDeprecatedStatus holds what only older versions of the API show.
type MachineSetDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *MachineSetV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// MachineSetV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type MachineSetV1Beta1DeprecatedStatus struct {
	// conditions as v1beta1 had them.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`

	// failureReason was set when an operator had to step in.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains the failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// fullyLabeledReplicas is how many Machines have all labels of the template.
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas"`

	// readyReplicas is how many Machines have a ready Node.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is how many Machines have a Node ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
}

// MachineSet keeps a number of like Machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=machinesets,shortName=ms,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=".status.upToDateReplicas"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachineSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec MachineSetSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status MachineSetStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the MachineSet.
func (m *MachineSet) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the MachineSet.
func (m *MachineSet) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// MachineSetList is a list of MachineSets.
//
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []MachineSet `json:"items"`
}
