// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

const (
	// DefinitionLabel is on the CustomResourceDefinitions of this group that are
	// Capstan's own.
	DefinitionLabel = "capstan.dev/certificates"

	// installedBy is the prefix of the labels on cert-manager's own definitions.
	installedBy = "app.kubernetes.io/"
)

// Ours reports whether a CustomResourceDefinition of this group, of which these are
// the labels, is Capstan's own. One that was replaced by cert-manager's is not,
// also if labels of both are left on it.
func Ours(labels map[string]string) bool {
	for key := range labels {
		if strings.HasPrefix(key, installedBy) {
			return false
		}
	}
	return labels[DefinitionLabel] != ""
}

// Annotations on the Secret of a Certificate that describe the Certificate.
const (
	CertificateNameAnnotation = "cert-manager.io/certificate-name"
	IssuerNameAnnotation      = "cert-manager.io/issuer-name"
	IssuerKindAnnotation      = "cert-manager.io/issuer-kind"
	IssuerGroupAnnotation     = "cert-manager.io/issuer-group"
	CommonNameAnnotation      = "cert-manager.io/common-name"
	AltNamesAnnotation        = "cert-manager.io/alt-names"
	IPSANsAnnotation          = "cert-manager.io/ip-sans"
	URISANsAnnotation         = "cert-manager.io/uri-sans"
	EmailSANsAnnotation       = "cert-manager.io/email-sans"

	// ControllerLabel is on Secrets that the issuing controller must watch.
	ControllerLabel = "controller.cert-manager.io/fao"
)

// Annotations that request the injection of a certificate authority.
const (
	// InjectFromAnnotation names a Certificate, as namespace/name.
	InjectFromAnnotation = "cert-manager.io/inject-ca-from"
	// InjectFromSecretAnnotation names a Secret, as namespace/name.
	InjectFromSecretAnnotation = "cert-manager.io/inject-ca-from-secret"
	// InjectAPIServerAnnotation requests the authority of the API server, if it is
	// "true".
	InjectAPIServerAnnotation = "cert-manager.io/inject-apiserver-ca"
	// AllowInjectionAnnotation on a Secret, if it is "true", lets it be named by
	// InjectFromSecretAnnotation.
	AllowInjectionAnnotation = "cert-manager.io/allow-direct-injection"
)
