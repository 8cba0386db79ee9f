// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Authority signs certificates. The zero value has each sign itself.
type Authority struct {
	chain []*x509.Certificate // from the signing one up to the topmost known one
	key   crypto.Signer

	// What is noted in certificates.
	CRLDistributionPoints, OCSPServers, IssuingCertificateURLs []string
}

// SelfSigned reports whether each certificate signs itself.
func (a Authority) SelfSigned() bool { return a.key == nil }

// OpenAuthority reads an authority: its certificate, followed by those of its signers if it
// is not the topmost, and its key.
func OpenAuthority(pair Pair, now time.Time) (Authority, error) {
	if err := pair.Check(CA); err != nil {
		return Authority{}, err
	}
	if !pair.HasKey() {
		return Authority{}, ErrNoKey
	}
	chain, err := ParseCertificates(pair.Cert)
	if err != nil {
		return Authority{}, err
	}
	key, err := ParseKey(pair.Key)
	if err != nil {
		return Authority{}, err
	}
	if end := chain[0].NotAfter; now.After(end) {
		return Authority{}, fmt.Errorf("the certificate of the authority expired at %s", end.Format(time.RFC3339))
	}
	a := Authority{chain: chain[:1], key: key}
	for _, next := range chain[1:] { // what does not belong to it is left out
		if a.chain[len(a.chain)-1].CheckSignatureFrom(next) == nil {
			a.chain = append(a.chain, next)
		}
	}
	return a, nil
}

// NotAfter is when the authority expires; zero if certificates sign themselves.
func (a Authority) NotAfter() (end time.Time) {
	if !a.SelfSigned() {
		end = a.chain[0].NotAfter
	}
	return end
}

// Signed is a certificate in PEM, with those of its signers, and the authority to
// trust.
type Signed struct {
	Certificate *x509.Certificate
	Chain, CA   []byte
}

// Sign signs a certificate for a key, valid from now on.
func (a Authority) Sign(r Request, key crypto.Signer, now time.Time) (Signed, error) {
	template := &x509.Certificate{
		Subject: r.Subject, DNSNames: r.DNSNames, IPAddresses: r.IPs, URIs: r.URIs, EmailAddresses: r.Emails,
		NotBefore: now.UTC().Truncate(time.Second), NotAfter: now.UTC().Truncate(time.Second).Add(r.Duration.Truncate(time.Second)),
		KeyUsage: r.Usage, ExtKeyUsage: r.ExtUsage, BasicConstraintsValid: true, IsCA: r.IsCA,
		CRLDistributionPoints: a.CRLDistributionPoints, OCSPServer: a.OCSPServers, IssuingCertificateURL: a.IssuingCertificateURLs,
	}
	parent, signer := template, key
	if !a.SelfSigned() {
		parent, signer = a.chain[0], a.key
	}
	cert, err := Sign(template, parent, key.Public(), signer)
	if err != nil {
		return Signed{}, err
	}
	chain, ca := a.around(cert)
	return Signed{cert, chain, ca}, nil
}

// around returns what is stored with a certificate of this authority: the
// certificates up to the one to trust, which clients have, and that one.
func (a Authority) around(cert *x509.Certificate) (chain, ca []byte) {
	all := append([]*x509.Certificate{cert}, a.chain...)
	top := all[len(all)-1]
	ca = EncodeCertificate(top)
	for i, c := range all {
		if i == 0 || i < len(all)-1 || !rooted(c) {
			chain = append(chain, EncodeCertificate(c)...)
		}
	}
	return chain, ca
}

func rooted(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// ErrOther means that a certificate is not of the authority, or that it must be
// trusted through another certificate than before.
var ErrOther = errors.New("the authority is another now")

// Check reports whether a certificate was signed by this authority, and is stored
// with the right chain and CA.
func (a Authority) Check(found Signed) error {
	signer := found.Certificate
	if !a.SelfSigned() {
		signer = a.chain[0]
	}
	// Not CheckSignatureFrom: a certificate that signs itself need not be an authority.
	if err := signer.CheckSignature(found.Certificate.SignatureAlgorithm, found.Certificate.RawTBSCertificate, found.Certificate.Signature); err != nil {
		return ErrOther
	}
	if chain, ca := a.around(found.Certificate); !bytes.Equal(chain, found.Chain) || !bytes.Equal(ca, found.CA) {
		return ErrOther
	}
	return nil
}
