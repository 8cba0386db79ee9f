// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
)

// KubeadmConfigTemplateSpec holds the template.
type KubeadmConfigTemplateSpec struct {
	// template is what a KubeadmConfig is cloned from.
	// +required
	Template KubeadmConfigTemplateResource `json:"template"`
}

// KubeadmConfigTemplateResource is the metadata and spec of a config to be.
type KubeadmConfigTemplateResource struct {
	// metadata has the labels and annotations of the configs cloned from here.
	// +optional
	ObjectMeta clusterv1beta1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the spec of the configs cloned from here.
	// +optional
	Spec KubeadmConfigSpec `json:"spec,omitempty"`
}

// KubeadmConfigTemplate is what KubeadmConfigs are cloned from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type KubeadmConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +optional
	Spec KubeadmConfigTemplateSpec `json:"spec,omitempty"`
}
