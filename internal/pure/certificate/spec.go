// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// maxCommonName is the limit of X.509.
const maxCommonName = 64

// Check returns the fields of a Certificate that are missing, invalid or not supported.
// It does not check names in certificates, keys and times.
func Check(c *certmanagerv1.Certificate) error {
	spec, ref := &c.Spec, IssuerOf(c)
	var errs []error
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if wrong := validation.IsDNS1123Subdomain(spec.SecretName); spec.SecretName == "" {
		errs = append(errs, errors.New("spec.secretName: there is none"))
	} else {
		add(len(wrong) > 0, "spec.secretName: %q is not a name of a Secret", spec.SecretName)
	}
	kinds := []string{certmanagerv1.IssuerKind, certmanagerv1.ClusterIssuerKind}
	add(ref.Name == "", "spec.issuerRef.name: there is none")
	add(ref.Group != certmanagerv1.GroupVersion().Group, "spec.issuerRef.group: issuers of %q are not honoured: give an Issuer or ClusterIssuer of %s", ref.Group, certmanagerv1.GroupVersion().Group)
	add(!slices.Contains(kinds, ref.Kind), "spec.issuerRef.kind: %q is none of %s", ref.Kind, strings.Join(kinds, ", "))
	add(len(spec.CommonName) > maxCommonName, "spec.commonName: it has more than %d bytes", maxCommonName)
	names := len(spec.DNSNames) + len(spec.IPAddresses) + len(spec.URIs) + len(spec.EmailAddresses) + len(spec.OtherNames)
	add(names == 0 && spec.CommonName == "" && spec.LiteralSubject == "", "spec: there is no name: give one of commonName, dnsNames, ipAddresses, uris and emailAddresses")
	for _, f := range []struct {
		field string
		set   bool
	}{
		{"keystores", spec.Keystores != nil}, {"literalSubject", spec.LiteralSubject != ""}, {"nameConstraints", spec.NameConstraints != nil},
		{"otherNames", len(spec.OtherNames) > 0}, {"signatureAlgorithm", spec.SignatureAlgorithm != ""},
	} {
		add(f.set, "spec.%s: it is not honoured without cert-manager: remove it", f.field)
	}
	for i, f := range spec.AdditionalOutputFormats {
		add(f.Type != certmanagerv1.OutputDER && f.Type != certmanagerv1.OutputCombinedPEM, "spec.additionalOutputFormats[%d].type: %q is none of DER and CombinedPEM", i, f.Type)
	}
	if t := spec.SecretTemplate; t != nil {
		for key, value := range t.Labels {
			add(len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0, "spec.secretTemplate.labels: %s: %q is not a label", key, value)
		}
		for key := range t.Annotations {
			add(len(validation.IsQualifiedName(strings.ToLower(key))) > 0, "spec.secretTemplate.annotations: %q is not the key of an annotation", key)
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
