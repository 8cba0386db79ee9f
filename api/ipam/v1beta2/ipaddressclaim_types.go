// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// IPAddressClaimSpec is the desired state of an IPAddressClaim. It cannot change.
type IPAddressClaimSpec struct {
	// clusterName is the Cluster the address is for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// poolRef refers to the pool that the address must be in.
	// +required
	PoolRef IPPoolReference `json:"poolRef,omitempty,omitzero"`
}

// IPAddressClaimStatus is the observed state of an IPAddressClaim.
// +kubebuilder:validation:MinProperties=1
type IPAddressClaimStatus struct {
	// conditions are the current conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// addressRef is the IPAddress that was given to the claim.
	// +optional
	AddressRef IPAddressReference `json:"addressRef,omitempty,omitzero"`

	// deprecated groups deprecated fields.
	// +optional
	Deprecated *IPAddressClaimDeprecatedStatus `json:"deprecated,omitempty"`
}

// IPAddressReference names an IPAddress of the same namespace.
type IPAddressReference struct {
	// name is the IPAddress's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`
}

// IPAddressClaimDeprecatedStatus groups deprecated status fields.
type IPAddressClaimDeprecatedStatus struct {
	// v1beta1 holds the status fields of v1beta1 that have no place in
	// v1beta2.
	// +optional
	V1Beta1 *IPAddressClaimV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// IPAddressClaimV1Beta1DeprecatedStatus holds the status fields of v1beta1 that have
// no place in v1beta2.
type IPAddressClaimV1Beta1DeprecatedStatus struct {
	// conditions are the conditions in the shape of v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// IPAddressClaim asks a pool for one address. Infrastructure providers create
// it, IPAM providers answer it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ipaddressclaims,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pool Name",type="string",JSONPath=".spec.poolRef.name",description="Pool the address comes from"
// +kubebuilder:printcolumn:name="Pool Kind",type="string",JSONPath=".spec.poolRef.kind",description="Kind of that pool"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type IPAddressClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec IPAddressClaimSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status IPAddressClaimStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (c *IPAddressClaim) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions.
func (c *IPAddressClaim) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// IPAddressClaimList is a list of IPAddressClaims.
// +kubebuilder:object:root=true
type IPAddressClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the IPAddressClaims.
	Items []IPAddressClaim `json:"items"`
}
