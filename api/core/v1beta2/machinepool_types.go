// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachinePoolFinalizer retains a MachinePool until its infrastructure and bootstrap config are
// deleted.
const MachinePoolFinalizer = "machinepool.cluster.x-k8s.io"

// MachinePoolPhase is one word for the phase of a MachinePool's lifecycle.
type MachinePoolPhase string

// Phases of a MachinePool.
const (
	MachinePoolPhasePending      MachinePoolPhase = "Pending"
	MachinePoolPhaseProvisioning MachinePoolPhase = "Provisioning"
	MachinePoolPhaseProvisioned  MachinePoolPhase = "Provisioned"
	MachinePoolPhaseRunning      MachinePoolPhase = "Running"
	MachinePoolPhaseScalingUp    MachinePoolPhase = "ScalingUp"
	MachinePoolPhaseScalingDown  MachinePoolPhase = "ScalingDown"
	MachinePoolPhaseScaling      MachinePoolPhase = "Scaling"
	MachinePoolPhaseDeleting     MachinePoolPhase = "Deleting"
	MachinePoolPhaseFailed       MachinePoolPhase = "Failed"
	MachinePoolPhaseUnknown      MachinePoolPhase = "Unknown"
)

// SetTypedPhase sets the phase.
func (s *MachinePoolStatus) SetTypedPhase(p MachinePoolPhase) { s.Phase = string(p) }

// GetTypedPhase returns the phase, MachinePoolPhaseUnknown when it is none of those known.
func (s *MachinePoolStatus) GetTypedPhase() MachinePoolPhase {
	switch p := MachinePoolPhase(s.Phase); p {
	case MachinePoolPhasePending, MachinePoolPhaseProvisioning, MachinePoolPhaseProvisioned, MachinePoolPhaseRunning, MachinePoolPhaseScalingUp,
		MachinePoolPhaseScalingDown, MachinePoolPhaseScaling, MachinePoolPhaseDeleting, MachinePoolPhaseFailed:
		return p
	default:
		return MachinePoolPhaseUnknown
	}
}

// MachinePoolSpec is the desired state of a MachinePool.
type MachinePoolSpec struct {
	// clusterName is the Cluster that the MachinePool belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// replicas is the desired number of machines. Admission fills it in.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// template describes the machines; its references are to the objects of this pool.
	// +required
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`

	// providerIDList names the hosts of the pool. Copied from the infrastructure.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`

	// failureDomains that the machines are spread over.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// MachinePoolStatus is the observed state of a MachinePool.
// +kubebuilder:validation:MinProperties=1
type MachinePoolStatus struct {
	// conditions summarize the state.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; its fields never change
	// back.
	// +optional
	Initialization MachinePoolInitializationStatus `json:"initialization,omitempty,omitzero"`

	// nodeRefs are the Nodes of the pool.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	NodeRefs []corev1.ObjectReference `json:"nodeRefs,omitempty"`

	// replicas is how many machines there are.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is how many machines are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines are available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is how many machines match the template.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// versions counts machines by version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []StatusVersion `json:"versions,omitempty"`

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Running;ScalingUp;ScalingDown;Scaling;Deleting;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *MachinePoolDeprecatedStatus `json:"deprecated,omitempty"`
}

// MachinePoolInitializationStatus reports the progress of the first provisioning of a
// MachinePool.
// +kubebuilder:validation:MinProperties=1
type MachinePoolInitializationStatus struct {
	// infrastructureProvisioned is true once the provider has reported that the pool is
	// provisioned.
	// +optional
	InfrastructureProvisioned *bool `json:"infrastructureProvisioned,omitempty"`

	// bootstrapDataSecretCreated is true once the Secret with the bootstrap data exists.
	// +optional
	BootstrapDataSecretCreated *bool `json:"bootstrapDataSecretCreated,omitempty"`
}

// MachinePoolDeprecatedStatus holds what only older versions of the API show.
type MachinePoolDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *MachinePoolV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// MachinePoolV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type MachinePoolV1Beta1DeprecatedStatus struct {
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

	// readyReplicas is how many machines have a ready Node.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines have a Node ready for long enough.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// unavailableReplicas is how many available machines are missing.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas,omitempty"`
}

// MachinePool maintains a number of identical machines through a provider's own machine
// groups.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas
// +kubebuilder:resource:path=machinepools,shortName=mp,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=".status.upToDateReplicas"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachinePool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec MachinePoolSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status MachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the MachinePool.
func (m *MachinePool) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the MachinePool.
func (m *MachinePool) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

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
