// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachinePhase is one word for the phase of a Machine's lifecycle.
type MachinePhase string

// Phases of a Machine.
const (
	MachinePhasePending      MachinePhase = "Pending"
	MachinePhaseProvisioning MachinePhase = "Provisioning"
	MachinePhaseProvisioned  MachinePhase = "Provisioned"
	MachinePhaseRunning      MachinePhase = "Running"
	MachinePhaseUpdating     MachinePhase = "Updating"
	MachinePhaseDeleting     MachinePhase = "Deleting"
	MachinePhaseDeleted      MachinePhase = "Deleted"
	MachinePhaseFailed       MachinePhase = "Failed"
	MachinePhaseUnknown      MachinePhase = "Unknown"
)

const (
	// MachineFinalizer retains a Machine until its infrastructure, its bootstrap config and its
	// Node are deleted.
	MachineFinalizer = "machine.cluster.x-k8s.io"
	// MachineControlPlaneLabel marks Machines, and what belongs to them, that are
	// part of a control plane.
	MachineControlPlaneLabel = "cluster.x-k8s.io/control-plane"
	// ExcludeNodeDrainingAnnotation on a Machine skips draining its Node.
	ExcludeNodeDrainingAnnotation = "machine.cluster.x-k8s.io/exclude-node-draining"
	// ExcludeWaitForNodeVolumeDetachAnnotation on a Machine skips the wait for its volumes to detach.
	ExcludeWaitForNodeVolumeDetachAnnotation = "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
	// MachineSetNameLabel holds the name of the MachineSet of a Machine.
	MachineSetNameLabel = "cluster.x-k8s.io/set-name"
	// MachineDeploymentNameLabel holds the name of the MachineDeployment of a MachineSet or Machine.
	MachineDeploymentNameLabel = "cluster.x-k8s.io/deployment-name"
	// MachinePoolNameLabel holds the name of the MachinePool of a Machine.
	MachinePoolNameLabel = "cluster.x-k8s.io/pool-name"
	// MachineControlPlaneNameLabel holds the name of the control plane of a Machine.
	MachineControlPlaneNameLabel = "cluster.x-k8s.io/control-plane-name"
	// PreDrainDeleteHookAnnotationPrefix is the prefix of annotations that hold back a
	// deletion before the Node is drained.
	PreDrainDeleteHookAnnotationPrefix = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
	// PreTerminateDeleteHookAnnotationPrefix is the prefix of annotations that block a deletion
	// before the infrastructure is deleted.
	PreTerminateDeleteHookAnnotationPrefix = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
	// MachineCertificatesExpiryDateAnnotation holds, in RFC 3339, when the
	// machine's certificates expire.
	MachineCertificatesExpiryDateAnnotation = "machine.cluster.x-k8s.io/certificates-expiry"
	// NodeRoleLabelPrefix is the prefix of labels that name the roles of a Node; they go
	// from Machine to Node.
	NodeRoleLabelPrefix = "node-role.kubernetes.io"
	// NodeRestrictionLabelDomain is a domain of labels that go from Machine to Node.
	NodeRestrictionLabelDomain = "node-restriction.kubernetes.io"
	// ManagedNodeLabelDomain is a domain of labels that go from Machine to Node.
	ManagedNodeLabelDomain = "node.cluster.x-k8s.io"
	// ManagedNodeAnnotationDomain is a domain of annotations that go from Machine to Node.
	ManagedNodeAnnotationDomain = "node.cluster.x-k8s.io"
	// PendingAcknowledgeMoveAnnotation marks a Machine that was moved to a MachineSet and that the
	// MachineDeployment does not count there yet.
	PendingAcknowledgeMoveAnnotation = "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move"
	// UpdateInProgressAnnotation marks a Machine that is being updated in place.
	UpdateInProgressAnnotation = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
)

// IsDefined reports whether the Node is known.
func (r *MachineNodeReference) IsDefined() bool { return r != nil && r.Name != "" }

// SetTypedPhase sets the phase.
func (s *MachineStatus) SetTypedPhase(p MachinePhase) { s.Phase = string(p) }

// GetTypedPhase returns the phase, MachinePhaseUnknown when it is none of those known.
func (s *MachineStatus) GetTypedPhase() MachinePhase {
	switch p := MachinePhase(s.Phase); p {
	case MachinePhasePending, MachinePhaseProvisioning, MachinePhaseProvisioned, MachinePhaseRunning,
		MachinePhaseUpdating, MachinePhaseDeleting, MachinePhaseDeleted, MachinePhaseFailed:
		return p
	default:
		return MachinePhaseUnknown
	}
}

// MachineSpec is the desired state of a Machine.
type MachineSpec struct {
	// clusterName is the Cluster that the Machine belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// bootstrap defines the source of the data that turns an infrastructure machine into a Node.
	// +required
	Bootstrap Bootstrap `json:"bootstrap,omitempty,omitzero"`

	// infrastructureRef refers to the provider's object for the host.
	// +required
	InfrastructureRef ContractVersionedObjectReference `json:"infrastructureRef,omitempty,omitzero"`

	// version of Kubernetes on the machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// providerID is what the infrastructure calls the host; its Node has the same. Set by the Machine
	// controller.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// failureDomain is the failure domain of the machine; one of those in the Cluster's status.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// minReadySeconds is how long the Machine must be ready to count as available. 0 when left out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// readinessGates are further conditions that must be good for the Machine to be ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// deletion defines how long each step of a deletion may take.
	// +optional
	Deletion MachineDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints are the taints that the Machine sets on its Node.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []MachineTaint `json:"taints,omitempty"`
}

// MachineDeletionSpec defines how long each step of a deletion may take.
// +kubebuilder:validation:MinProperties=1
type MachineDeletionSpec struct {
	// nodeDrainTimeoutSeconds bounds draining the Node. 0 or nothing: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDrainTimeoutSeconds *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`

	// nodeVolumeDetachTimeoutSeconds bounds the wait for volumes to detach. 0 or nothing: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`

	// nodeDeletionTimeoutSeconds bounds the attempts to delete the Node. 0: no bound; nothing: 10
	// seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDeletionTimeoutSeconds *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// Bootstrap defines the source of bootstrap data: a config object that generates it, or a Secret
// that contains it.
type Bootstrap struct {
	// configRef refers to the bootstrap provider's object.
	// +optional
	ConfigRef ContractVersionedObjectReference `json:"configRef,omitempty,omitzero"`

	// dataSecretName is the Secret with the data; set by the user, or by the Machine controller from
	// the config object. Empty means that no data is needed.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`
}

// MachineStatus is the observed state of a Machine.
// +kubebuilder:validation:MinProperties=1
type MachineStatus struct {
	// conditions summarize the state; their types are the constants Machine...Condition.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; its fields never change back.
	// +optional
	Initialization MachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// nodeRef is the Node of the machine.
	// +optional
	NodeRef MachineNodeReference `json:"nodeRef,omitempty,omitzero"`

	// nodeInfo is the system information that the Node reports.
	// +optional
	NodeInfo *corev1.NodeSystemInfo `json:"nodeInfo,omitempty"`

	// lastUpdated is when the phase changed last.
	// +optional
	LastUpdated metav1.Time `json:"lastUpdated,omitempty,omitzero"`

	// addresses of the machine, from its infrastructure.
	// +optional
	Addresses MachineAddresses `json:"addresses,omitempty"`

	// failureDomain that the machine is in, from its infrastructure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Running;Updating;Deleting;Deleted;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// certificatesExpiryDate is when the machine's certificates expire; known for control plane
	// machines only.
	// +optional
	CertificatesExpiryDate metav1.Time `json:"certificatesExpiryDate,omitempty,omitzero"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deletion records when the steps of a deletion started.
	// +optional
	Deletion *MachineDeletionStatus `json:"deletion,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *MachineDeprecatedStatus `json:"deprecated,omitempty"`
}

// MachineNodeReference refers to a Node in the workload cluster.
type MachineNodeReference struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// MachineInitializationStatus reports the progress of the first provisioning of a Machine.
// +kubebuilder:validation:MinProperties=1
type MachineInitializationStatus struct {
	// infrastructureProvisioned is true once the provider has reported that the infrastructure
	// machine is provisioned.
	// +optional
	InfrastructureProvisioned *bool `json:"infrastructureProvisioned,omitempty"`

	// bootstrapDataSecretCreated is true once the Secret with the bootstrap data exists.
	// +optional
	BootstrapDataSecretCreated *bool `json:"bootstrapDataSecretCreated,omitempty"`
}

// MachineDeletionStatus records when the steps of a deletion started. Timeouts count from here.
type MachineDeletionStatus struct {
	// nodeDrainStartTime is when draining started.
	// +optional
	NodeDrainStartTime metav1.Time `json:"nodeDrainStartTime,omitempty,omitzero"`

	// waitForNodeVolumeDetachStartTime is when the wait for volumes started.
	// +optional
	WaitForNodeVolumeDetachStartTime metav1.Time `json:"waitForNodeVolumeDetachStartTime,omitempty,omitzero"`

	// waitForPreDrainHookStartTime is when the wait for pre-drain hooks started.
	// +optional
	WaitForPreDrainHookStartTime metav1.Time `json:"waitForPreDrainHookStartTime,omitempty,omitzero"`

	// waitForPreTerminateHookStartTime is when the wait for pre-terminate hooks started.
	// +optional
	WaitForPreTerminateHookStartTime metav1.Time `json:"waitForPreTerminateHookStartTime,omitempty,omitzero"`
}

// MachineDeprecatedStatus holds what only older versions of the API show.
type MachineDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *MachineV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// MachineV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type MachineV1Beta1DeprecatedStatus struct {
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
}

// Machine is one host of a workload cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machines,shortName=ma,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Node Name",type=string,JSONPath=".status.nodeRef.name"
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=".spec.providerID",priority=10
// +kubebuilder:printcolumn:name="Failure domain",type=string,JSONPath=".status.failureDomain"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Up-to-date",type=string,JSONPath=`.status.conditions[?(@.type=="UpToDate")].status`
// +kubebuilder:printcolumn:name="Internal-IP",type=string,JSONPath=`.status.addresses[?(@.type=="InternalIP")].address`,priority=10
// +kubebuilder:printcolumn:name="External-IP",type=string,JSONPath=`.status.addresses[?(@.type=="ExternalIP")].address`,priority=10
// +kubebuilder:printcolumn:name="OS-Image",type=string,JSONPath=".status.nodeInfo.osImage",priority=10
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version"
type Machine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec MachineSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status MachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Machine.
func (m *Machine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the Machine.
func (m *Machine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Machine `json:"items"`
}
