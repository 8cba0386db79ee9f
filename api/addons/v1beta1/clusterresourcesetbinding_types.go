// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResourceBinding reports the result of applying one Secret or ConfigMap.
type ResourceBinding struct {
	// ResourceRef names the Secret or ConfigMap.
	ResourceRef `json:",inline"`

	// hash is the hash of the data that was applied last.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Hash string `json:"hash,omitempty"`

	// lastAppliedTime is when applying was last tried.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`

	// applied is whether the last try succeeded.
	// +required
	Applied bool `json:"applied"`
}

// ResourceSetBinding is what one ClusterResourceSet applied to a Cluster.
type ResourceSetBinding struct {
	// clusterResourceSetName is the ClusterResourceSet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterResourceSetName string `json:"clusterResourceSetName"`

	// resources are what it applied.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Resources []ResourceBinding `json:"resources,omitempty"`
}

// ClusterResourceSetBindingSpec is what was applied to one Cluster.
type ClusterResourceSetBindingSpec struct {
	// bindings are the ClusterResourceSets that select the Cluster and what each
	// applied.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Bindings []*ResourceSetBinding `json:"bindings,omitempty"`

	// clusterName is the Cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
}

// ClusterResourceSetBinding records what ClusterResourceSets applied to the
// Cluster of the same name.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourcesetbindings,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ClusterResourceSetBinding struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was applied.
	// +optional
	Spec ClusterResourceSetBindingSpec `json:"spec,omitempty"`
}
