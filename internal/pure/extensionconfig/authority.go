// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// authorityKey is where a Secret keeps the certificate of an authority.
const authorityKey = "ca.crt"

// AuthoritySecret is the Secret with the certificate authority of an extension; empty if
// the user sets the authority directly.
func AuthoritySecret(config *runtimev1.ExtensionConfig) (types.NamespacedName, error) {
	value, annotated := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	if !annotated {
		return types.NamespacedName{}, nil
	}
	key, err := fieldvalidation.SecretKey(value)
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("annotation %s: %w", runtimev1.InjectCAFromSecretAnnotation, err)
	}
	return key, nil
}

// Authority reads the certificate authority from its Secret, nil if that does not exist.
// A user who can write an ExtensionConfig may not be permitted to read Secrets:
// certificates are public, and nothing else of the Secret is copied.
func Authority(key types.NamespacedName, secret *corev1.Secret) ([]byte, error) {
	named := fmt.Sprintf("Secret %s, named by annotation %s,", key, runtimev1.InjectCAFromSecretAnnotation)
	if secret == nil {
		return nil, fmt.Errorf("%s does not exist: create it, or correct the annotation", named)
	}
	bundle, ok := secret.Data[authorityKey]
	if !ok {
		return nil, fmt.Errorf("%s has no key %s", named, authorityKey)
	}
	bundle, err := fieldvalidation.CertificateBundle(bundle)
	if err != nil {
		return nil, fmt.Errorf("%s of Secret %s, named by annotation %s: %w", authorityKey, key, runtimev1.InjectCAFromSecretAnnotation, err)
	}
	return bundle, nil
}
