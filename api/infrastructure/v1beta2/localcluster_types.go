// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// LocalClusterFinalizer retains a LocalCluster until its network and endpoint are deleted. The
// LocalCluster controller sets and removes it.
const LocalClusterFinalizer = "infrastructure.capstan.dev/localcluster"

// ClusterFault is a fault of a simulated cluster.
// +kubebuilder:validation:Enum=APIServerHangs;APIServerRefuses;APIServerSlow;WatchesLost;MachinesNeverBoot;ClockAhead;ClockBehind
type ClusterFault string

const (
	// ClusterFaultAPIServerHangs makes the endpoint accept connections and
	// never answer.
	ClusterFaultAPIServerHangs ClusterFault = "APIServerHangs"

	// ClusterFaultAPIServerRefuses makes the endpoint refuse connections.
	ClusterFaultAPIServerRefuses ClusterFault = "APIServerRefuses"

	// ClusterFaultAPIServerSlow delays each response of the API server by two seconds.
	ClusterFaultAPIServerSlow ClusterFault = "APIServerSlow"

	// ClusterFaultWatchesLost ends each watch as soon as it has started.
	ClusterFaultWatchesLost ClusterFault = "WatchesLost"

	// ClusterFaultMachinesNeverBoot prevents machines that have not booted yet from booting.
	ClusterFaultMachinesNeverBoot ClusterFault = "MachinesNeverBoot"

	// ClusterFaultClockAhead sets the clock of the API server an hour ahead:
	// tokens that are good have expired for it.
	ClusterFaultClockAhead ClusterFault = "ClockAhead"

	// ClusterFaultClockBehind sets the clock of the API server back by an hour:
	// certificates that are new are not valid yet for it.
	ClusterFaultClockBehind ClusterFault = "ClockBehind"
)

// LocalClusterSpec is the desired state of a LocalCluster.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.identity) || has(self.identity) && self.identity == oldSelf.identity",message="identity cannot change: it names what is kept of the cluster on its host"
// +kubebuilder:validation:XValidation:rule="has(self.simulated) != has(self.container)",message="exactly one machine kind must be set: simulated or container"
// +kubebuilder:validation:XValidation:rule="has(self.container) == has(oldSelf.container)",message="the machine kind cannot change: delete the cluster and create another one"
type LocalClusterSpec struct {
	// controlPlaneEndpoint is where the cluster's API server is reached. Left
	// empty, the controller chooses an address and port and writes them here.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// identity is the name under which the host stores the cluster. The controller sets it together
	// with the endpoint; it moves with the object, so that a cluster that is moved to another
	// management cluster is still found. It must be unique among LocalClusters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
	Identity string `json:"identity,omitempty"`

	// failureDomains are the failure domains that the cluster offers; they are
	// reported in status unchanged.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// simulated makes the cluster one of simulated machines: its API server and etcd are in the
	// memory of the controller.
	// +optional
	Simulated *LocalClusterSimulated `json:"simulated,omitempty"`

	// container makes the cluster one of container machines: Linux namespaces of
	// this host with systemd, containerd and kubelet in them. Its endpoint is a
	// load balancer of the controller's process.
	// +optional
	Container *LocalClusterContainer `json:"container,omitempty"`
}

// LocalClusterContainer configures a cluster of container machines. It has no fields yet.
type LocalClusterContainer struct{}

// LocalClusterSimulated configures the behavior of a simulated cluster. When it is empty, the
// cluster has no faults.
type LocalClusterSimulated struct {
	// faults are active as long as they are listed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Faults []ClusterFault `json:"faults,omitempty"`
}

// LocalClusterStatus is the observed state of a LocalCluster.
type LocalClusterStatus struct {
	// conditions are the current conditions: Ready, Paused, Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; the Cluster controller reads
	// it before machines can be created.
	// +optional
	Initialization LocalClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is true together with initialization.provisioned, for clients that read the contract
	// v1beta1.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// failureReason is a one-word reason why the endpoint cannot be created until the spec changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// failureDomains are the failure domains machines can be placed in.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// LocalClusterInitializationStatus reports the progress of the first provisioning of a
// LocalCluster.
// +kubebuilder:validation:MinProperties=1
type LocalClusterInitializationStatus struct {
	// provisioned is true once the endpoint exists. It never changes back.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// LocalCluster is the infrastructure of one cluster on this host: its network
// and its control plane endpoint.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localclusters,scope=Namespaced,categories=cluster-api,shortName=lc
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Address of the API server"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the endpoint is there"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type==\"Paused\")].status",description="Whether reconciling is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status LocalClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (c *LocalCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *LocalCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// LocalClusterList is a list of LocalClusters.
// +kubebuilder:object:root=true
type LocalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalClusters.
	Items []LocalCluster `json:"items"`
}

// LocalClusterTemplateSpec is what a LocalClusterTemplate holds.
type LocalClusterTemplateSpec struct {
	// template is the content of the LocalClusters created from this template.
	// +required
	Template LocalClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalClusterTemplateResource is the content of a LocalCluster created from a template.
type LocalClusterTemplateResource struct {
	// metadata are the labels and annotations of the LocalCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the LocalCluster's spec.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.identity)",message="identity is that of one cluster: leave it out"
	Spec LocalClusterSpec `json:"spec,omitempty,omitzero"`
}

// LocalClusterTemplate is the template of the LocalClusters of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localclustertemplates,scope=Namespaced,categories=cluster-api,shortName=lct
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LocalClusterTemplateList is a list of LocalClusterTemplates.
// +kubebuilder:object:root=true
type LocalClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalClusterTemplates.
	Items []LocalClusterTemplate `json:"items"`
}
