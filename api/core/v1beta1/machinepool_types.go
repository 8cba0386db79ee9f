// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MachinePoolSpec is the desired state of a MachinePool.
type MachinePoolSpec struct {
	// clusterName is the Cluster that the MachinePool belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName"`

	// replicas is the desired number of machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// template describes the machines; its references are to the objects of this pool.
	// +required
	Template MachineTemplateSpec `json:"template"`

	// minReadySeconds is how long a machine must be ready to count as available.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// providerIDList names the hosts of the pool. Copied from the infrastructure.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`

	// failureDomains that the machines are spread over.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// MachinePoolStatus is the observed state of a MachinePool.
type MachinePoolStatus struct {
	// nodeRefs are the Nodes of the pool.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	NodeRefs []corev1.ObjectReference `json:"nodeRefs,omitempty"`

	// replicas is how many machines there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many machines have a ready Node.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines have a Node ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// unavailableReplicas is how many available machines are missing.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`

	// versions counts machines by version of Kubernetes.
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

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Running;ScalingUp;ScalingDown;Scaling;Deleting;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// bootstrapReady reports whether the Secret with the bootstrap data exists.
	// +optional
	BootstrapReady bool `json:"bootstrapReady"`

	// infrastructureReady reports whether the pool is provisioned.
	// +optional
	InfrastructureReady bool `json:"infrastructureReady"`

	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *ReplicasV1Beta2Status `json:"v1beta2,omitempty"`
}

// MachinePool maintains a number of identical machines through a provider's own machine
// groups.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:resource:path=machinepools,shortName=mp,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",priority=10
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec MachinePoolSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status MachinePoolStatus `json:"status,omitempty"`
}

// MachinePoolList is a list of MachinePools.
//
// +kubebuilder:object:root=true
type MachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []MachinePool `json:"items"`
}
