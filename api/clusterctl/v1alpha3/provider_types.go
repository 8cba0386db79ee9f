// SPDX-License-Identifier: Apache-2.0

package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProviderType defines which contract a provider implements.
type ProviderType string

// The types of providers.
const (
	// CoreProviderType is Cluster API's own core.
	CoreProviderType ProviderType = "CoreProvider"

	// BootstrapProviderType turns machines into nodes.
	BootstrapProviderType ProviderType = "BootstrapProvider"

	// InfrastructureProviderType creates networks and machines.
	InfrastructureProviderType ProviderType = "InfrastructureProvider"

	// ControlPlaneProviderType creates control planes.
	ControlPlaneProviderType ProviderType = "ControlPlaneProvider"

	// IPAMProviderType gives out IP addresses.
	IPAMProviderType ProviderType = "IPAMProvider"

	// RuntimeExtensionProviderType answers runtime hooks.
	RuntimeExtensionProviderType ProviderType = "RuntimeExtensionProvider"

	// AddonProviderType installs add-ons into workload clusters.
	AddonProviderType ProviderType = "AddonProvider"

	// ProviderTypeUnknown is the type of an object that is no provider.
	ProviderTypeUnknown ProviderType = ""
)

// Provider is one installed provider in clusterctl's inventory.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=providers,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".type",description="Contract it keeps"
// +kubebuilder:printcolumn:name="Provider",type="string",JSONPath=".providerName",description="Its name"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".version",description="Its version"
type Provider struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// providerName is the provider's name, without the prefix of its type.
	// +optional
	ProviderName string `json:"providerName,omitempty"`

	// type is a ProviderType.
	// +optional
	Type string `json:"type,omitempty"`

	// version is the installed version.
	// +optional
	Version string `json:"version,omitempty"`

	// watchedNamespace is the only namespace the provider watches; empty is
	// all.
	// +optional
	WatchedNamespace string `json:"watchedNamespace,omitempty"`
}

// GetProviderType returns Type as a ProviderType, and ProviderTypeUnknown for
// a type that does not exist.
func (p *Provider) GetProviderType() ProviderType {
	switch t := ProviderType(p.Type); t {
	case CoreProviderType, BootstrapProviderType, InfrastructureProviderType, ControlPlaneProviderType,
		IPAMProviderType, RuntimeExtensionProviderType, AddonProviderType:
		return t
	default:
		return ProviderTypeUnknown
	}
}

// ProviderList is a list of Providers.
// +kubebuilder:object:root=true
type ProviderList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the Providers.
	Items []Provider `json:"items"`
}
