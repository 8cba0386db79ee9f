// SPDX-License-Identifier: Apache-2.0

// Package certs creates and reads the certificates of a workload cluster: its
// certificate authorities, certificates signed by them, and the service account key
// pair, in PEM and as Secrets.
//
// A Request is what a Certificate of the group cert-manager.io requests; an Authority
// signs it. Files serves a certificate and its key from two files, and reads them again
// when they change, so that a renewal requires no restart: it checks them when the
// certificate is requested, at most once a second, and has no goroutine.
//
// No error of this package contains a key, nor any part of a Secret's data.
package certs

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Purpose is the use of a pair, and the suffix of its Secret's name.
type Purpose string

// The purposes of certificates and keys of a cluster.
const (
	CA                  Purpose = "ca"                    // signs the API server, kubelets and clients
	Etcd                Purpose = "etcd"                  // signs etcd members and their clients
	FrontProxy          Purpose = "proxy"                 // signs the aggregation layer's client
	ServiceAccount      Purpose = "sa"                    // signs service account tokens: a key pair without certificate
	APIServerEtcdClient Purpose = "apiserver-etcd-client" // the API server's client certificate for an external etcd
	Kubeconfig          Purpose = "kubeconfig"            // an admin kubeconfig; see package kubeconfig
)

// The validity of certificates unless the caller requests another.
const (
	CAValidity   = 10 * 365 * 24 * time.Hour
	LeafValidity = 365 * 24 * time.Hour
)

// maxPEM bounds what is parsed: a chain of a few RSA-4096 certificates fits
// many times.
const maxPEM = 256 << 10

// SecretName is the name of the Secret that holds a cluster's pair.
func SecretName(cluster string, p Purpose) string { return cluster + "-" + string(p) }

// IsOf reports whether the Secret of that name holds a pair of the cluster, or
// its kubeconfig.
func IsOf(cluster, secret string) bool {
	return slices.ContainsFunc([]Purpose{CA, Etcd, FrontProxy, ServiceAccount, APIServerEtcdClient, Kubeconfig}, func(p Purpose) bool {
		return secret == SecretName(cluster, p)
	})
}

// Pair is a certificate and its key in PEM. For ServiceAccount, Cert is the public
// key. Key is empty where it is stored outside the management cluster: an external
// CA.
type Pair struct {
	Cert, Key []byte
}

// HasKey reports whether the pair has its key, so that it can sign.
func (p Pair) HasKey() bool { return len(p.Key) > 0 }

// String keeps keys out of logs.
func (p Pair) String() string { return "certificate pair" }

// GoString keeps keys out of logs.
func (p Pair) GoString() string { return "certs.Pair{…}" }

// Errors for pairs that are not usable.
var (
	ErrNotPEM   = errors.New("it holds no PEM block of the expected kind")
	ErrTooLarge = fmt.Errorf("it is larger than %d KiB", maxPEM>>10)
	ErrMismatch = errors.New("the key does not belong to the certificate")
	ErrNotCA    = errors.New("the certificate is not one of a certificate authority")
	ErrNoKey    = errors.New("the key of the certificate authority is not known")
)

// ParseCertificates returns all certificates of a PEM bundle: at least one.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	if len(data) > maxPEM {
		return nil, ErrTooLarge
	}
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(all)+1, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, ErrNotPEM
	}
	return all, nil
}

// ParseCertificate returns the first certificate of a PEM bundle.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	all, err := ParseCertificates(data)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// ParseKey reads a private key in PKCS#1, PKCS#8 or SEC 1 form.
func ParseKey(data []byte) (crypto.Signer, error) {
	if len(data) > maxPEM {
		return nil, ErrTooLarge
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return nil, ErrNotPEM
		}
		key, err := parseKeyBlock(block)
		if err != nil || key != nil {
			return key, err
		}
	}
}

// parseKeyBlock returns nil for a block of another kind. The parsers' own
// errors are left out: they may quote what they could not read.
func parseKeyBlock(block *pem.Block) (crypto.Signer, error) {
	var (
		key any
		err error
	)
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the %s cannot be parsed", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

// Check reports whether the pair is usable for its purpose: certificate and key
// parse and belong together, and an authority is one. A missing key is no error:
// callers that need it check HasKey.
func (p Pair) Check(purpose Purpose) error {
	if field, err := p.check(purpose); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// check also returns the key of the Secret that the error concerns.
func (p Pair) check(purpose Purpose) (field string, err error) {
	public, err := p.public(purpose)
	if err != nil {
		return CertKey, err
	}
	if !p.HasKey() {
		return "", nil
	}
	key, err := ParseKey(p.Key)
	if err != nil {
		return PrivateKeyKey, err
	}
	if known, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !known.Equal(public) {
		return PrivateKeyKey, ErrMismatch
	}
	return "", nil
}

func (p Pair) public(purpose Purpose) (crypto.PublicKey, error) {
	if purpose == ServiceAccount {
		return parsePublicKey(p.Cert)
	}
	cert, err := ParseCertificate(p.Cert)
	if err != nil {
		return nil, err
	}
	if isAuthority(purpose) && !cert.IsCA {
		return nil, ErrNotCA
	}
	return cert.PublicKey, nil
}

func isAuthority(p Purpose) bool { return p == CA || p == Etcd || p == FrontProxy }

func parsePublicKey(data []byte) (crypto.PublicKey, error) {
	if len(data) > maxPEM {
		return nil, ErrTooLarge
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, ErrNotPEM
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the PUBLIC KEY cannot be parsed")
	}
	return key, nil
}

// PinHashes are the hashes of the bundle's public keys in the form in which
// kubeadm pins them when it discovers a cluster: "sha256:<hex>".
func PinHashes(bundle []byte) ([]string, error) {
	all, err := ParseCertificates(bundle)
	if err != nil {
		return nil, err
	}
	hashes := make([]string, 0, len(all))
	for _, cert := range all {
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		hashes = append(hashes, "sha256:"+hex.EncodeToString(sum[:]))
	}
	return hashes, nil
}
