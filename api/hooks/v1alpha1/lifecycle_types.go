// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// UpgradeStepInfo is one step of an upgrade.
type UpgradeStepInfo struct {
	// version is the version that the step leads to.
	// +required
	Version string `json:"version,omitempty"`
}

// BeforeClusterCreateRequest is sent before anything of a new Cluster is created.
// +kubebuilder:object:root=true
type BeforeClusterCreateRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`
}

// BeforeClusterCreateResponse answers a BeforeClusterCreateRequest.
// +kubebuilder:object:root=true
type BeforeClusterCreateResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// BeforeClusterCreate is the hook of BeforeClusterCreateRequest and BeforeClusterCreateResponse.
func BeforeClusterCreate(*BeforeClusterCreateRequest, *BeforeClusterCreateResponse) {}

// AfterControlPlaneInitializedRequest is sent once the control plane of a Cluster answers
// for the first time.
// +kubebuilder:object:root=true
type AfterControlPlaneInitializedRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`
}

// AfterControlPlaneInitializedResponse answers an AfterControlPlaneInitializedRequest.
// +kubebuilder:object:root=true
type AfterControlPlaneInitializedResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`
}

// AfterControlPlaneInitialized is the hook of AfterControlPlaneInitializedRequest and AfterControlPlaneInitializedResponse.
func AfterControlPlaneInitialized(*AfterControlPlaneInitializedRequest, *AfterControlPlaneInitializedResponse) {
}

// BeforeClusterUpgradeRequest is sent before an upgrade starts.
// +kubebuilder:object:root=true
type BeforeClusterUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// fromKubernetesVersion is the version before.
	FromKubernetesVersion string `json:"fromKubernetesVersion"`

	// toKubernetesVersion is the version after.
	ToKubernetesVersion string `json:"toKubernetesVersion"`

	// controlPlaneUpgrades are the remaining versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStepInfo `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the remaining versions of the workers' upgrade, in order.
	// +optional
	WorkersUpgrades []UpgradeStepInfo `json:"workersUpgrades,omitempty"`
}

// BeforeClusterUpgradeResponse answers a BeforeClusterUpgradeRequest.
// +kubebuilder:object:root=true
type BeforeClusterUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// BeforeClusterUpgrade is the hook of BeforeClusterUpgradeRequest and BeforeClusterUpgradeResponse.
func BeforeClusterUpgrade(*BeforeClusterUpgradeRequest, *BeforeClusterUpgradeResponse) {}

// BeforeControlPlaneUpgradeRequest is sent before each step of the control plane.
// +kubebuilder:object:root=true
type BeforeControlPlaneUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// fromKubernetesVersion is the version before.
	FromKubernetesVersion string `json:"fromKubernetesVersion"`

	// toKubernetesVersion is the version after.
	ToKubernetesVersion string `json:"toKubernetesVersion"`

	// controlPlaneUpgrades are the remaining versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStepInfo `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the remaining versions of the workers' upgrade, in order.
	// +optional
	WorkersUpgrades []UpgradeStepInfo `json:"workersUpgrades,omitempty"`
}

// BeforeControlPlaneUpgradeResponse answers a BeforeControlPlaneUpgradeRequest.
// +kubebuilder:object:root=true
type BeforeControlPlaneUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// BeforeControlPlaneUpgrade is the hook of BeforeControlPlaneUpgradeRequest and BeforeControlPlaneUpgradeResponse.
func BeforeControlPlaneUpgrade(*BeforeControlPlaneUpgradeRequest, *BeforeControlPlaneUpgradeResponse) {
}

// AfterControlPlaneUpgradeRequest is sent after each step of the control plane, before
// the workers follow.
// +kubebuilder:object:root=true
type AfterControlPlaneUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// kubernetesVersion is the version that was reached.
	KubernetesVersion string `json:"kubernetesVersion"`

	// controlPlaneUpgrades are the remaining versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStepInfo `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the remaining versions of the workers' upgrade, in order.
	// +optional
	WorkersUpgrades []UpgradeStepInfo `json:"workersUpgrades,omitempty"`
}

// AfterControlPlaneUpgradeResponse answers an AfterControlPlaneUpgradeRequest.
// +kubebuilder:object:root=true
type AfterControlPlaneUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// AfterControlPlaneUpgrade is the hook of AfterControlPlaneUpgradeRequest and AfterControlPlaneUpgradeResponse.
func AfterControlPlaneUpgrade(*AfterControlPlaneUpgradeRequest, *AfterControlPlaneUpgradeResponse) {}

// BeforeWorkersUpgradeRequest is sent before each step of the workers.
// +kubebuilder:object:root=true
type BeforeWorkersUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// fromKubernetesVersion is the version before.
	FromKubernetesVersion string `json:"fromKubernetesVersion"`

	// toKubernetesVersion is the version after.
	ToKubernetesVersion string `json:"toKubernetesVersion"`

	// controlPlaneUpgrades are the remaining versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStepInfo `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the remaining versions of the workers' upgrade, in order.
	// +optional
	WorkersUpgrades []UpgradeStepInfo `json:"workersUpgrades,omitempty"`
}

// BeforeWorkersUpgradeResponse answers a BeforeWorkersUpgradeRequest.
// +kubebuilder:object:root=true
type BeforeWorkersUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// BeforeWorkersUpgrade is the hook of BeforeWorkersUpgradeRequest and BeforeWorkersUpgradeResponse.
func BeforeWorkersUpgrade(*BeforeWorkersUpgradeRequest, *BeforeWorkersUpgradeResponse) {}

// AfterWorkersUpgradeRequest is sent after each step of the workers.
// +kubebuilder:object:root=true
type AfterWorkersUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// kubernetesVersion is the version that was reached.
	KubernetesVersion string `json:"kubernetesVersion"`

	// controlPlaneUpgrades are the remaining versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStepInfo `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the remaining versions of the workers' upgrade, in order.
	// +optional
	WorkersUpgrades []UpgradeStepInfo `json:"workersUpgrades,omitempty"`
}

// AfterWorkersUpgradeResponse answers an AfterWorkersUpgradeRequest.
// +kubebuilder:object:root=true
type AfterWorkersUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// AfterWorkersUpgrade is the hook of AfterWorkersUpgradeRequest and AfterWorkersUpgradeResponse.
func AfterWorkersUpgrade(*AfterWorkersUpgradeRequest, *AfterWorkersUpgradeResponse) {}

// AfterClusterUpgradeRequest is sent when an upgrade is complete; no other upgrade starts until the
// hook allows it.
// +kubebuilder:object:root=true
type AfterClusterUpgradeRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`

	// kubernetesVersion is the version that was reached.
	KubernetesVersion string `json:"kubernetesVersion"`
}

// AfterClusterUpgradeResponse answers an AfterClusterUpgradeRequest.
// +kubebuilder:object:root=true
type AfterClusterUpgradeResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// AfterClusterUpgrade is the hook of AfterClusterUpgradeRequest and AfterClusterUpgradeResponse.
func AfterClusterUpgrade(*AfterClusterUpgradeRequest, *AfterClusterUpgradeResponse) {}

// BeforeClusterDeleteRequest is sent before a Cluster is deleted.
// +kubebuilder:object:root=true
type BeforeClusterDeleteRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	Cluster clusterv1.Cluster `json:"cluster"`
}

// BeforeClusterDeleteResponse answers a BeforeClusterDeleteRequest.
// +kubebuilder:object:root=true
type BeforeClusterDeleteResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRetryResponse is what all such responses hold.
	CommonRetryResponse `json:",inline"`
}

// BeforeClusterDelete is the hook of BeforeClusterDeleteRequest and BeforeClusterDeleteResponse.
func BeforeClusterDelete(*BeforeClusterDeleteRequest, *BeforeClusterDeleteResponse) {}
