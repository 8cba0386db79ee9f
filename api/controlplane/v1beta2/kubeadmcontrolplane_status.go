// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// KubeadmControlPlaneStatus is the observed state of the control plane. The
// kubeadmcontrolplane controller writes it.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneStatus struct {
	// conditions are the current conditions of the control plane.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning.
	// +optional
	Initialization KubeadmControlPlaneInitializationStatus `json:"initialization,omitempty,omitzero"`

	// selector finds the machines, as text, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is how many machines there are, deleting ones included.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is how many of them are Ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is how many of them are Available.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is how many of them match the spec.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// version is the lowest version of Kubernetes among the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// versions counts the machines by their version, oldest version first.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// observedGeneration is the newest generation that was reconciled without
	// an error.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastRemediation describes the last machine that was replaced because it
	// was unhealthy.
	// +optional
	LastRemediation LastRemediationStatus `json:"lastRemediation,omitempty,omitzero"`

	// deprecated holds what only older versions of this API had.
	// +optional
	Deprecated *KubeadmControlPlaneDeprecatedStatus `json:"deprecated,omitempty"`
}

// KubeadmControlPlaneInitializationStatus reports the progress of the first
// provisioning. Part of the control plane contract.
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneInitializationStatus struct {
	// controlPlaneInitialized becomes true when kubeadm init is observed to have
	// finished, and remains so.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// LastRemediationStatus describes a machine that was replaced because it was
// unhealthy.
type LastRemediationStatus struct {
	// machine is the name of the machine that was replaced.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`

	// time is when that was.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`

	// retryCount is how many replacements in a row have failed before it.
	// +required
	// +kubebuilder:validation:Minimum=0
	RetryCount *int32 `json:"retryCount,omitempty"`
}

// KubeadmControlPlaneDeprecatedStatus groups what older versions had.
type KubeadmControlPlaneDeprecatedStatus struct {
	// v1beta1 is what v1beta1 had.
	// +optional
	V1Beta1 *KubeadmControlPlaneV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// KubeadmControlPlaneV1Beta1DeprecatedStatus is the part of v1beta1's status
// that v1beta2 dropped.
type KubeadmControlPlaneV1Beta1DeprecatedStatus struct {
	// conditions in the older shape.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// updatedReplicas is how many machines match the spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// readyReplicas is how many machines have a Node that is ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// unavailableReplicas is how many machines are missing from the desired
	// number.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`

	// failureReason is a one-word reason for a failure that does not resolve
	// automatically.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is a sentence for the same failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`
}
