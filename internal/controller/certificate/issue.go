// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"encoding/pem"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/certificate"
)

const (
	caKey       = "ca.crt"
	derKey      = "key.der"
	combinedKey = "tls-combined.pem"

	// manager is the field manager of Secrets: it identifies the labels and
	// annotations that this controller set.
	manager = "capstan-certificate"
)

// issue signs a certificate if one is due. write stores it, together with the other
// changes to the Secret.
func (r *Reconciler) issue(ctx context.Context, s *state) (reconciler.Next, error) {
	due := s.plan.Issue
	if due == nil {
		if o := s.plan.Obstacle; o != nil {
			ctrl.LoggerFrom(ctx).V(2).Info("Issuing no certificate", "reason", o.Message)
		}
		return reconciler.Continue(), nil
	}
	ctrl.LoggerFrom(ctx).Info("Issuing a certificate", "reason", due.Message)
	if s.plan.NewKey {
		key, err := s.request.Key.Make()
		if err != nil {
			return reconciler.Continue(), fmt.Errorf("make a key: %w", err)
		}
		s.key = key
	}
	signed, err := s.authority.Sign(s.request, s.key, s.facts.Now)
	if err != nil {
		return reconciler.Continue(), err
	}
	s.found, s.issued = signed, due
	return reconciler.Continue(), nil
}

// write updates the Secret to the state that the Certificate requests, if the
// Secret has that Certificate's certificate, or gets one now. One write stores the
// certificate with its key; a concurrent write of another client causes a conflict.
func (r *Reconciler) write(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.issued == nil && (s.plan.Violation != nil || s.facts.Problem != "") {
		return reconciler.Continue(), nil
	}
	live := s.facts.Secret.Object
	secret, err := s.wanted(live)
	if err != nil {
		return reconciler.Continue(), err
	}
	switch {
	case live == nil:
		err = r.Mgmt.Create(ctx, secret, client.FieldOwner(manager))
	case !equality.Semantic.DeepEqual(live, secret):
		err = r.Mgmt.Update(ctx, secret, client.FieldOwner(manager)) // with the resource version that was read
	}
	if err != nil {
		return reconciler.Continue(), fmt.Errorf("write Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if s.issued != nil { // the status reports what is stored
		s.see(secret)
		conditions.Delete(s.facts.Certificate, certmanagerv1.IssuingCondition) // which may have requested the certificate
		s.plan = certificate.Decide(s.facts)
	}
	return reconciler.Continue(), nil
}

// wanted returns the Secret with the certificate, its key, and the metadata that
// the Certificate defines. Data of other clients stays.
func (s *state) wanted(live *corev1.Secret) (*corev1.Secret, error) {
	c := s.facts.Certificate
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Spec.SecretName}, Type: corev1.SecretTypeTLS}
	if live != nil {
		secret = live.DeepCopy()
	}
	cert := s.found.Certificate
	names := certificate.Names{Common: cert.Subject.CommonName, DNS: cert.DNSNames, Emails: cert.EmailAddresses, IPs: texts(cert.IPAddresses), URIs: texts(cert.URIs)}
	labels, annotations := certificate.Metadata(c, names)
	if _, err := metadata.Sync(secret, manager, metadata.Want{Labels: labels, Annotations: annotations}); err != nil {
		return nil, err
	}
	data := maps.Clone(secret.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	if s.issued != nil {
		key, err := s.request.Key.Encode(s.key)
		if err != nil {
			return nil, err
		}
		data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[caKey] = s.found.Chain, key, s.found.CA
	}
	further(c, data)
	secret.Data = data
	return secret, nil
}

// further adds the requested output formats of certificate and key, and removes the
// others.
func further(c *certmanagerv1.Certificate, data map[string][]byte) {
	key := data[corev1.TLSPrivateKeyKey]
	for at, form := range map[string]struct {
		format string
		make   func() []byte
	}{
		derKey: {certmanagerv1.OutputDER, func() []byte {
			block, _ := pem.Decode(key)
			return block.Bytes
		}},
		combinedKey: {certmanagerv1.OutputCombinedPEM, func() []byte {
			return append(append(append([]byte{}, key...), '\n'), data[corev1.TLSCertKey]...)
		}},
	} {
		if delete(data, at); certificate.Wants(c, form.format) {
			data[at] = form.make()
		}
	}
}

func texts[T fmt.Stringer](all []T) (out []string) {
	for _, v := range all {
		out = append(out, v.String())
	}
	return out
}
