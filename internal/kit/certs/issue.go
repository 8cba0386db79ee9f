// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// Algorithm is a key's algorithm, with the values of the API's
// encryptionAlgorithm. The zero value is ECDSA-P256, for keys that no user
// chooses; see Chosen for those that one may.
type Algorithm string

// The algorithms that keys can have.
const (
	ECDSAP256 Algorithm = "ECDSA-P256"
	ECDSAP384 Algorithm = "ECDSA-P384"
	RSA2048   Algorithm = "RSA-2048"
	RSA3072   Algorithm = "RSA-3072"
	RSA4096   Algorithm = "RSA-4096"

	// The algorithms below are not values of the API's encryptionAlgorithm.
	ECDSAP521 Algorithm = "ECDSA-P521"
	Ed25519   Algorithm = "Ed25519"
)

// Sizes of RSA keys: smaller ones are not secure, and larger ones take minutes to
// generate.
const (
	MinRSA = 2048
	MaxRSA = 8192
)

// RSA is the algorithm of RSA keys with a number of bits.
func RSA(bits int64) Algorithm { return Algorithm(fmt.Sprintf("RSA-%d", bits)) }

var curves = map[Algorithm]elliptic.Curve{"": elliptic.P256(), ECDSAP256: elliptic.P256(), ECDSAP384: elliptic.P384(), ECDSAP521: elliptic.P521()}

// Chosen is the algorithm that a user selects with the API's encryptionAlgorithm:
// RSA-2048 by default, as the API documents.
func Chosen[T ~string](encryptionAlgorithm T) Algorithm {
	return cmp.Or(Algorithm(encryptionAlgorithm), RSA2048)
}

// skew is how long before now a certificate is already valid, because the
// clocks of the machines that check it may be behind ours.
const skew = 5 * time.Minute

// NewKey generates a private key.
func NewKey(a Algorithm) (crypto.Signer, error) {
	if curve := curves[a]; curve != nil {
		return ecdsa.GenerateKey(curve, rand.Reader)
	}
	if a == Ed25519 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	text, isRSA := strings.CutPrefix(string(a), "RSA-")
	if bits, err := strconv.Atoi(text); isRSA && err == nil && bits >= MinRSA && bits <= MaxRSA {
		return rsa.GenerateKey(rand.Reader, bits)
	}
	return nil, fmt.Errorf("unknown key algorithm %q: use one of %s, %s, %s, %s, %s", a, ECDSAP256, ECDSAP384, RSA2048, RSA3072, RSA4096)
}

// NewCA creates a self-signed certificate authority. Validity counts from now; zero
// means CAValidity.
func NewCA(a Algorithm, commonName string, now time.Time, validity time.Duration) (Pair, error) {
	key, err := NewKey(a)
	if err != nil {
		return Pair{}, err
	}
	if validity == 0 {
		validity = CAValidity
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             now.Add(-skew).UTC(),
		NotAfter:              now.Add(validity).UTC(),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		DNSNames:              []string{commonName},
	}
	return sign(template, template, key, key)
}

// NewServiceAccount creates the key pair that signs service account tokens.
func NewServiceAccount(a Algorithm) (Pair, error) {
	key, err := NewKey(a)
	if err != nil {
		return Pair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("encode public key: %w", err)
	}
	private, err := EncodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), Key: private}, nil
}

// New creates the pair of a cluster for a purpose: an authority, or the service
// account keys. Validity is that of an authority; zero means CAValidity.
func New(p Purpose, a Algorithm, now time.Time, validity time.Duration) (Pair, error) {
	switch p {
	case ServiceAccount:
		return NewServiceAccount(a)
	case CA:
		return NewCA(a, "kubernetes", now, validity)
	case Etcd:
		return NewCA(a, "etcd-ca", now, validity)
	case FrontProxy:
		return NewCA(a, "front-proxy-ca", now, validity)
	}
	return Pair{}, fmt.Errorf("a pair for purpose %q is not generated: it has to be provided", p)
}

// Leaf describes a certificate to be signed.
type Leaf struct {
	CommonName   string
	Organization []string
	DNSNames     []string
	IPs          []net.IP
	Client       bool          // it authenticates a client
	Server       bool          // it authenticates a server
	Algorithm    Algorithm     // of its key
	Now          time.Time     // it is valid from about now
	Validity     time.Duration // zero means LeafValidity; never beyond the authority's
}

// Issue signs a new certificate for a new key.
func (p Pair) Issue(l Leaf) (Pair, error) {
	if !p.HasKey() {
		return Pair{}, ErrNoKey
	}
	if err := p.Check(CA); err != nil {
		return Pair{}, err
	}
	ca, err := ParseCertificate(p.Cert)
	if err != nil {
		return Pair{}, err
	}
	caKey, err := ParseKey(p.Key)
	if err != nil {
		return Pair{}, err
	}
	key, err := NewKey(l.Algorithm)
	if err != nil {
		return Pair{}, err
	}
	return sign(l.template(ca), ca, key, caKey)
}

func (l Leaf) template(ca *x509.Certificate) *x509.Certificate {
	validity := l.Validity
	if validity == 0 {
		validity = LeafValidity
	}
	from, to := l.Now.Add(-skew), l.Now.Add(validity)
	if from.Before(ca.NotBefore) {
		from = ca.NotBefore
	}
	if to.After(ca.NotAfter) {
		to = ca.NotAfter
	}
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: l.CommonName, Organization: l.Organization},
		DNSNames:    l.DNSNames,
		IPAddresses: l.IPs,
		NotBefore:   from.UTC(),
		NotAfter:    to.UTC(),
		KeyUsage:    x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
	}
	if l.Client {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if l.Server {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return t
}

func sign(template, parent *x509.Certificate, key, parentKey crypto.Signer) (Pair, error) {
	cert, err := Sign(template, parent, key.Public(), parentKey)
	if err != nil {
		return Pair{}, err
	}
	private, err := EncodeKey(key)
	return Pair{Cert: EncodeCertificate(cert), Key: private}, err
}

// Sign signs a certificate for a public key, with a new serial number. All certificates
// of this module are signed here.
func Sign(template, parent *x509.Certificate, key crypto.PublicKey, parentKey crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1)) // zero is not allowed
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %q: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// EncodeCertificate writes a certificate in PEM.
func EncodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// EncodeKey writes an ECDSA or RSA key in PEM, in the forms that every Kubernetes
// component reads.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			return nil, fmt.Errorf("encode key: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
	case *rsa.PrivateKey:
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)}), nil
	}
	return nil, fmt.Errorf("a %T cannot be encoded", key)
}
