// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MachineDeploymentSpec is the desired state of a MachineDeployment.
type MachineDeploymentSpec struct {
	// clusterName is the Cluster that the MachineDeployment belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName"`

	// replicas is the desired number of Machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// rolloutAfter is a time. Once it has passed, Machines that were created before it are
	// replaced.
	// +optional
	RolloutAfter *metav1.Time `json:"rolloutAfter,omitempty"`

	// selector picks MachineSets and Machines; it must match the labels of the template.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	// template is the template of Machines.
	// +required
	Template MachineTemplateSpec `json:"template"`

	// strategy defines how Machines are replaced and which are deleted first.
	// +optional
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`

	// machineNamingStrategy defines how Machines are named.
	// +optional
	MachineNamingStrategy *MachineNamingStrategy `json:"machineNamingStrategy,omitempty"`

	// minReadySeconds is how long a Machine must be ready to count as available.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// revisionHistoryLimit has no effect.
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// paused stops rollouts; scaling continues.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// progressDeadlineSeconds has no effect.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
}

// MachineDeploymentStrategy defines how Machines are replaced.
type MachineDeploymentStrategy struct {
	// type of the strategy. RollingUpdate when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	Type clusterv1.MachineDeploymentRolloutStrategyType `json:"type,omitempty"`

	// rollingUpdate sets the pace of type RollingUpdate.
	// +optional
	RollingUpdate *MachineRollingUpdateDeployment `json:"rollingUpdate,omitempty"`

	// remediation bounds the replacement of unhealthy Machines.
	// +optional
	Remediation *RemediationStrategy `json:"remediation,omitempty"`
}

// MachineRollingUpdateDeployment sets the pace of a rolling update.
type MachineRollingUpdateDeployment struct {
	// maxUnavailable is how many Machines, as a number or a percentage rounded down, may be missing
	// from spec.replicas meanwhile. 0 when left out.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many Machines, as a number or a percentage rounded up, there may be above
	// spec.replicas meanwhile. 1 when left out.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// deletePolicy is the order in which healthy Machines are deleted.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	DeletePolicy *string `json:"deletePolicy,omitempty"`
}

// RemediationStrategy bounds the replacement of unhealthy Machines.
type RemediationStrategy struct {
	// maxInFlight is the maximum number of concurrent replacements, as a number or a percentage of
	// spec.replicas rounded up. No limit when left out.
	// +optional
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
}

// MachineDeploymentStatus is the observed state of a MachineDeployment.
type MachineDeploymentStatus struct {
	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// selector is spec.selector as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is how many Machines there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// updatedReplicas is how many Machines match the template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// readyReplicas is how many Machines are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is how many Machines are available.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`

	// unavailableReplicas is how many available Machines are missing.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`

	// versions counts Machines by version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=ScalingUp;ScalingDown;Running;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *ReplicasV1Beta2Status `json:"v1beta2,omitempty"`
}

// MachineDeployment keeps a number of like Machines and replaces them when their template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=machinedeployments,shortName=md,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",priority=10
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=".status.updatedReplicas"
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=".status.unavailableReplicas"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachineDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec MachineDeploymentSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status MachineDeploymentStatus `json:"status,omitempty"`
}

// MachineDeploymentList is a list of MachineDeployments.
//
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []MachineDeployment `json:"items"`
}
