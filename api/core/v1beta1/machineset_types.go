// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MachineTemplateSpec is the template of Machines.
type MachineTemplateSpec struct {
	// metadata is put on the Machines, and on their bootstrap and infrastructure objects.
	// +optional
	ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of the Machines; its references are to templates.
	// +optional
	Spec MachineSpec `json:"spec,omitempty"`
}

// MachineSetSpec is the desired state of a MachineSet.
type MachineSetSpec struct {
	// clusterName is the Cluster that the MachineSet belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName"`

	// replicas is the desired number of Machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// minReadySeconds is how long a Machine must be ready to count as available.
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// deletePolicy is the order in which healthy Machines are deleted.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	DeletePolicy clusterv1.MachineSetDeletionOrder `json:"deletePolicy,omitempty"`

	// selector picks the Machines; it must match the labels of the template.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	// template is the template of Machines.
	// +optional
	Template MachineTemplateSpec `json:"template,omitempty"`

	// machineNamingStrategy defines how Machines are named.
	// +optional
	MachineNamingStrategy *MachineNamingStrategy `json:"machineNamingStrategy,omitempty"`
}

// MachineSetStatus is the observed state of a MachineSet.
type MachineSetStatus struct {
	// selector is spec.selector as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is how many Machines there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// fullyLabeledReplicas is how many Machines have all labels of the template.
	// +optional
	FullyLabeledReplicas int32 `json:"fullyLabeledReplicas"`

	// readyReplicas is how many Machines have a ready Node.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is how many Machines have a Node ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// versions counts Machines by version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// failureReason was set when an operator had to step in.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains the failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *ReplicasV1Beta2Status `json:"v1beta2,omitempty"`
}

// MachineSet keeps a number of like Machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=machinesets,shortName=ms,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",priority=10
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachineSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec MachineSetSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status MachineSetStatus `json:"status,omitempty"`
}

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
