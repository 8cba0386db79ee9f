// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ClusterResourceSetSpec is the desired state of a ClusterResourceSet.
type ClusterResourceSetSpec struct {
	// clusterSelector selects Clusters of the same namespace by label.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// resources are the Secrets and ConfigMaps whose data is applied, in this order.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Resources []ResourceRef `json:"resources,omitempty"`

	// strategy defines when resources are applied.
	// +optional
	// +kubebuilder:validation:Enum=ApplyOnce;Reconcile
	Strategy string `json:"strategy,omitempty"`
}

// ResourceRef names a Secret or ConfigMap.
type ResourceRef struct {
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind is the object's kind.
	// +required
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`
}

// ClusterResourceSetStatus is the observed state of a ClusterResourceSet.
type ClusterResourceSetStatus struct {
	// observedGeneration is the generation of the spec that the status is computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of this version.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups what v1beta2 has.
	// +optional
	V1Beta2 *ClusterResourceSetV1Beta2Status `json:"v1beta2,omitempty"`
}

// ClusterResourceSetV1Beta2Status groups what v1beta2 has.
type ClusterResourceSetV1Beta2Status struct {
	// conditions are those of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterResourceSet applies objects to all Clusters that a label selects.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourcesets,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ClusterResourceSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ClusterResourceSetSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status ClusterResourceSetStatus `json:"status,omitempty"`
}
