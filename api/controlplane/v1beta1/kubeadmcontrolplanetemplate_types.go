// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// KubeadmControlPlaneTemplateSpec holds the template.
type KubeadmControlPlaneTemplateSpec struct {
	// template is the content of a KubeadmControlPlane created from this template.
	// +required
	Template KubeadmControlPlaneTemplateResource `json:"template"`
}

// KubeadmControlPlaneTemplateResource is the metadata and spec of a control plane
// to be.
type KubeadmControlPlaneTemplateResource struct {
	// metadata has the labels and annotations of the control planes.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of the control planes, as far as a template can know it.
	// +required
	Spec KubeadmControlPlaneTemplateResourceSpec `json:"spec"`
}

// KubeadmControlPlaneTemplateResourceSpec is a KubeadmControlPlaneSpec without
// what the Cluster's topology gives.
type KubeadmControlPlaneTemplateResourceSpec struct {
	// machineTemplate is the template of machines.
	// +optional
	MachineTemplate *KubeadmControlPlaneTemplateMachineTemplate `json:"machineTemplate,omitempty"`

	// kubeadmConfigSpec is the bootstrap config of each machine.
	// +required
	KubeadmConfigSpec bootstrapv1beta1.KubeadmConfigSpec `json:"kubeadmConfigSpec"`

	KubeadmControlPlaneRollout `json:",inline"`
}

// KubeadmControlPlaneTemplateMachineTemplate is the template of machines.
type KubeadmControlPlaneTemplateMachineTemplate struct {
	// metadata has labels and annotations for the machines.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty"`

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

// KubeadmControlPlaneTemplate is the template of the control planes of a ClusterClass.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type KubeadmControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +optional
	Spec KubeadmControlPlaneTemplateSpec `json:"spec,omitempty"`
}
