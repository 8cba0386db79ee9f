// SPDX-License-Identifier: Apache-2.0

package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CertificateSpec is the desired state of a Certificate.
// +kubebuilder:pruning:PreserveUnknownFields
type CertificateSpec struct {
	// secretName is the Secret of the same namespace that holds the certificate and
	// its key.
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// secretTemplate is what else the Secret has.
	// +optional
	SecretTemplate *SecretTemplate `json:"secretTemplate,omitempty"`

	// issuerRef refers to the issuer of the certificate.
	// +optional
	IssuerRef IssuerReference `json:"issuerRef,omitempty,omitzero"`

	// commonName is that of the subject.
	// +optional
	CommonName string `json:"commonName,omitempty"`

	// subject is the rest of it.
	// +optional
	Subject *Subject `json:"subject,omitempty"`

	// literalSubject is a subject as text, which is not honoured.
	// +optional
	LiteralSubject string `json:"literalSubject,omitempty"`

	// dnsNames are names of what shows the certificate.
	// +optional
	DNSNames []string `json:"dnsNames,omitempty"`

	// ipAddresses are its addresses.
	// +optional
	IPAddresses []string `json:"ipAddresses,omitempty"`

	// uris are its URIs.
	// +optional
	URIs []string `json:"uris,omitempty"`

	// emailAddresses are its mail addresses.
	// +optional
	EmailAddresses []string `json:"emailAddresses,omitempty"`

	// otherNames are names of other kinds, which are not honoured.
	// +optional
	OtherNames []apiextensionsv1.JSON `json:"otherNames,omitempty"`

	// duration is how long the certificate is valid, in Go's notation: 90 days by
	// default, an hour at least.
	// +optional
	Duration string `json:"duration,omitempty"`

	// renewBefore is how long before its end it is renewed, in the same notation: a
	// third of its life by default, five minutes at least.
	// +optional
	RenewBefore string `json:"renewBefore,omitempty"`

	// renewBeforePercentage is the same as a share of its life.
	// +optional
	RenewBeforePercentage *int64 `json:"renewBeforePercentage,omitempty"`

	// usages are what it may be used for: digital signature and key encipherment by
	// default.
	// +optional
	Usages []string `json:"usages,omitempty"`

	// isCA makes it one of a certificate authority.
	// +optional
	IsCA bool `json:"isCA,omitempty"`

	// privateKey is what its key is like.
	// +optional
	PrivateKey *PrivateKey `json:"privateKey,omitempty"`

	// signatureAlgorithm is what it is signed with, which is not honoured.
	// +optional
	SignatureAlgorithm string `json:"signatureAlgorithm,omitempty"`

	// keystores are further forms of certificate and key, which are not honoured.
	// +optional
	Keystores *apiextensionsv1.JSON `json:"keystores,omitempty"`

	// additionalOutputFormats are further forms that the Secret holds.
	// +optional
	AdditionalOutputFormats []OutputFormat `json:"additionalOutputFormats,omitempty"`

	// nameConstraints limit what an authority signs, which is not honoured.
	// +optional
	NameConstraints *apiextensionsv1.JSON `json:"nameConstraints,omitempty"`

	// revisionHistoryLimit is how many requests are retained; none is ever created.
	// +optional
	RevisionHistoryLimit *int64 `json:"revisionHistoryLimit,omitempty"`
}

// SecretTemplate is metadata of the Secret of a Certificate.
// +kubebuilder:pruning:PreserveUnknownFields
type SecretTemplate struct {
	// annotations are put on the Secret.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels are put on the Secret.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// IssuerReference names an issuer: an Issuer of the same namespace, or a
// ClusterIssuer.
// +kubebuilder:pruning:PreserveUnknownFields
type IssuerReference struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`

	// kind is Issuer, by default, or ClusterIssuer.
	// +optional
	Kind string `json:"kind,omitempty"`

	// group is cert-manager.io by default.
	// +optional
	Group string `json:"group,omitempty"`
}

// Subject is a distinguished name without its common name.
// +kubebuilder:pruning:PreserveUnknownFields
type Subject struct {
	// organizations are those of the subject.
	// +optional
	Organizations []string `json:"organizations,omitempty"`

	// countries are those of the subject.
	// +optional
	Countries []string `json:"countries,omitempty"`

	// organizationalUnits are those of the subject.
	// +optional
	OrganizationalUnits []string `json:"organizationalUnits,omitempty"`

	// localities are those of the subject.
	// +optional
	Localities []string `json:"localities,omitempty"`

	// provinces are those of the subject.
	// +optional
	Provinces []string `json:"provinces,omitempty"`

	// streetAddresses are those of the subject.
	// +optional
	StreetAddresses []string `json:"streetAddresses,omitempty"`

	// postalCodes are those of the subject.
	// +optional
	PostalCodes []string `json:"postalCodes,omitempty"`

	// serialNumber is that of the subject, not of the certificate.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
}

// The algorithms and encodings of private keys, and when keys are rotated.
const (
	RSA     = "RSA"
	ECDSA   = "ECDSA"
	Ed25519 = "Ed25519"

	PKCS1 = "PKCS1"
	PKCS8 = "PKCS8"

	RotateAlways = "Always"
	RotateNever  = "Never"
)

// PrivateKey is what the key of a certificate is like.
// +kubebuilder:pruning:PreserveUnknownFields
type PrivateKey struct {
	// rotationPolicy is Always, by default, to make a new key with each certificate,
	// or Never.
	// +optional
	RotationPolicy string `json:"rotationPolicy,omitempty"`

	// encoding is PKCS1, by default, or PKCS8.
	// +optional
	Encoding string `json:"encoding,omitempty"`

	// algorithm is RSA, by default, ECDSA or Ed25519.
	// +optional
	Algorithm string `json:"algorithm,omitempty"`

	// size is in bits: by default 2048 of RSA, 256 of ECDSA.
	// +optional
	Size int64 `json:"size,omitempty"`
}

// Further forms of certificate and key.
const (
	OutputDER         = "DER"         // the key, at "key.der"
	OutputCombinedPEM = "CombinedPEM" // key and certificates, at "tls-combined.pem"
)

// OutputFormat is a further form of certificate and key.
// +kubebuilder:pruning:PreserveUnknownFields
type OutputFormat struct {
	// type is DER or CombinedPEM.
	// +optional
	Type string `json:"type,omitempty"`
}

// Conditions of a Certificate.
const (
	// ReadyCondition is True while the Secret holds the requested certificate; of an
	// issuer, while it can issue.
	ReadyCondition = "Ready"
	// IssuingCondition is True while a certificate must be issued, and False once that
	// has failed; it is removed when a certificate is issued.
	IssuingCondition = "Issuing"
)

// Reasons of ReadyCondition and IssuingCondition, the first of which is True.
const (
	ReadyReason                = "Ready"
	DoesNotExistReason         = "DoesNotExist"         // the Secret does not exist
	MissingDataReason          = "MissingData"          // it lacks certificate or key
	InvalidKeyPairReason       = "InvalidKeyPair"       // the key is not that of the certificate
	InvalidCertificateReason   = "InvalidCertificate"   // the certificate cannot be read
	SecretMismatchReason       = "SecretMismatch"       // the key does not match the spec
	IncorrectIssuerReason      = "IncorrectIssuer"      // another has issued the certificate
	IncorrectCertificateReason = "IncorrectCertificate" // the Secret is another Certificate's
	RequestChangedReason       = "RequestChanged"       // the certificate does not match the spec
	RenewingReason             = "Renewing"             // its renewal time has passed
	ExpiredReason              = "Expired"              // it has expired
	ManuallyTriggeredReason    = "ManuallyTriggered"    // a user requested a new one

	FailedReason         = "Failed"         // of IssuingCondition: the requested certificate cannot be issued
	SecretInUseReason    = "SecretInUse"    // the Secret holds the data of another owner
	IssuerNotFoundReason = "IssuerNotFound" // waiting for the issuer
	IssuerNotReadyReason = "IssuerNotReady" // waiting for it to be able to issue
)

// CertificateStatus is the observed state of a Certificate.
// +kubebuilder:pruning:PreserveUnknownFields
type CertificateStatus struct {
	// conditions are Ready and Issuing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastFailureTime is when a certificate could not be issued last, if none was
	// since.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`

	// notBefore is from when the certificate is valid.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// notAfter is until when it is.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// renewalTime is when it will be renewed.
	// +optional
	RenewalTime *metav1.Time `json:"renewalTime,omitempty"`

	// revision counts the certificates that were issued.
	// +optional
	Revision *int64 `json:"revision,omitempty"`
}

// Certificate has a certificate and its key kept in a Secret, and renewed.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=certificates,shortName=cert;certs,scope=Namespaced,categories=cert-manager
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Secret",type="string",JSONPath=".spec.secretName"
// +kubebuilder:printcolumn:name="Issuer",type="string",JSONPath=".spec.issuerRef.name",priority=1
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Certificate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +optional
	Spec CertificateSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status CertificateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (c *Certificate) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions.
func (c *Certificate) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// CertificateList is a list of Certificates.
// +kubebuilder:object:root=true
type CertificateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Certificate `json:"items"`
}
