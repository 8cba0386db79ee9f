// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// Request is a requested certificate.
type Request struct {
	Subject  pkix.Name
	DNSNames []string
	IPs      []net.IP
	URIs     []*url.URL
	Emails   []string
	Usage    x509.KeyUsage
	ExtUsage []x509.ExtKeyUsage
	IsCA     bool
	Duration time.Duration
	Key      Key
}

// usages are those of keys, by the names of Kubernetes.
var usages = map[string]x509.KeyUsage{
	"signing":            x509.KeyUsageDigitalSignature,
	"digital signature":  x509.KeyUsageDigitalSignature,
	"content commitment": x509.KeyUsageContentCommitment,
	"key encipherment":   x509.KeyUsageKeyEncipherment,
	"key agreement":      x509.KeyUsageKeyAgreement,
	"data encipherment":  x509.KeyUsageDataEncipherment,
	"cert sign":          x509.KeyUsageCertSign,
	"crl sign":           x509.KeyUsageCRLSign,
	"encipher only":      x509.KeyUsageEncipherOnly,
	"decipher only":      x509.KeyUsageDecipherOnly,
}

// extUsages are the extended ones.
var extUsages = map[string]x509.ExtKeyUsage{
	"any":              x509.ExtKeyUsageAny,
	"server auth":      x509.ExtKeyUsageServerAuth,
	"client auth":      x509.ExtKeyUsageClientAuth,
	"code signing":     x509.ExtKeyUsageCodeSigning,
	"email protection": x509.ExtKeyUsageEmailProtection,
	"s/mime":           x509.ExtKeyUsageEmailProtection,
	"ipsec end system": x509.ExtKeyUsageIPSECEndSystem,
	"ipsec tunnel":     x509.ExtKeyUsageIPSECTunnel,
	"ipsec user":       x509.ExtKeyUsageIPSECUser,
	"timestamping":     x509.ExtKeyUsageTimeStamping,
	"ocsp signing":     x509.ExtKeyUsageOCSPSigning,
	"microsoft sgc":    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	"netscape sgc":     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

// NewRequest reads the request of a Certificate, except for its times. The error names
// every field that is wrong.
func NewRequest(spec *certmanagerv1.CertificateSpec, duration time.Duration) (Request, error) {
	r := Request{DNSNames: spec.DNSNames, Emails: spec.EmailAddresses, IsCA: spec.IsCA, Duration: duration, Subject: subject(spec)}
	var errs []error
	for field, names := range map[string][]string{"dnsNames": spec.DNSNames, "emailAddresses": spec.EmailAddresses} {
		for i, name := range names {
			if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
				errs = append(errs, fmt.Errorf("spec.%s[%d]: %q is not a name in ASCII", field, i, name))
			}
		}
	}
	for i, text := range spec.IPAddresses {
		ip := net.ParseIP(text)
		if ip == nil {
			errs = append(errs, fmt.Errorf("spec.ipAddresses[%d]: %q is not an address", i, text))
			continue
		}
		r.IPs = append(r.IPs, ip)
	}
	for i, text := range spec.URIs {
		uri, err := url.Parse(text)
		if err != nil || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r >= 0x7f }) {
			errs = append(errs, fmt.Errorf("spec.uris[%d]: %q is not a URI", i, text))
			continue
		}
		r.URIs = append(r.URIs, uri)
	}
	errs = append(errs, r.use(spec.Usages), r.Key.read(spec.PrivateKey))
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return r, errors.Join(errs...)
}

// use reads the usages.
func (r *Request) use(names []string) (err error) {
	if len(names) == 0 {
		names = []string{"digital signature", "key encipherment"}
	}
	for i, name := range names {
		usage, ok := usages[name]
		ext, extOK := extUsages[name]
		switch {
		case ok:
			r.Usage |= usage
		case extOK && !slices.Contains(r.ExtUsage, ext):
			r.ExtUsage = append(r.ExtUsage, ext)
		case !extOK:
			err = errors.Join(err, fmt.Errorf("spec.usages[%d]: %q is not known", i, name))
		}
	}
	if r.IsCA {
		r.Usage |= x509.KeyUsageCertSign
	}
	return err
}

func subject(spec *certmanagerv1.CertificateSpec) pkix.Name {
	s := spec.Subject
	if s == nil {
		s = &certmanagerv1.Subject{}
	}
	return pkix.Name{
		CommonName: spec.CommonName, Organization: s.Organizations, Country: s.Countries, OrganizationalUnit: s.OrganizationalUnits,
		Locality: s.Localities, Province: s.Provinces, StreetAddress: s.StreetAddresses, PostalCode: s.PostalCodes, SerialNumber: s.SerialNumber,
	}
}

// Differences are the fields of a Certificate that a certificate does not hold to.
func (r Request) Differences(cert *x509.Certificate) (fields []string) {
	if raw, err := asn1.Marshal(r.Subject.ToRDNSequence()); err != nil || string(raw) != string(cert.RawSubject) {
		fields = append(fields, "spec.subject")
	}
	if !sameSet(r.DNSNames, cert.DNSNames) {
		fields = append(fields, "spec.dnsNames")
	}
	if !sameSet(texts(r.IPs), texts(cert.IPAddresses)) {
		fields = append(fields, "spec.ipAddresses")
	}
	if !sameSet(texts(r.URIs), texts(cert.URIs)) {
		fields = append(fields, "spec.uris")
	}
	if !sameSet(r.Emails, cert.EmailAddresses) {
		fields = append(fields, "spec.emailAddresses")
	}
	if r.Usage != cert.KeyUsage || !sameSet(texts(r.ExtUsage), texts(cert.ExtKeyUsage)) {
		fields = append(fields, "spec.usages")
	}
	if r.IsCA != cert.IsCA {
		fields = append(fields, "spec.isCA")
	}
	if cert.NotAfter.Sub(cert.NotBefore) != r.Duration.Truncate(time.Second) {
		fields = append(fields, "spec.duration")
	}
	return fields
}

func texts[T any](all []T) (out []string) {
	for _, v := range all {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// sameSet reports whether two lists name the same, in any order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
