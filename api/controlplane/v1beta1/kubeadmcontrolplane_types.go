// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// KubeadmControlPlaneSpec is the desired state of a control plane.
type KubeadmControlPlaneSpec struct {
	// replicas is the desired number of machines.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// version of Kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`

	// machineTemplate is the template of machines.
	// +required
	MachineTemplate KubeadmControlPlaneMachineTemplate `json:"machineTemplate"`

	// kubeadmConfigSpec is the bootstrap config of each machine.
	// +required
	KubeadmConfigSpec bootstrapv1beta1.KubeadmConfigSpec `json:"kubeadmConfigSpec"`

	KubeadmControlPlaneRollout `json:",inline"`
}

// KubeadmControlPlaneRollout defines when and how machines are replaced and named.
type KubeadmControlPlaneRollout struct {
	// rolloutBefore replaces machines ahead of an event.
	// +optional
	RolloutBefore *RolloutBefore `json:"rolloutBefore,omitempty"`

	// rolloutAfter is a time. Once it has passed, machines that were created before it are
	// replaced.
	// +optional
	RolloutAfter *metav1.Time `json:"rolloutAfter,omitempty"`

	// rolloutStrategy is how machines are replaced.
	// +optional
	// +kubebuilder:default={type: "RollingUpdate", rollingUpdate: {maxSurge: 1}}
	RolloutStrategy *RolloutStrategy `json:"rolloutStrategy,omitempty"`

	// remediationStrategy defines how unhealthy machines are replaced.
	// +optional
	RemediationStrategy *RemediationStrategy `json:"remediationStrategy,omitempty"`

	// machineNamingStrategy defines how machines are named.
	// +optional
	MachineNamingStrategy *MachineNamingStrategy `json:"machineNamingStrategy,omitempty"`
}

// KubeadmControlPlaneMachineTemplate is the template of machines.
type KubeadmControlPlaneMachineTemplate struct {
	// metadata has labels and annotations for the machines.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty"`

	// infrastructureRef names the template of the machines' infrastructure.
	// +required
	InfrastructureRef corev1.ObjectReference `json:"infrastructureRef"`

	// readinessGates are further conditions that a machine needs to be Ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []clusterv1beta1.MachineReadinessGate `json:"readinessGates,omitempty"`

	clusterv1beta1.NodeTimeouts `json:",inline"`

	// taints of the machines' Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`
}

// RolloutBefore names events ahead of which machines are replaced.
type RolloutBefore struct {
	// certificatesExpiryDays is how many days before the end of its certificates a
	// machine is replaced.
	// +optional
	CertificatesExpiryDays *int32 `json:"certificatesExpiryDays,omitempty"`
}

// RolloutStrategy is how machines are replaced.
type RolloutStrategy struct {
	// type of the strategy.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate
	Type string `json:"type,omitempty"`

	// rollingUpdate is for the type RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate is for the type RollingUpdate.
type RollingUpdate struct {
	// maxSurge is how many machines there may be beyond replicas.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// RemediationStrategy defines how unhealthy machines are replaced.
type RemediationStrategy struct {
	// maxRetry is how often a replacement that fails too is replaced in its turn.
	// +optional
	MaxRetry *int32 `json:"maxRetry,omitempty"`

	// retryPeriod is how long to wait between such attempts.
	// +optional
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`

	// minHealthyPeriod is how long a replacement must stay healthy before a new
	// failure starts the count again.
	// +optional
	MinHealthyPeriod *metav1.Duration `json:"minHealthyPeriod,omitempty"`
}

// MachineNamingStrategy defines how machines are named.
type MachineNamingStrategy struct {
	// template is a Go template for the name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// KubeadmControlPlaneStatus is the observed state of the control plane.
type KubeadmControlPlaneStatus struct {
	// selector finds the machines, as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is how many machines there are.
	// +optional
	Replicas int32 `json:"replicas"`

	// version is the lowest version of Kubernetes among the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version *string `json:"version,omitempty"`

	// versions counts the machines by their version, oldest version first.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// updatedReplicas is how many machines match the spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// readyReplicas is how many machines have a Node that is ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// unavailableReplicas is how many machines are missing from the desired number.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`

	// initialized is whether kubeadm init is seen to have finished.
	// +optional
	Initialized bool `json:"initialized"`

	// ready is whether the API server can be used.
	// +optional
	Ready bool `json:"ready"`

	// failureReason is a one-word reason for a failure that does not resolve automatically.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is a sentence for the same failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// observedGeneration is the newest generation that was reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of this version.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// lastRemediation describes the last machine that was replaced because it was
	// unhealthy.
	// +optional
	LastRemediation *LastRemediationStatus `json:"lastRemediation,omitempty"`

	// v1beta2 groups what v1beta2 has.
	// +optional
	V1Beta2 *KubeadmControlPlaneV1Beta2Status `json:"v1beta2,omitempty"`
}

// KubeadmControlPlaneV1Beta2Status groups what v1beta2 has.
type KubeadmControlPlaneV1Beta2Status struct {
	// conditions are those of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// readyReplicas is how many machines are Ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many machines are Available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is how many machines match the spec.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`
}

// LastRemediationStatus describes a machine that was replaced because it was
// unhealthy.
type LastRemediationStatus struct {
	// machine is the name of the machine that was replaced.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine"`

	// timestamp is when that was.
	// +required
	Timestamp metav1.Time `json:"timestamp"`

	// retryCount is how many replacements in a row have failed before it.
	// +required
	RetryCount int32 `json:"retryCount"`
}

// KubeadmControlPlane is a control plane of machines that kubeadm sets up.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanes,shortName=kcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the control plane belongs to"
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=".status.initialized",description="Whether the API server has answered once"
// +kubebuilder:printcolumn:name="API Server Available",type=boolean,JSONPath=".status.ready",description="Whether the API server can be used"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",description="Machines wanted",priority=10
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas",description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=".status.readyReplicas",description="Machines with a ready Node"
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=".status.updatedReplicas",description="Machines that are as the spec wants them"
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=".status.unavailableReplicas",description="Machines that are missing"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version",description="Version of Kubernetes wanted"
type KubeadmControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec KubeadmControlPlaneSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status KubeadmControlPlaneStatus `json:"status,omitempty"`
}
