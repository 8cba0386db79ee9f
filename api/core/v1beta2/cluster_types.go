// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// ClusterFinalizer retains a Cluster until everything that belongs to it is deleted.
	ClusterFinalizer = "cluster.cluster.x-k8s.io"
	// ClusterKind is the kind of a Cluster.
	ClusterKind = "Cluster"
)

// ClusterPhase is one word for the phase of a Cluster's lifecycle.
type ClusterPhase string

// Phases of a Cluster.
const (
	ClusterPhasePending      ClusterPhase = "Pending"
	ClusterPhaseProvisioning ClusterPhase = "Provisioning"
	ClusterPhaseProvisioned  ClusterPhase = "Provisioned"
	ClusterPhaseDeleting     ClusterPhase = "Deleting"
	ClusterPhaseFailed       ClusterPhase = "Failed"
	ClusterPhaseUnknown      ClusterPhase = "Unknown"
)

// SetTypedPhase sets the phase.
func (s *ClusterStatus) SetTypedPhase(p ClusterPhase) { s.Phase = string(p) }

// GetTypedPhase returns the phase, ClusterPhaseUnknown when it is none of those known.
func (s *ClusterStatus) GetTypedPhase() ClusterPhase {
	switch p := ClusterPhase(s.Phase); p {
	case ClusterPhasePending, ClusterPhaseProvisioning, ClusterPhaseProvisioned, ClusterPhaseDeleting, ClusterPhaseFailed:
		return p
	default:
		return ClusterPhaseUnknown
	}
}

// GetClassKey returns the key of the ClusterClass, with the Cluster's
// namespace where the reference has none; empty without a topology.
func (c *Cluster) GetClassKey() types.NamespacedName {
	if !c.Spec.Topology.IsDefined() {
		return types.NamespacedName{}
	}
	key := types.NamespacedName{Namespace: c.Spec.Topology.ClassRef.Namespace, Name: c.Spec.Topology.ClassRef.Name}
	if key.Namespace == "" {
		key.Namespace = c.Namespace
	}
	return key
}

// ClusterSpec is the desired state of a Cluster.
// +kubebuilder:validation:MinProperties=1
type ClusterSpec struct {
	// paused stops all controllers from acting on the Cluster and on what belongs to it.
	// +optional
	Paused *bool `json:"paused,omitempty"`

	// clusterNetwork sets the addresses inside the cluster.
	// +optional
	ClusterNetwork ClusterNetwork `json:"clusterNetwork,omitempty,omitzero"`

	// controlPlaneEndpoint is where the API server answers. Set by the user, or by the Cluster
	// controller from the infrastructure or control plane object.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// controlPlaneRef refers to the provider's object for the control plane; without it, the
	// control plane machines are created individually.
	// +optional
	ControlPlaneRef ContractVersionedObjectReference `json:"controlPlaneRef,omitempty,omitzero"`

	// infrastructureRef refers to the provider's object for what the machines share, such as a
	// network.
	// +optional
	InfrastructureRef ContractVersionedObjectReference `json:"infrastructureRef,omitempty,omitzero"`

	// topology describes the whole cluster by a ClusterClass; the other fields are then derived.
	// +optional
	Topology Topology `json:"topology,omitempty,omitzero"`

	// availabilityGates are further conditions that must be good for the Cluster to be available.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AvailabilityGates []ClusterAvailabilityGate `json:"availabilityGates,omitempty"`
}

// ClusterAvailabilityGate names an additional condition of the Cluster that must be good for it to
// be available.
type ClusterAvailabilityGate struct {
	// conditionType is the type of the condition; a missing condition counts as unknown.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	ConditionType string `json:"conditionType,omitempty"`

	// polarity defines which status is good. Positive when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=Positive;Negative
	Polarity ConditionPolarity `json:"polarity,omitempty"`
}

// ClusterNetwork sets the addresses inside a cluster.
// +kubebuilder:validation:MinProperties=1
type ClusterNetwork struct {
	// apiServerPort is the port that API servers listen on. 6443 when left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	APIServerPort int32 `json:"apiServerPort,omitempty"`

	// services are the ranges for Services.
	// +optional
	Services NetworkRanges `json:"services,omitempty,omitzero"`

	// pods are the ranges for Pods.
	// +optional
	Pods NetworkRanges `json:"pods,omitempty,omitzero"`

	// serviceDomain is the DNS domain of Services.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceDomain string `json:"serviceDomain,omitempty"`
}

// NetworkRanges is a list of address ranges.
type NetworkRanges struct {
	// cidrBlocks are the ranges, such as 10.0.0.0/16.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=43
	CIDRBlocks []string `json:"cidrBlocks,omitempty"`
}

// ClusterStatus is the observed state of a Cluster.
// +kubebuilder:validation:MinProperties=1
type ClusterStatus struct {
	// conditions summarize the state; their types are the constants Cluster...Condition.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; its fields never change back.
	// +optional
	Initialization ClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// controlPlane counts the control plane machines.
	// +optional
	ControlPlane *ClusterControlPlaneStatus `json:"controlPlane,omitempty"`

	// workers counts the worker machines.
	// +optional
	Workers *WorkersStatus `json:"workers,omitempty"`

	// failureDomains that the infrastructure offers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []FailureDomain `json:"failureDomains,omitempty"`

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Deleting;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *ClusterDeprecatedStatus `json:"deprecated,omitempty"`
}

// ClusterInitializationStatus reports the progress of the first provisioning of a Cluster.
// +kubebuilder:validation:MinProperties=1
type ClusterInitializationStatus struct {
	// infrastructureProvisioned is true once the provider has reported that the infrastructure that
	// the machines share is provisioned.
	// +optional
	InfrastructureProvisioned *bool `json:"infrastructureProvisioned,omitempty"`

	// controlPlaneInitialized is true once the API server can take requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// ClusterControlPlaneStatus counts the control plane machines of a Cluster.
type ClusterControlPlaneStatus struct {
	// desiredReplicas is the desired number of machines.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// replicas is how many machines there are.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// upToDateReplicas is how many machines match the desired state.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// readyReplicas is how many machines are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines are available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// versions counts machines by version of Kubernetes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Versions []StatusVersion `json:"versions,omitempty"`

	// upgradePlan are the versions that an upgrade under way has still to go through.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	UpgradePlan []StatusUpgradePlanVersion `json:"upgradePlan,omitempty"`
}

// WorkersStatus counts the worker machines of a Cluster.
type WorkersStatus struct {
	// desiredReplicas is the desired number of machines.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`

	// replicas is how many machines there are.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// upToDateReplicas is how many machines match the desired state.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// readyReplicas is how many machines are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines are available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// versions counts machines by version of Kubernetes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Versions []StatusVersion `json:"versions,omitempty"`

	// upgradePlan are the versions that an upgrade under way has still to go through.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	UpgradePlan []StatusUpgradePlanVersion `json:"upgradePlan,omitempty"`
}

// ClusterDeprecatedStatus holds what only older versions of the API show.
type ClusterDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *ClusterV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// ClusterV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type ClusterV1Beta1DeprecatedStatus struct {
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

// Cluster is a Kubernetes cluster, and the root of all that belongs to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusters,shortName=cl,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="ClusterClass",type=string,JSONPath=".spec.topology.classRef.name"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="CP Desired",type=integer,JSONPath=".status.controlPlane.desiredReplicas"
// +kubebuilder:printcolumn:name="CP Current",type=integer,JSONPath=".status.controlPlane.replicas",priority=10
// +kubebuilder:printcolumn:name="CP Ready",type=integer,JSONPath=".status.controlPlane.readyReplicas",priority=10
// +kubebuilder:printcolumn:name="CP Available",type=integer,JSONPath=".status.controlPlane.availableReplicas"
// +kubebuilder:printcolumn:name="CP Up-to-date",type=integer,JSONPath=".status.controlPlane.upToDateReplicas"
// +kubebuilder:printcolumn:name="W Desired",type=integer,JSONPath=".status.workers.desiredReplicas"
// +kubebuilder:printcolumn:name="W Current",type=integer,JSONPath=".status.workers.replicas",priority=10
// +kubebuilder:printcolumn:name="W Ready",type=integer,JSONPath=".status.workers.readyReplicas",priority=10
// +kubebuilder:printcolumn:name="W Available",type=integer,JSONPath=".status.workers.availableReplicas"
// +kubebuilder:printcolumn:name="W Up-to-date",type=integer,JSONPath=".status.workers.upToDateReplicas"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.topology.version"
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status ClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the Cluster.
func (c *Cluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the Cluster.
func (c *Cluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Cluster `json:"items"`
}
