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
	// replicas have told the API server of it by then.
	rotationDelay = 24 * time.Hour

	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
)

// authority is what signs the certificates of the webhooks of all replicas. Its
// Secret is as the Secrets of the type kubernetes.io/tls are, with the next one
// beside it while it is on its way.
type authority struct {
	signer, next certs.Pair
	trusted      []byte // signer, next, and those before them that have not ended, in PEM
}

// authorityOf reads an authority. One that is damaged is said to be: who has
// changed it by hand may have done so for a reason.
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
		a.trusted = a.signer.Cert // as the first releases have written it
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

// rotate is what becomes of an authority at a time. When two thirds of its life are
// over, the next one is made and trusted; rotationDelay later it signs. The old one
// is trusted until it ends, so that it does not matter when a replica takes note.
// One that has ended is of no use to anybody, and is replaced at once.
func (a authority) rotate(now time.Time) (authority, error) {
	if a.signer.HasKey() {
		cert, err := certs.ParseCertificate(a.signer.Cert)
		if err != nil {
			return a, fmt.Errorf("rotate the webhooks' authority: %w", err)
		}
		life := cert.NotAfter.Sub(cert.NotBefore)
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
		case now.Sub(cert.NotBefore) >= life*2/3:
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

// trusted joins certificates, each once, without those that have ended and what is
// no certificate.
func trusted(now time.Time, bundles ...[]byte) []byte {
	var all bytes.Buffer
	seen := map[string]bool{}
	for _, bundle := range bundles {
		parsed, err := certs.ParseCertificates(bundle)
		if err != nil {
			continue // there is none yet, or nothing in it that anybody could trust
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
	_ = pem.Encode(into, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}) // a buffer takes all
}
