// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// KubeadmControlPlaneRolloutStrategyType is how machines are replaced.
// +kubebuilder:validation:Enum=RollingUpdate
type KubeadmControlPlaneRolloutStrategyType string

// RollingUpdateStrategyType replaces machines one at a time.
const RollingUpdateStrategyType KubeadmControlPlaneRolloutStrategyType = "RollingUpdate"

const (
	// KubeadmControlPlaneFinalizer retains a control plane until its machines are deleted.
	KubeadmControlPlaneFinalizer = "kubeadm.controlplane.cluster.x-k8s.io"

	// SkipCoreDNSAnnotation on a control plane excludes CoreDNS from management.
	SkipCoreDNSAnnotation = "controlplane.cluster.x-k8s.io/skip-coredns"

	// SkipKubeProxyAnnotation on a control plane excludes kube-proxy from management.
	SkipKubeProxyAnnotation = "controlplane.cluster.x-k8s.io/skip-kube-proxy"

	// AllowDowngradeAnnotation on a control plane lets spec.version become lower:
	// to the version that is its value, so that it does not hold for a later
	// mistake. etcd's data and the objects of the API may be of the newer version.
	AllowDowngradeAnnotation = "capstan.dev/allow-downgrade"

	// RemediationInProgressAnnotation on a control plane records a machine that was deleted in
	// order to replace it; the value is JSON with machine, timestamp and retryCount.
	RemediationInProgressAnnotation = "controlplane.cluster.x-k8s.io/remediation-in-progress"

	// RemediationForAnnotation on a machine records, in the same form, which machine it replaces.
	RemediationForAnnotation = "controlplane.cluster.x-k8s.io/remediation-for"

	// PreTerminateHookCleanupAnnotation on a machine retains its infrastructure until its etcd
	// member is removed.
	PreTerminateHookCleanupAnnotation = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/kcp-cleanup"

	// DefaultMinHealthyPeriodSeconds is how long a replacement must stay healthy before a new
	// failure counts as unrelated, unless the spec has another value.
	DefaultMinHealthyPeriodSeconds = int32(60 * 60)
)

// KubeadmControlPlaneSpec is the desired state of a control plane.
type KubeadmControlPlaneSpec struct {
	// replicas is the desired number of machines; 1 when it is not set. An
	// odd number, unless etcd is external.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// version of Kubernetes. A change replaces all machines. A lower one is refused
	// unless the annotation capstan.dev/allow-downgrade names it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// machineTemplate is the template of machines.
	// +required
	MachineTemplate KubeadmControlPlaneMachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	// kubeadmConfigSpec is the bootstrap config of each machine.
	// +optional
	KubeadmConfigSpec bootstrapv1.KubeadmConfigSpec `json:"kubeadmConfigSpec,omitempty,omitzero"`

	// rollout defines when and how machines are replaced.
	// +optional
	Rollout KubeadmControlPlaneRolloutSpec `json:"rollout,omitempty,omitzero"`

	// remediation defines how unhealthy machines are replaced.
	// +optional
	Remediation KubeadmControlPlaneRemediationSpec `json:"remediation,omitempty,omitzero"`

	// machineNaming defines how machines are named.
	// +optional
	MachineNaming MachineNamingSpec `json:"machineNaming,omitempty,omitzero"`
}

// KubeadmControlPlaneMachineTemplate is the template of machines.
type KubeadmControlPlaneMachineTemplate struct {
	// metadata has labels and annotations for the machines. They follow a
	// change without a replacement.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what else the machines have.
	// +required
	Spec KubeadmControlPlaneMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// KubeadmControlPlaneMachineTemplateSpec is what the machines have.
type KubeadmControlPlaneMachineTemplateSpec struct {
	// infrastructureRef names the template of the machines' infrastructure. A
	// change replaces all machines.
	// +required
	InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef,omitempty,omitzero"`

	// readinessGates are further conditions that a machine needs to be Ready.
	// They follow a change without a replacement.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []clusterv1.MachineReadinessGate `json:"readinessGates,omitempty"`

	// deletion limits the steps of a machine's deletion. It follows a change
	// without a replacement.
	// +optional
	Deletion KubeadmControlPlaneMachineTemplateDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints of the machines' Nodes. They follow a change without a replacement.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`
}

// KubeadmControlPlaneMachineTemplateDeletionSpec limits the steps of a
// machine's deletion. 0 and not set mean no limit, except where noted.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneMachineTemplateDeletionSpec struct {
	// nodeDrainTimeoutSeconds is how long to drain the Node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDrainTimeoutSeconds *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`

	// nodeVolumeDetachTimeoutSeconds is how long to wait for volumes to be
	// detached from the Node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`

	// nodeDeletionTimeoutSeconds is how long to try to delete the Node; 10 when
	// it is not set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDeletionTimeoutSeconds *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// KubeadmControlPlaneRolloutSpec defines when and how machines are replaced.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneRolloutSpec struct {
	// before replaces machines ahead of an event.
	// +optional
	Before KubeadmControlPlaneRolloutBeforeSpec `json:"before,omitempty,omitzero"`

	// after is a time. Once it has passed, machines that were created before it are replaced.
	// +optional
	After metav1.Time `json:"after,omitempty,omitzero"`

	// strategy is how machines are replaced.
	// +optional
	Strategy KubeadmControlPlaneRolloutStrategy `json:"strategy,omitempty,omitzero"`
}

// KubeadmControlPlaneRolloutBeforeSpec names events ahead of which machines are
// replaced.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneRolloutBeforeSpec struct {
	// certificatesExpiryDays is how many days before the end of its
	// certificates a machine is replaced.
	// +optional
	// +kubebuilder:validation:Minimum=7
	CertificatesExpiryDays int32 `json:"certificatesExpiryDays,omitempty"`
}

// KubeadmControlPlaneRolloutStrategy is how machines are replaced.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneRolloutStrategy struct {
	// type of the strategy.
	// +required
	Type KubeadmControlPlaneRolloutStrategyType `json:"type,omitempty"`

	// rollingUpdate is for the type RollingUpdate.
	// +optional
	RollingUpdate KubeadmControlPlaneRolloutStrategyRollingUpdate `json:"rollingUpdate,omitempty,omitzero"`
}

// KubeadmControlPlaneRolloutStrategyRollingUpdate is for the type RollingUpdate.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneRolloutStrategyRollingUpdate struct {
	// maxSurge is how many machines there may be beyond replicas: 1, as when it
	// is not set, or 0 with at least 3 replicas.
	// +optional
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// KubeadmControlPlaneRemediationSpec defines how unhealthy machines are replaced.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneRemediationSpec struct {
	// maxRetry is how often a replacement that fails too is replaced in its
	// turn; without an end when it is not set.
	// +optional
	MaxRetry *int32 `json:"maxRetry,omitempty"`

	// retryPeriodSeconds is how long to wait between such attempts; 0 when it
	// is not set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetryPeriodSeconds *int32 `json:"retryPeriodSeconds,omitempty"`

	// minHealthyPeriodSeconds is how long a replacement must stay healthy
	// before a new failure starts the count again; 3600 when it is not set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinHealthyPeriodSeconds *int32 `json:"minHealthyPeriodSeconds,omitempty"`
}

// MachineNamingSpec defines how machines are named.
// +kubebuilder:validation:MinProperties=1
type MachineNamingSpec struct {
	// template is a Go template with .cluster.name, .kubeadmControlPlane.name
	// and .random, which it must contain. It gives "{{ .kubeadmControlPlane.name
	// }}-{{ .random }}" when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// KubeadmControlPlane is a control plane of machines that kubeadm sets up.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanes,shortName=kcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the control plane belongs to"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether the control plane can be used"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",description="Machines wanted"
// +kubebuilder:printcolumn:name="Current",type="integer",JSONPath=".status.replicas",description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type="integer",JSONPath=".status.readyReplicas",description="Machines that are Ready"
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=".status.availableReplicas",description="Machines that are Available"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=".status.upToDateReplicas",description="Machines that are as the spec wants them"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Whether reconciliation is paused",priority=10
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=".status.initialization.controlPlaneInitialized",description="Whether the API server has answered once"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version",description="Version of Kubernetes wanted"
type KubeadmControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec KubeadmControlPlaneSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status KubeadmControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the control plane.
func (c *KubeadmControlPlane) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the control plane.
func (c *KubeadmControlPlane) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// KubeadmControlPlaneList is a list of KubeadmControlPlanes.
// +kubebuilder:object:root=true
type KubeadmControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the control planes.
	Items []KubeadmControlPlane `json:"items"`
}
