// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// GenerateUpgradePlanRequest is sent to determine the versions of the steps of an upgrade.
// +kubebuilder:object:root=true
type GenerateUpgradePlanRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// cluster is the Cluster, without status.
	// +required
	Cluster clusterv1.Cluster `json:"cluster,omitempty,omitzero"`

	// fromControlPlaneKubernetesVersion is the control plane's version.
	// +required
	FromControlPlaneKubernetesVersion string `json:"fromControlPlaneKubernetesVersion,omitempty"`

	// fromWorkersKubernetesVersion is the oldest version of the workers;
	// empty without workers.
	// +optional
	FromWorkersKubernetesVersion string `json:"fromWorkersKubernetesVersion,omitempty"`

	// toKubernetesVersion is where the upgrade leads.
	// +required
	ToKubernetesVersion string `json:"toKubernetesVersion,omitempty"`
}

// GenerateUpgradePlanResponse answers a GenerateUpgradePlanRequest.
// +kubebuilder:object:root=true
type GenerateUpgradePlanResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// controlPlaneUpgrades are the versions of the control plane's upgrade, in order.
	// +optional
	ControlPlaneUpgrades []UpgradeStep `json:"controlPlaneUpgrades,omitempty"`

	// workersUpgrades are the versions the workers go through, in order. Each
	// is one of controlPlaneUpgrades.
	// +optional
	WorkersUpgrades []UpgradeStep `json:"workersUpgrades,omitempty"`
}

// GenerateUpgradePlan is the hook of GenerateUpgradePlanRequest and GenerateUpgradePlanResponse.
func GenerateUpgradePlan(*GenerateUpgradePlanRequest, *GenerateUpgradePlanResponse) {}

// UpgradeStep is one step of an upgrade.
type UpgradeStep struct {
	// version is the version that the step leads to.
	// +required
	Version string `json:"version,omitempty"`
}
