// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// IPAddressClaimSpec is the request for an address. The Cluster of the address is a label.
type IPAddressClaimSpec struct {
	// poolRef refers to the pool that the address must be in.
	// +required
	PoolRef corev1.TypedLocalObjectReference `json:"poolRef"`
}

// IPAddressClaimStatus is what was given.
type IPAddressClaimStatus struct {
	// addressRef is the IPAddress that was given to the claim.
	// +optional
	AddressRef corev1.LocalObjectReference `json:"addressRef,omitempty"`

	// conditions are the conditions of this version.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// IPAddressClaim asks a pool for an address.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ipaddressclaims,scope=Namespaced,categories=cluster-api
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pool Name",type="string",JSONPath=".spec.poolRef.name",description="Name of the pool"
// +kubebuilder:printcolumn:name="Pool Kind",type="string",JSONPath=".spec.poolRef.kind",description="Kind of the pool"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type IPAddressClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec IPAddressClaimSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status IPAddressClaimStatus `json:"status,omitempty"`
}
