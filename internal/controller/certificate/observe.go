// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/certificate"
)

// state has what one reconcile has read.
type state struct {
	facts certificate.Facts
	plan  certificate.Plan

	request   certs.Request   // valid unless facts.Problem is set
	authority certs.Authority // valid unless facts.Issuer reports a problem
	key       crypto.Signer   // in the Secret; nil if there is none
	found     certs.Signed    // in the Secret
	before    []metav1.Condition
	issued    *certificate.Reason // why a certificate was issued; nil if none was
}

// told reports whether the Certificate already had this reason in its conditions.
func (s *state) told(r *certificate.Reason) bool {
	before := &certmanagerv1.Certificate{Status: certmanagerv1.CertificateStatus{Conditions: s.before}}
	return conditions.Reason(before, certmanagerv1.IssuingCondition) == r.Reason && conditions.Message(before, certmanagerv1.IssuingCondition) == r.Message
}

// observe reads the state. It returns none for a Certificate that is being deleted,
// or that cert-manager itself handles.
func (r *Reconciler) observe(ctx context.Context, c *certmanagerv1.Certificate) (*state, error) {
	if honoured, err := issuersHonoured(ctx, r.Mgmt); err != nil || !honoured || !c.DeletionTimestamp.IsZero() {
		return nil, err
	}
	s := &state{before: c.Status.Conditions, facts: certificate.Facts{Certificate: c, Now: r.Clock.Now()}}
	if err := s.read(); err != nil {
		s.facts.Problem = strings.Join(strings.Split(err.Error(), "\n"), "; ")
	}
	issuer, err := getIssuer(ctx, r.Mgmt, c)
	if err != nil {
		return nil, err
	}
	own := client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.SecretName}
	follow := []client.ObjectKey{own}
	if issuer != nil {
		follow = append(follow, issuerSecret(issuer))
	}
	r.Secrets.Follow(client.ObjectKeyFromObject(c), follow...) // before they are read: no change is missed
	if s.facts.Others, err = r.others(ctx, c); err != nil {
		return nil, err
	}
	if err := r.open(ctx, s, issuer); err != nil {
		return nil, err
	}
	if own.Name != "" {
		secret := &corev1.Secret{}
		if err := r.Live.Get(ctx, own, secret); err == nil {
			s.see(secret)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("get Secret %s: %w", own, err)
		}
	}
	s.plan = certificate.Decide(s.facts)
	return s, nil
}

// read parses the request.
func (s *state) read() error {
	c := s.facts.Certificate
	times, wrongTimes := certificate.ReadTimes(&c.Spec)
	request, wrong := certs.NewRequest(&c.Spec, times.Duration)
	s.facts.Times, s.request = times, request
	return errors.Join(certificate.Check(c), wrong, wrongTimes)
}

func (r *Reconciler) open(ctx context.Context, s *state, issuer issuerSpec) error {
	if s.facts.Issuer.Missing = issuer == nil; issuer == nil {
		return nil
	}
	authority, problem, err := openAuthority(ctx, r.Live, issuer, s.facts.Now)
	if problem != nil {
		s.facts.Issuer.NotReady = problem.Message
	}
	s.authority = authority
	return err
}

// others returns the Certificates of the namespace that have the same Secret.
func (r *Reconciler) others(ctx context.Context, c *certmanagerv1.Certificate) (all []*certmanagerv1.Certificate, err error) {
	list := &certmanagerv1.CertificateList{}
	if err := r.Mgmt.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingFields{SecretName: c.Spec.SecretName}); err != nil {
		return nil, fmt.Errorf("list Certificates with Secret %s/%s: %w", c.Namespace, c.Spec.SecretName, err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != c.Name && other.DeletionTimestamp.IsZero() {
			all = append(all, other)
		}
	}
	return all, nil
}

// see reads the content of a Secret.
func (s *state) see(secret *corev1.Secret) {
	s.facts.Secret = certificate.Secret{Object: secret}
	s.key, s.found = nil, certs.Signed{}
	seen := &s.facts.Secret
	if data := secret.Data[corev1.TLSPrivateKeyKey]; len(data) > 0 {
		key, err := certs.ParseKey(data)
		if err != nil {
			seen.KeyProblem = "not readable: " + err.Error()
		} else {
			s.key, seen.KeyDifferences = key, s.request.Key.Differences(key)
		}
	}
	data := secret.Data[corev1.TLSCertKey]
	if len(data) == 0 {
		return
	}
	cert, err := certs.ParseCertificate(data)
	if err != nil {
		seen.CertificateProblem = err.Error()
		return
	}
	s.found = certs.Signed{Certificate: cert, Chain: data, CA: secret.Data[caKey]}
	seen.NotBefore, seen.NotAfter, seen.Differences = cert.NotBefore, cert.NotAfter, s.request.Differences(cert)
	if s.key != nil {
		public, ok := s.key.Public().(interface{ Equal(crypto.PublicKey) bool })
		seen.Foreign = !ok || !public.Equal(cert.PublicKey)
	}
	ready := !s.facts.Issuer.Missing && s.facts.Issuer.NotReady == ""
	s.facts.Issuer.Other = ready && s.authority.Check(s.found) != nil
}
