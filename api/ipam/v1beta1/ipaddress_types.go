// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IPAddressSpec is an address that was given to a claim.
type IPAddressSpec struct {
	// claimRef is the IPAddressClaim that the address was given to.
	// +required
	ClaimRef corev1.LocalObjectReference `json:"claimRef"`

	// poolRef refers to the pool of the address.
	// +required
	PoolRef corev1.TypedLocalObjectReference `json:"poolRef"`

	// address is the address, IPv4 or IPv6.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address"`

	// prefix is the length of the address's network prefix in bits.
	// +required
	Prefix int `json:"prefix"`

	// gateway is the gateway of the address's network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	Gateway string `json:"gateway,omitempty"`
}

// IPAddress is an address that was given to an IPAddressClaim.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ipaddresses,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:printcolumn:name="Address",type="string",JSONPath=".spec.address",description="Address"
// +kubebuilder:printcolumn:name="Pool Name",type="string",JSONPath=".spec.poolRef.name",description="Name of the pool the address is from"
// +kubebuilder:printcolumn:name="Pool Kind",type="string",JSONPath=".spec.poolRef.kind",description="Kind of the pool the address is from"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type IPAddress struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the address.
	// +optional
	Spec IPAddressSpec `json:"spec,omitempty"`
}
