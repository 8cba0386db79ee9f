// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// MachineDeploymentTopologyFinalizer lets the topology controller delete the
	// templates of a MachineDeployment after it.
	MachineDeploymentTopologyFinalizer = "machinedeployment.topology.cluster.x-k8s.io"
	// MachineDeploymentFinalizer retains a MachineDeployment until its MachineSets are deleted.
	MachineDeploymentFinalizer = "cluster.x-k8s.io/machinedeployment"
	// RevisionAnnotation numbers the MachineSets of a MachineDeployment in the
	// order in which they were current. Kubernetes Deployments have the same idea.
	RevisionAnnotation = "machinedeployment.clusters.x-k8s.io/revision"
	// DesiredReplicasAnnotation on a MachineSet is its MachineDeployment's
	// spec.replicas when the MachineSet was last scaled.
	DesiredReplicasAnnotation = "machinedeployment.clusters.x-k8s.io/desired-replicas"
	// MaxReplicasAnnotation on a MachineSet is the most Machines that its
	// MachineDeployment may have, surge included.
	MaxReplicasAnnotation = "machinedeployment.clusters.x-k8s.io/max-replicas"
	// MachineDeploymentUniqueLabel distinguishes the MachineSets of a MachineDeployment, and their
	// Machines.
	MachineDeploymentUniqueLabel = "machine-template-hash"
)

// MachineDeploymentRolloutStrategyType defines how Machines are replaced.
type MachineDeploymentRolloutStrategyType string

const (
	// RollingUpdateMachineDeploymentStrategyType replaces Machines a few at a time.
	RollingUpdateMachineDeploymentStrategyType MachineDeploymentRolloutStrategyType = "RollingUpdate"
	// OnDeleteMachineDeploymentStrategyType replaces a Machine when a user deletes it.
	OnDeleteMachineDeploymentStrategyType MachineDeploymentRolloutStrategyType = "OnDelete"
)

// MachineDeploymentPhase is one word for what a MachineDeployment does.
type MachineDeploymentPhase string

// Phases of a MachineDeployment.
const (
	MachineDeploymentPhaseScalingUp   MachineDeploymentPhase = "ScalingUp"
	MachineDeploymentPhaseScalingDown MachineDeploymentPhase = "ScalingDown"
	MachineDeploymentPhaseRunning     MachineDeploymentPhase = "Running"
	MachineDeploymentPhaseFailed      MachineDeploymentPhase = "Failed"
	MachineDeploymentPhaseUnknown     MachineDeploymentPhase = "Unknown"
)

// SetTypedPhase sets the phase.
func (s *MachineDeploymentStatus) SetTypedPhase(p MachineDeploymentPhase) { s.Phase = string(p) }

// GetTypedPhase returns the phase, MachineDeploymentPhaseUnknown when it is none of those known.
func (s *MachineDeploymentStatus) GetTypedPhase() MachineDeploymentPhase {
	switch p := MachineDeploymentPhase(s.Phase); p {
	case MachineDeploymentPhaseScalingUp, MachineDeploymentPhaseScalingDown, MachineDeploymentPhaseRunning, MachineDeploymentPhaseFailed:
		return p
	default:
		return MachineDeploymentPhaseUnknown
	}
}

// MachineDeploymentSpec is the desired state of a MachineDeployment.
type MachineDeploymentSpec struct {
	// clusterName is the Cluster that the MachineDeployment belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// replicas is the desired number of Machines. Admission fills it in, from the autoscaler's
	// annotations if they are set.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// rollout defines how and when Machines are replaced.
	// +optional
	Rollout MachineDeploymentRolloutSpec `json:"rollout,omitempty,omitzero"`

	// selector picks MachineSets and Machines; it must match the labels of the template.
	// +required
	Selector metav1.LabelSelector `json:"selector,omitempty,omitzero"`

	// template is the template of Machines.
	// +required
	Template MachineTemplateSpec `json:"template,omitempty,omitzero"`

	// machineNaming defines how Machines are named.
	// +optional
	MachineNaming MachineNamingSpec `json:"machineNaming,omitempty,omitzero"`

	// remediation bounds the replacement of unhealthy Machines.
	// +optional
	Remediation MachineDeploymentRemediationSpec `json:"remediation,omitempty,omitzero"`

	// deletion defines which Machines are deleted first.
	// +optional
	Deletion MachineDeploymentDeletionSpec `json:"deletion,omitempty,omitzero"`

	// paused stops rollouts; scaling continues.
	// +optional
	Paused *bool `json:"paused,omitempty"`
}

// MachineDeploymentRolloutSpec defines how and when Machines are replaced.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentRolloutSpec struct {
	// after is a time. Once it has passed, Machines that were created before it are replaced.
	// +optional
	After metav1.Time `json:"after,omitempty,omitzero"`

	// strategy defines how Machines are replaced.
	// +optional
	Strategy MachineDeploymentRolloutStrategy `json:"strategy,omitempty,omitzero"`
}

// MachineDeploymentRolloutStrategy defines how Machines are replaced.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentRolloutStrategy struct {
	// type of the strategy. RollingUpdate when no strategy is set.
	// +required
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	Type MachineDeploymentRolloutStrategyType `json:"type,omitempty"`

	// rollingUpdate sets the pace of type RollingUpdate.
	// +optional
	RollingUpdate MachineDeploymentRolloutStrategyRollingUpdate `json:"rollingUpdate,omitempty,omitzero"`
}

// MachineDeploymentRolloutStrategyRollingUpdate sets the pace of a rolling update.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentRolloutStrategyRollingUpdate struct {
	// maxUnavailable is how many Machines, as a number or a percentage rounded down, may be missing
	// from spec.replicas meanwhile. 0 when left out.
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxSurge is how many Machines, as a number or a percentage rounded up, there may be above
	// spec.replicas meanwhile. 1 when left out.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// MachineDeploymentRemediationSpec bounds the replacement of unhealthy Machines.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentRemediationSpec struct {
	// maxInFlight is the maximum number of concurrent replacements, as a number or a percentage of
	// spec.replicas rounded up. No limit when left out.
	// +optional
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
}

// MachineNamingSpec defines how Machines are named.
// +kubebuilder:validation:MinProperties=1
type MachineNamingSpec struct {
	// template is a Go template for the name, with .cluster.name, .machineSet.name and .random; it
	// must use .random. `{{ .machineSet.name }}-{{ .random }}` when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// MachineDeploymentDeletionSpec defines which Machines are deleted first.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentDeletionSpec struct {
	// order in which healthy Machines are deleted. Random when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	Order MachineSetDeletionOrder `json:"order,omitempty"`
}

// MachineDeploymentStatus is the observed state of a MachineDeployment.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentStatus struct {
	// conditions summarize the state; their types are the constants MachineDeployment...Condition.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

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

	// upToDateReplicas is how many Machines match the template.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// versions counts Machines by version of Kubernetes.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []StatusVersion `json:"versions,omitempty"`

	// phase is one word for people; programs read conditions.
	// +optional
	// +kubebuilder:validation:Enum=ScalingUp;ScalingDown;Running;Failed;Unknown
	Phase string `json:"phase,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *MachineDeploymentDeprecatedStatus `json:"deprecated,omitempty"`
}

// MachineDeploymentDeprecatedStatus holds what only older versions of the API show.
type MachineDeploymentDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *MachineDeploymentV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// MachineDeploymentV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type MachineDeploymentV1Beta1DeprecatedStatus struct {
	// conditions as v1beta1 had them.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`

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
}

// MachineDeployment keeps a number of like Machines and replaces them when their template changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=machinedeployments,shortName=md,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=".status.upToDateReplicas"
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=".status.phase"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.template.spec.version"
type MachineDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec MachineDeploymentSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status MachineDeploymentStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the MachineDeployment.
func (m *MachineDeployment) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the MachineDeployment.
func (m *MachineDeployment) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
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
