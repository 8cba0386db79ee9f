// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// Constants of bootstrap tokens, as Kubernetes and kubeadm define them.
const (
	// NodeGroup is the group that kubeadm permits to join.
	NodeGroup = "system:bootstrappers:kubeadm:default-node-token"

	// TokenSecretType is the type of a token's Secret.
	TokenSecretType corev1.SecretType = "bootstrap.kubernetes.io/token"

	// TokenNamespace is the namespace of tokens in the workload cluster.
	TokenNamespace = metav1.NamespaceSystem

	tokenSecretPrefix = "bootstrap-token-"
	expirationKey     = "expiration"
)

// TokenSecretName is the name of the Secret of a token, from its ID.
func TokenSecretName(id string) string { return tokenSecretPrefix + id }

// TokenSecret is a token with which one machine can join until it expires.
func TokenSecret(token bootstrapv1.BootstrapTokenString, description string, expires time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: TokenNamespace, Name: TokenSecretName(token.ID)},
		Type:       TokenSecretType,
		Data: map[string][]byte{
			"token-id":                       []byte(token.ID),
			"token-secret":                   []byte(token.Secret),
			expirationKey:                    []byte(expires.UTC().Format(time.RFC3339)),
			"usage-bootstrap-signing":        []byte("true"),
			"usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups":              []byte(NodeGroup),
			"description":                    []byte(description),
		},
	}
}

// TokenExpiry is when the token of a Secret expires; zero if never.
func TokenExpiry(s *corev1.Secret) (time.Time, error) {
	raw, ok := s.Data[expirationKey]
	if !ok || len(raw) == 0 {
		return time.Time{}, nil
	}
	expires, err := time.Parse(time.RFC3339, string(raw))
	if err != nil {
		return time.Time{}, fmt.Errorf("secret %s/%s: %q is not a time in RFC 3339", s.Namespace, s.Name, expirationKey)
	}
	return expires, nil
}

// ExtendToken sets when the token of a Secret expires.
func ExtendToken(s *corev1.Secret, expires time.Time) {
	s.Data[expirationKey] = []byte(expires.UTC().Format(time.RFC3339))
}

// TokenUpkeep returns whether to extend a token now, and when to check it again. The
// token of a machine without a node is extended when less than 5/6 of its time to live
// is left; a check every third of that time never lets it expire. A token that never
// expires needs no upkeep.
func TokenUpkeep(now, expires time.Time, ttl time.Duration) (extend bool, lookAgain time.Duration) {
	if expires.IsZero() {
		return false, 0
	}
	return expires.Sub(now) < ttl*5/6, ttl / 3
}
