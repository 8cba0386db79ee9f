// SPDX-License-Identifier: Apache-2.0

package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kinds of issuers.
const (
	IssuerKind        = "Issuer"
	ClusterIssuerKind = "ClusterIssuer"
)

// ClusterResourceNamespace is where the Secrets of ClusterIssuers lie.
const ClusterResourceNamespace = "cert-manager"

// IssuerSpec is how an issuer issues: one of its fields is set.
// +kubebuilder:pruning:PreserveUnknownFields
type IssuerSpec struct {
	// selfSigned signs each certificate with its own key.
	// +optional
	SelfSigned *SelfSignedIssuer `json:"selfSigned,omitempty"`

	// ca signs with the key of an authority.
	// +optional
	CA *CAIssuer `json:"ca,omitempty"`

	// acme asks a server, which is not honoured.
	// +optional
	ACME *apiextensionsv1.JSON `json:"acme,omitempty"`

	// vault asks HashiCorp Vault, which is not honoured.
	// +optional
	Vault *apiextensionsv1.JSON `json:"vault,omitempty"`

	// venafi asks Venafi, which is not honoured.
	// +optional
	Venafi *apiextensionsv1.JSON `json:"venafi,omitempty"`
}

// SelfSignedIssuer signs each certificate with its own key.
// +kubebuilder:pruning:PreserveUnknownFields
type SelfSignedIssuer struct {
	// crlDistributionPoints are noted in certificates.
	// +optional
	CRLDistributionPoints []string `json:"crlDistributionPoints,omitempty"`
}

// CAIssuer signs with the key of an authority.
// +kubebuilder:pruning:PreserveUnknownFields
type CAIssuer struct {
	// secretName is the Secret of the authority: of the same namespace, or of the
	// namespace cert-manager for a ClusterIssuer.
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// crlDistributionPoints are noted in certificates.
	// +optional
	CRLDistributionPoints []string `json:"crlDistributionPoints,omitempty"`

	// ocspServers are noted in certificates.
	// +optional
	OCSPServers []string `json:"ocspServers,omitempty"`

	// issuingCertificateURLs are noted in certificates.
	// +optional
	IssuingCertificateURLs []string `json:"issuingCertificateURLs,omitempty"`
}

// Reasons of the ReadyCondition of an issuer, the first two of which are True.
const (
	SelfSignedReason    = "IsReady"
	KeyPairReason       = "KeyPairVerified"
	GetKeyPairReason    = "ErrGetKeyPair"     // the Secret of the authority does not exist
	BrokenKeyPairReason = "ErrInvalidKeyPair" // what it holds cannot sign
	NotSupportedReason  = "NotSupported"      // Capstan does not honour this kind of issuer
	InvalidIssuerReason = "InvalidIssuer"     // none or several of its fields are set
)

// IssuerStatus is the observed state of an issuer.
// +kubebuilder:pruning:PreserveUnknownFields
type IssuerStatus struct {
	// conditions are Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Issuer issues the certificates of a namespace.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=issuers,scope=Namespaced,categories=cert-manager
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Issuer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec IssuerSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status IssuerStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (i *Issuer) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions sets the conditions.
func (i *Issuer) SetConditions(conditions []metav1.Condition) { i.Status.Conditions = conditions }

// GetSpec returns the spec, which is the same for both kinds of issuers.
func (i *Issuer) GetSpec() *IssuerSpec { return &i.Spec }

// SecretNamespace is the namespace of the authority's Secret.
func (i *Issuer) SecretNamespace() string { return i.Namespace }

// IssuerList is a list of Issuers.
// +kubebuilder:object:root=true
type IssuerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Issuer `json:"items"`
}

// ClusterIssuer issues the certificates of all namespaces.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterissuers,scope=Cluster,categories=cert-manager
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type ClusterIssuer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec IssuerSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status IssuerStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (i *ClusterIssuer) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions sets the conditions.
func (i *ClusterIssuer) SetConditions(conditions []metav1.Condition) {
	i.Status.Conditions = conditions
}

// GetSpec returns the spec, which is the same for both kinds of issuers.
func (i *ClusterIssuer) GetSpec() *IssuerSpec { return &i.Spec }

// SecretNamespace is the namespace of the authority's Secret.
func (i *ClusterIssuer) SecretNamespace() string { return ClusterResourceNamespace }

// ClusterIssuerList is a list of ClusterIssuers.
// +kubebuilder:object:root=true
type ClusterIssuerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterIssuer `json:"items"`
}
