// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

const (
	// rotationDelay is how long an authority is trusted before it signs: all
	// replicas have registered it with the API server by then.
	rotationDelay = 24 * time.Hour

	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
)

// authority signs the certificates of the webhooks of all replicas. Its Secret has
// the type kubernetes.io/tls, with the next authority next to the current one
// during a rotation.
type authority struct {
	signer, next certs.Pair
	trusted      []byte // signer, next, and earlier ones that have not expired, in PEM
}

// authorityOf reads an authority. A damaged one is reported as an error: a user may
// have changed it by hand for a reason.
func authorityOf(s *corev1.Secret) (a authority, err error) {
	if a.signer, err = certs.FromSecret(s, certs.CA); err != nil {
		return a, err
	}
	if !a.signer.HasKey() {
		return a, fmt.Errorf("secret %s/%s: %w; delete it to have another made", s.Namespace, s.Name, certs.ErrNoKey)
	}
	a.next = certs.Pair{Cert: s.Data[nextCertKey], Key: s.Data[nextKeyKey]}
	if a.next.HasKey() {
		if err := a.next.Check(certs.CA); err != nil {
			return a, fmt.Errorf("secret %s/%s: %s: %w; remove it and %s to have others made", s.Namespace, s.Name, nextCertKey, err, nextKeyKey)
		}
	}
	if a.trusted = s.Data[corev1.ServiceAccountRootCAKey]; a.trusted == nil {
		a.trusted = a.signer.Cert // as the first releases wrote it
	}
	return a, nil
}

// into writes an authority into its Secret.
func (a authority) into(s *corev1.Secret) {
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	s.Data[certs.CertKey], s.Data[certs.PrivateKeyKey], s.Data[corev1.ServiceAccountRootCAKey] = a.signer.Cert, a.signer.Key, a.trusted
	delete(s.Data, nextCertKey)
	delete(s.Data, nextKeyKey)
	if a.next.HasKey() {
		s.Data[nextCertKey], s.Data[nextKeyKey] = a.next.Cert, a.next.Key
	}
}

func (a authority) equal(b authority) bool {
	return bytes.Equal(a.signer.Cert, b.signer.Cert) && bytes.Equal(a.next.Cert, b.next.Cert) && bytes.Equal(a.trusted, b.trusted)
}

// rotate returns the authority at a time. When two thirds of its validity are over,
// the next one is created and trusted; rotationDelay later it signs. The old one is
// trusted until it expires, so that it does not matter when a replica reads the
// change. An expired authority is useless, and is replaced immediately.
func (a authority) rotate(now time.Time) (authority, error) {
	if a.signer.HasKey() {
		cert, err := certs.ParseCertificate(a.signer.Cert)
		if err != nil {
			return a, fmt.Errorf("rotate the webhooks' authority: %w", err)
		}
		validity := cert.NotAfter.Sub(cert.NotBefore)
		switch {
		case a.next.HasKey():
			next, err := certs.ParseCertificate(a.next.Cert)
			if err != nil {
				return a, fmt.Errorf("rotate the webhooks' authority: %w", err)
			}
			if now.Sub(next.NotBefore) >= rotationDelay || now.After(cert.NotAfter) {
				a.signer, a.next = a.next, certs.Pair{}
			}
		case now.After(cert.NotAfter):
			a.signer = certs.Pair{}
		case now.Sub(cert.NotBefore) >= validity*2/3:
			if a.next, err = newAuthority(now); err != nil {
				return a, err
			}
		}
	}
	if !a.signer.HasKey() {
		var err error
		if a.signer, err = newAuthority(now); err != nil {
			return a, err
		}
	}
	a.trusted = trusted(now, a.signer.Cert, a.next.Cert, a.trusted)
	return a, nil
}

func newAuthority(now time.Time) (certs.Pair, error) {
	pair, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", now, certs.CAValidity)
	if err != nil {
		return pair, fmt.Errorf("make the webhooks' authority: %w", err)
	}
	return pair, nil
}

// trusted joins certificates, each once, without expired ones and without data that
// is not a certificate.
func trusted(now time.Time, bundles ...[]byte) []byte {
	var all bytes.Buffer
	seen := map[string]bool{}
	for _, bundle := range bundles {
		parsed, err := certs.ParseCertificates(bundle)
		if err != nil {
			continue // there is none yet, or nothing in it that can be trusted
		}
		for _, cert := range parsed {
			if seen[string(cert.Raw)] || now.After(cert.NotAfter) {
				continue
			}
			seen[string(cert.Raw)] = true
			encode(&all, cert)
		}
	}
	return all.Bytes()
}

func encode(into *bytes.Buffer, cert *x509.Certificate) {
	_ = pem.Encode(into, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // a buffer accepts all writes
}
