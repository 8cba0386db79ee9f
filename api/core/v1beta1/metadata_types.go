// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ObjectMeta is the part of an object's metadata that a template may set.
type ObjectMeta struct {
	// labels are put on the object in addition to those that controllers set.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the object in addition to those that controllers set.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeTimeouts bound the steps of the deletion of a Machine.
type NodeTimeouts struct {
	// nodeDrainTimeout bounds draining the Node. 0 or nothing: no bound.
	// +optional
	NodeDrainTimeout *metav1.Duration `json:"nodeDrainTimeout,omitempty"`

	// nodeVolumeDetachTimeout bounds the wait for volumes to detach. 0 or nothing: no bound.
	// +optional
	NodeVolumeDetachTimeout *metav1.Duration `json:"nodeVolumeDetachTimeout,omitempty"`

	// nodeDeletionTimeout bounds the attempts to delete the Node. 0: no bound; nothing: 10 seconds.
	// +optional
	NodeDeletionTimeout *metav1.Duration `json:"nodeDeletionTimeout,omitempty"`
}

// MachineReadinessGate names an additional condition of the Machine that must be good for it to be
// ready.
type MachineReadinessGate struct {
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

// MachineNamingStrategy defines how Machines are named.
type MachineNamingStrategy struct {
	// template is a Go template for the name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// V1Beta2Status holds the conditions as v1beta2 has them.
type V1Beta2Status struct {
	// conditions summarize the state.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicasV1Beta2Status holds the conditions and counters as v1beta2 has them.
type ReplicasV1Beta2Status struct {
	V1Beta2Status `json:",inline"`

	// readyReplicas is how many Machines are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many Machines are available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is how many Machines match the desired state.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`
}
