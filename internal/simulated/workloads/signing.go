// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var signingRequests = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}

// longestCertificate is how long a signed certificate is valid, unless less is
// requested.
const longestCertificate = 365 * 24 * time.Hour

// signingRequest approves what kubelets may have, and signs what is approved.
func (c *Controllers) signingRequest(key store.Key) (time.Time, error) {
	r := read[certificatesv1.CertificateSigningRequest](c, key)
	if r == nil || len(r.Status.Certificate) > 0 || has(r, certificatesv1.CertificateDenied) || has(r, certificatesv1.CertificateFailed) {
		return time.Time{}, nil
	}
	asked, err := parseRequest(r)
	if !has(r, certificatesv1.CertificateApproved) {
		if err == nil && c.mayHave(r, asked) {
			return time.Time{}, c.condition(r, certificatesv1.CertificateApproved, "AutoApproved", "Auto approving kubelet client certificate after SubjectAccessReview.")
		}
		return time.Time{}, nil
	}
	check, known := signers[r.Spec.SignerName]
	if !known || !c.ca.HasKey() {
		return time.Time{}, nil // for another signer
	}
	if err == nil {
		err = check(r, asked)
	}
	if err != nil {
		return time.Time{}, c.condition(r, certificatesv1.CertificateFailed, "SignerValidationFailure", err.Error())
	}
	signed, err := c.sign(r, asked)
	if err != nil {
		return time.Time{}, err
	}
	return time.Time{}, modify(c, named(r), func(o *certificatesv1.CertificateSigningRequest) error {
		o.Status.Certificate = signed
		return nil
	})
}

func has(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
}

func named(r *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}
}

func (c *Controllers) condition(r *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType, reason, message string) error {
	at := metav1.NewTime(c.clock.Now())
	return modify(c, named(r), func(o *certificatesv1.CertificateSigningRequest) error {
		o.Status.Conditions = append(o.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: at, LastTransitionTime: at,
		})
		return nil
	})
}

func parseRequest(r *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("spec.request is no PEM block of type CERTIFICATE REQUEST")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = asked.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("spec.request: %w", err)
	}
	return asked, nil
}

// mayHave reports whether a kubelet requests a client certificate that roles allow
// without approval: its first, or that of its own Node.
func (c *Controllers) mayHave(r *certificatesv1.CertificateSigningRequest, asked *x509.CertificateRequest) bool {
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || kubeletClient(r, asked) != nil {
		return false
	}
	sub := "nodeclient"
	if asked.Subject.CommonName == r.Spec.Username {
		sub = "selfnodeclient"
	}
	user := access.User{Name: r.Spec.Username, UID: r.Spec.UID, Groups: r.Spec.Groups}
	return access.NewAuthorizer(c.store).May(user, access.Attributes{
		Verb: "create", Group: signingRequests.Group, Resource: signingRequests.Resource, Sub: sub, Name: r.Name,
	})
}

// signers are those of a control plane, with what each refuses.
var signers = map[string]func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) error{
	certificatesv1.KubeAPIServerClientSignerName: func(r *certificatesv1.CertificateSigningRequest, _ *x509.CertificateRequest) error {
		return usages(r, certificatesv1.UsageClientAuth)
	},
	certificatesv1.KubeAPIServerClientKubeletSignerName: kubeletClient,
	certificatesv1.KubeletServingSignerName:             kubeletServing,
}

// usages refuses requests for more than a certificate of one use.
func usages(r *certificatesv1.CertificateSigningRequest, use certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{use, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	for _, u := range r.Spec.Usages {
		if !slices.Contains(allowed, u) {
			return fmt.Errorf("usage %q is none of %q", u, allowed)
		}
	}
	if !slices.Contains(r.Spec.Usages, use) {
		return fmt.Errorf("usage %q is missing", use)
	}
	return nil
}

func ofNode(asked *x509.CertificateRequest) error {
	if !slices.Equal(asked.Subject.Organization, []string{access.Nodes}) {
		return fmt.Errorf("organization is %q, and has to be %q", asked.Subject.Organization, access.Nodes)
	}
	if !strings.HasPrefix(asked.Subject.CommonName, "system:node:") {
		return fmt.Errorf("common name is %q, and has to begin with system:node:", asked.Subject.CommonName)
	}
	if len(asked.EmailAddresses)+len(asked.URIs) > 0 {
		return errors.New("email addresses and URIs are not allowed")
	}
	return nil
}

func kubeletClient(r *certificatesv1.CertificateSigningRequest, asked *x509.CertificateRequest) error {
	if len(asked.DNSNames)+len(asked.IPAddresses) > 0 {
		return errors.New("subject alternative names are not allowed")
	}
	return cmp.Or(ofNode(asked), usages(r, certificatesv1.UsageClientAuth))
}

func kubeletServing(r *certificatesv1.CertificateSigningRequest, asked *x509.CertificateRequest) error {
	if len(asked.DNSNames)+len(asked.IPAddresses) == 0 {
		return errors.New("at least one DNS name or IP address is needed")
	}
	return cmp.Or(ofNode(asked), usages(r, certificatesv1.UsageServerAuth))
}

func (c *Controllers) sign(r *certificatesv1.CertificateSigningRequest, asked *x509.CertificateRequest) ([]byte, error) {
	ca, err := certs.ParseCertificate(c.ca.Cert)
	if err != nil {
		return nil, fmt.Errorf("certificate of the cluster's CA: %w", err)
	}
	var key crypto.Signer
	if key, err = certs.ParseKey(c.ca.Key); err != nil {
		return nil, fmt.Errorf("key of the cluster's CA: %w", err)
	}
	validity := longestCertificate
	if s := r.Spec.ExpirationSeconds; s != nil {
		validity = min(validity, time.Duration(*s)*time.Second)
	}
	const backdated = 5 * time.Minute // for clocks that are behind, as upstream's signer does
	now := c.clock.Now()
	template := &x509.Certificate{
		Subject: asked.Subject, DNSNames: asked.DNSNames, IPAddresses: asked.IPAddresses, EmailAddresses: asked.EmailAddresses, URIs: asked.URIs,
		NotBefore: now.Add(-backdated), NotAfter: now.Add(validity - backdated), BasicConstraintsValid: true,
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	for _, u := range r.Spec.Usages {
		switch u {
		case certificatesv1.UsageDigitalSignature:
			template.KeyUsage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			template.KeyUsage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
		case certificatesv1.UsageServerAuth:
			template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		}
	}
	cert, err := certs.Sign(template, ca, asked.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign CertificateSigningRequest %s: %w", r.Name, err)
	}
	return certs.EncodeCertificate(cert), nil
}
