// SPDX-License-Identifier: Apache-2.0

package fieldvalidation

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxBundle is the maximum size of a caBundle in an ExtensionConfig.
const maxBundle = 51200

// CertificateBundle validates a caBundle: certificates in PEM, at least one, and all of
// them valid. It returns them without the text around them.
func CertificateBundle(bundle []byte) (alone []byte, err error) {
	if len(bundle) > maxBundle {
		return nil, fmt.Errorf("has %d bytes, and may have %d", len(bundle), maxBundle)
	}
	found := 0
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a PEM block of type %q: only certificates belong there", block.Type)
		}
		found++
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", found, err)
		}
		alone = append(alone, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	if found == 0 {
		return nil, errors.New("holds no certificate in PEM form")
	}
	return alone, nil
}

// SecretKey reads the name of a Secret in the form namespace/name.
func SecretKey(text string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(text, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q does not name a Secret: write namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
