// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// The form of a cluster's Secret.
const (
	SecretType       = clusterv1.ClusterSecretType
	ClusterNameLabel = clusterv1.ClusterNameLabel

	CertKey       = corev1.TLSCertKey       // the certificate, or the public key
	PrivateKeyKey = corev1.TLSPrivateKeyKey // the private key
)

// Secret is the Secret in which the pair of a cluster is kept. Owner may be
// nil, for a pair that must outlive everything.
func (p Pair) Secret(cluster types.NamespacedName, purpose Purpose, owner *metav1.OwnerReference) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace,
			Name:      SecretName(cluster.Name, purpose),
			Labels:    map[string]string{ClusterNameLabel: cluster.Name},
		},
		Type: SecretType,
		Data: map[string][]byte{CertKey: p.Cert},
	}
	if p.HasKey() {
		s.Data[PrivateKeyKey] = p.Key
	}
	if owner != nil {
		s.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return s
}

// FromSecret reads a pair and checks it. The error names the Secret, its key,
// what is wrong and what to do.
func FromSecret(s *corev1.Secret, purpose Purpose) (Pair, error) {
	p := Pair{Cert: s.Data[CertKey], Key: s.Data[PrivateKeyKey]}
	field, err := CertKey, error(nil)
	if len(p.Cert) == 0 {
		err = errors.New("it is missing")
	} else {
		field, err = p.check(purpose)
	}
	if err != nil {
		return Pair{}, inSecret(s, purpose, field, err)
	}
	return p, nil
}

// WithKey is FromSecret of a pair whose key is needed, too.
func WithKey(s *corev1.Secret, purpose Purpose) (Pair, error) {
	p, err := FromSecret(s, purpose)
	if err == nil && !p.HasKey() {
		return Pair{}, inSecret(s, purpose, PrivateKeyKey, errors.New("it is missing or empty"))
	}
	return p, err
}

func inSecret(s *corev1.Secret, purpose Purpose, field string, err error) error {
	return fmt.Errorf("secret %s/%s, key %q: %w; %s", s.Namespace, s.Name, field, err, remedy(purpose, field))
}

func remedy(purpose Purpose, field string) string {
	switch {
	case purpose == ServiceAccount && field == CertKey:
		return "put the PEM encoded public key of the service account signing key there"
	case purpose == ServiceAccount:
		return "put the PEM encoded service account signing key there"
	case field == CertKey && isAuthority(purpose):
		return "put the PEM encoded certificate of the certificate authority there"
	case field == CertKey:
		return "put a PEM encoded certificate there"
	default:
		if purpose == Etcd {
			return "put the PEM encoded private key of the certificate in " + CertKey + " there, or remove it if etcd is external"
		}
		return "put the PEM encoded private key of the certificate in " + CertKey + " there"
	}
}
