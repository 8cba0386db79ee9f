// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ClusterResourceSetFinalizer retains a ClusterResourceSet until its entries in all bindings are
// removed. The ClusterResourceSet controller sets and removes it.
const ClusterResourceSetFinalizer = "addons.cluster.x-k8s.io"

// ClusterResourceSetSecretType is the type a Secret must have to be applied
// by a ClusterResourceSet, so that no other Secret leaves the management
// cluster.
const ClusterResourceSetSecretType corev1.SecretType = "addons.cluster.x-k8s.io/resource-set"

// ClusterResourceSetResourceKind is the kind of object that holds the resources to apply.
type ClusterResourceSetResourceKind string

const (
	// SecretClusterResourceSetResourceKind is a Secret.
	SecretClusterResourceSetResourceKind ClusterResourceSetResourceKind = "Secret"

	// ConfigMapClusterResourceSetResourceKind is a ConfigMap.
	ConfigMapClusterResourceSetResourceKind ClusterResourceSetResourceKind = "ConfigMap"
)

// ClusterResourceSetStrategy defines when resources are applied.
type ClusterResourceSetStrategy string

const (
	// ClusterResourceSetStrategyApplyOnce applies to each cluster only
	// once. It is the default.
	ClusterResourceSetStrategyApplyOnce ClusterResourceSetStrategy = "ApplyOnce"

	// ClusterResourceSetStrategyReconcile applies again whenever the Secret
	// or ConfigMap changes.
	ClusterResourceSetStrategyReconcile ClusterResourceSetStrategy = "Reconcile"
)

// ClusterResourceSetSpec is the desired state of a ClusterResourceSet.
type ClusterResourceSetSpec struct {
	// clusterSelector selects Clusters of the same namespace by label. It
	// must not be empty and cannot change.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector,omitempty,omitzero"`

	// resources are the Secrets and ConfigMaps of the same namespace whose
	// data is applied, in this order.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Resources []ResourceRef `json:"resources,omitempty"`

	// strategy defines when resources are applied. It defaults to ApplyOnce and
	// cannot change.
	// +optional
	// +kubebuilder:validation:Enum=ApplyOnce;Reconcile
	Strategy ClusterResourceSetStrategy `json:"strategy,omitempty"`
}

// ResourceRef names a Secret or ConfigMap.
type ResourceRef struct {
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// kind is the object's kind.
	// +required
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind ClusterResourceSetResourceKind `json:"kind,omitempty"`
}

// ClusterResourceSetStatus is the observed state of a ClusterResourceSet.
// +kubebuilder:validation:MinProperties=1
type ClusterResourceSetStatus struct {
	// conditions are the current conditions: ResourcesApplied, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the status is computed from.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deprecated groups deprecated fields.
	// +optional
	Deprecated *ClusterResourceSetDeprecatedStatus `json:"deprecated,omitempty"`
}

// ClusterResourceSetDeprecatedStatus groups deprecated status fields.
type ClusterResourceSetDeprecatedStatus struct {
	// v1beta1 holds the status fields of v1beta1 that have no place in
	// v1beta2.
	// +optional
	V1Beta1 *ClusterResourceSetV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// ClusterResourceSetV1Beta1DeprecatedStatus holds the status fields of v1beta1 that have
// no place in v1beta2.
type ClusterResourceSetV1Beta1DeprecatedStatus struct {
	// conditions are the conditions in the shape of v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// ClusterResourceSet applies objects to all Clusters that a label selects.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourcesets,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Applied",type="string",JSONPath=".status.conditions[?(@.type==\"ResourcesApplied\")].status",description="Whether all resources are applied to all clusters"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type==\"Paused\")].status",description="Whether reconciling is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ClusterResourceSet struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec ClusterResourceSetSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status ClusterResourceSetStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (s *ClusterResourceSet) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions.
func (s *ClusterResourceSet) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// ClusterResourceSetList is a list of ClusterResourceSets.
// +kubebuilder:object:root=true
type ClusterResourceSetList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the ClusterResourceSets.
	Items []ClusterResourceSet `json:"items"`
}
