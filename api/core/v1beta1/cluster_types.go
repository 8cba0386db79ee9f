// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ClusterSpec is the desired state of a Cluster.
type ClusterSpec struct {
	// paused stops all controllers from acting on the Cluster and on what belongs to it.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// clusterNetwork sets the addresses inside the cluster.
	// +optional
	ClusterNetwork *ClusterNetwork `json:"clusterNetwork,omitempty"`

	// controlPlaneEndpoint is where the API server answers.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty"`

	// controlPlaneRef refers to the provider's object for the control plane.
	// +optional
	ControlPlaneRef *corev1.ObjectReference `json:"controlPlaneRef,omitempty"`

	// infrastructureRef refers to the provider's object for what the machines share.
	// +optional
	InfrastructureRef *corev1.ObjectReference `json:"infrastructureRef,omitempty"`

	// topology describes the whole cluster by a ClusterClass; the other fields are then derived.
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// availabilityGates are further conditions that must be good for the Cluster to be available.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	AvailabilityGates []ClusterAvailabilityGate `json:"availabilityGates,omitempty"`
}

// ClusterAvailabilityGate names an additional condition of the Cluster that must be good for it
// to be available.
type ClusterAvailabilityGate struct {
	// conditionType is the type of the condition; a missing condition counts as unknown.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	ConditionType string `json:"conditionType"`

	// polarity defines which status is good. Positive when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=Positive;Negative
	Polarity clusterv1.ConditionPolarity `json:"polarity,omitempty"`
}

// APIEndpoint is where an API server answers.
type APIEndpoint struct {
	// host is a name or an address.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Host string `json:"host"`

	// port is the port that the API server listens on.
	// +optional
	Port int32 `json:"port"`
}

// ClusterNetwork sets the addresses inside a cluster.
type ClusterNetwork struct {
	// apiServerPort is the port that API servers listen on. 6443 when left out.
	// +optional
	APIServerPort *int32 `json:"apiServerPort,omitempty"`

	// services are the ranges for Services.
	// +optional
	Services *NetworkRanges `json:"services,omitempty"`

	// pods are the ranges for Pods.
	// +optional
	Pods *NetworkRanges `json:"pods,omitempty"`

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
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=43
	CIDRBlocks []string `json:"cidrBlocks"`
}

// ClusterStatus is the observed state of a Cluster.
type ClusterStatus struct {
	// failureDomains that the infrastructure offers, by name.
	// +optional
	FailureDomains map[string]FailureDomainSpec `json:"failureDomains,omitempty"`

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
	// +kubebuilder:validation:Enum=Pending;Provisioning;Provisioned;Deleting;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// infrastructureReady reports whether the infrastructure that the machines share is
	// provisioned.
	// +optional
	InfrastructureReady bool `json:"infrastructureReady"`

	// controlPlaneReady reports whether the API server can serve requests.
	// +optional
	ControlPlaneReady bool `json:"controlPlaneReady"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *ClusterV1Beta2Status `json:"v1beta2,omitempty"`
}

// ClusterV1Beta2Status holds conditions and counters as v1beta2 has them.
type ClusterV1Beta2Status struct {
	V1Beta2Status `json:",inline"`

	// controlPlane counts the control plane machines.
	// +optional
	ControlPlane *clusterv1.ClusterControlPlaneStatus `json:"controlPlane,omitempty"`

	// workers counts the worker machines.
	// +optional
	Workers *clusterv1.WorkersStatus `json:"workers,omitempty"`
}

// FailureDomainSpec is a part of the infrastructure that fails independently.
type FailureDomainSpec struct {
	// controlPlane reports whether control plane machines can be placed here.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`

	// attributes are further facts that the infrastructure provider reports.
	// +optional
	Attributes map[string]string `json:"attributes,omitempty"`
}

// Cluster is a Kubernetes cluster, and the root of all that belongs to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusters,shortName=cl,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="ClusterClass",type=string,JSONPath=".spec.topology.class"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.topology.version"
type Cluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ClusterSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

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
