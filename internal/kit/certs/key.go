// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

var ecdsaOfSize = map[int64]Algorithm{256: ECDSAP256, 384: ECDSAP384, 521: ECDSAP521}

// Key is what a key is like.
type Key struct {
	Algorithm string
	Size      int64 // in bits; 0 of Ed25519
	PKCS8     bool
}

// read reads the request for a key.
func (k *Key) read(want *certmanagerv1.PrivateKey) (err error) {
	if want == nil {
		want = &certmanagerv1.PrivateKey{}
	}
	k.Algorithm = cmp.Or(want.Algorithm, certmanagerv1.RSA)
	switch k.Algorithm {
	case certmanagerv1.RSA:
		if k.Size = cmp.Or(want.Size, MinRSA); k.Size < MinRSA || k.Size > MaxRSA {
			err = fmt.Errorf("spec.privateKey.size: %d is not between %d and %d", k.Size, MinRSA, MaxRSA)
		}
	case certmanagerv1.ECDSA:
		if k.Size = cmp.Or(want.Size, 256); ecdsaOfSize[k.Size] == "" {
			err = fmt.Errorf("spec.privateKey.size: %d is none of 256, 384 and 521", k.Size)
		}
	case certmanagerv1.Ed25519:
	default:
		err = fmt.Errorf("spec.privateKey.algorithm: %q is none of RSA, ECDSA and Ed25519", k.Algorithm)
	}
	switch cmp.Or(want.Encoding, certmanagerv1.PKCS1) {
	case certmanagerv1.PKCS1:
		k.PKCS8 = k.Algorithm == certmanagerv1.Ed25519 // which has no other form
	case certmanagerv1.PKCS8:
		k.PKCS8 = true
	default:
		err = errors.Join(err, fmt.Errorf("spec.privateKey.encoding: %q is none of PKCS1 and PKCS8", want.Encoding))
	}
	switch want.RotationPolicy {
	case "", certmanagerv1.RotateAlways, certmanagerv1.RotateNever:
	default:
		err = errors.Join(err, fmt.Errorf("spec.privateKey.rotationPolicy: %q is none of Always and Never", want.RotationPolicy))
	}
	return err
}

// Make generates a key.
func (k Key) Make() (crypto.Signer, error) {
	switch k.Algorithm {
	case certmanagerv1.RSA:
		return NewKey(RSA(k.Size))
	case certmanagerv1.ECDSA:
		return NewKey(ecdsaOfSize[k.Size])
	}
	return NewKey(Ed25519)
}

// Differences are the fields of a Certificate that a key does not hold to.
func (k Key) Differences(key crypto.Signer) []string {
	algorithm, size := "", int64(0)
	switch key := key.(type) {
	case *rsa.PrivateKey:
		algorithm, size = certmanagerv1.RSA, int64(key.N.BitLen())
	case *ecdsa.PrivateKey:
		algorithm, size = certmanagerv1.ECDSA, int64(key.Curve.Params().BitSize)
	case ed25519.PrivateKey:
		algorithm = certmanagerv1.Ed25519
	}
	switch {
	case algorithm != k.Algorithm:
		return []string{"spec.privateKey.algorithm"}
	case size != k.Size:
		return []string{"spec.privateKey.size"}
	}
	return nil
}

// Encode writes a key in PEM.
func (k Key) Encode(key crypto.Signer) ([]byte, error) {
	if _, other := key.(ed25519.PrivateKey); !k.PKCS8 && !other {
		return EncodeKey(key)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
