// SPDX-License-Identifier: Apache-2.0

// Package certificate decides on the issuance of a Certificate of the group
// cert-manager.io, and on the injection of an authority into the objects that request
// it.
package certificate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// Facts are the input for a Certificate.
type Facts struct {
	Certificate *certmanagerv1.Certificate
	Now         time.Time
	Times       Times

	// Problem is what is wrong with the Certificate itself; "" if it is valid.
	Problem string
	// Others are the Certificates of its namespace that have the same Secret.
	Others []*certmanagerv1.Certificate
	Secret Secret
	Issuer Issuer
}

// Issuer is the issuer of the certificate.
type Issuer struct {
	// Missing reports that the issuer does not exist.
	Missing bool
	// NotReady is why it cannot issue; "" if it can.
	NotReady string
	// Other reports that the certificate is not one that the issuer would issue now.
	Other bool
}

// Secret is the observed Secret of a Certificate. The zero value means that it does not
// exist.
type Secret struct {
	Object *corev1.Secret
	// CertificateProblem and KeyProblem say why they cannot be read, Foreign that the
	// key does not belong to the certificate.
	CertificateProblem, KeyProblem string
	Foreign                        bool
	// Differences and KeyDifferences are the fields of the Certificate that the
	// certificate and its key do not match.
	Differences, KeyDifferences []string
	NotBefore, NotAfter         time.Time
}

// Reason is a reason with its message, as in a condition.
type Reason struct{ Reason, Message string }

// Plan is the decision.
type Plan struct {
	// Violation is why the Secret does not match the Certificate; nil if it does.
	Violation *Reason
	// Obstacle is why a certificate that is due is not issued; nil if none is.
	Obstacle *Reason
	// Waiting reports that the obstacle is removed by another controller or user.
	Waiting bool
	// Issue is why a certificate must be issued now; nil if none is.
	Issue *Reason
	// NewKey reports that the certificate gets a new key.
	NewKey bool
	// Renewal is when the existing certificate is renewed; zero if there is none to
	// renew.
	Renewal time.Time
}

// Decide returns the plan:
//
//   - A Secret that matches the Certificate stays unchanged until the certificate must
//     be renewed.
//   - Nothing is written to a Secret with data of another owner, or for a Certificate
//     whose Secret belongs to another Certificate. Of several Certificates, the Secret
//     belongs to the one whose certificate it holds, or to the oldest.
//   - A certificate is issued again when the Certificate, its issuer or the Secret
//     changed so that they no longer match, when its renewal is due, and when a
//     condition requests it.
//   - Each certificate gets a new key, unless rotationPolicy is Never and a key exists.
func Decide(f Facts) (p Plan) {
	p.Violation = f.violation()
	s := f.Secret
	if readable := s.Object != nil && s.CertificateProblem == "" && !s.NotAfter.IsZero(); readable && f.named() == f.Certificate.Name {
		p.Renewal = f.Times.Renewal(s.NotBefore, s.NotAfter)
	}
	due := p.Violation
	if due == nil && Asked(f.Certificate) {
		due = &Reason{certmanagerv1.ManuallyTriggeredReason, "a user requested a new certificate"}
	}
	if due == nil && !p.Renewal.IsZero() && !f.Now.Before(p.Renewal) {
		due = &Reason{certmanagerv1.RenewingReason, "the certificate is due for renewal since " + p.Renewal.Format(time.RFC3339)}
	}
	if f.Problem != "" {
		p.Obstacle = &Reason{certmanagerv1.FailedReason, f.Problem}
		return p
	}
	if due == nil {
		return p
	}
	if p.Obstacle = f.taken(); p.Obstacle == nil {
		p.Obstacle = f.issuer()
		p.Waiting = p.Obstacle != nil
	}
	never := f.Certificate.Spec.PrivateKey != nil && f.Certificate.Spec.PrivateKey.RotationPolicy == certmanagerv1.RotateNever
	hasKey := s.Object != nil && len(s.Object.Data[corev1.TLSPrivateKeyKey]) > 0
	if p.Obstacle == nil && never && hasKey && (s.KeyProblem != "" || len(s.KeyDifferences) > 0) {
		p.Obstacle = &Reason{certmanagerv1.SecretMismatchReason, fmt.Sprintf("the key in Secret %s is %s, and rotationPolicy is Never: set it to Always, or delete the Secret",
			f.Certificate.Spec.SecretName, cmp.Or(s.KeyProblem, "not as asked for by "+strings.Join(s.KeyDifferences, ", ")))}
	}
	if p.Obstacle == nil {
		p.Issue, p.NewKey = due, !never || !hasKey
	}
	return p
}

// named is the name of the Certificate whose certificate the Secret holds.
func (f Facts) named() string {
	if f.Secret.Object == nil {
		return ""
	}
	return f.Secret.Object.Annotations[certmanagerv1.CertificateNameAnnotation]
}

// Asked reports whether a condition requests a new certificate, as cmctl does.
func Asked(c *certmanagerv1.Certificate) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == certmanagerv1.IssuingCondition && c.Status == "True" && c.Reason == certmanagerv1.ManuallyTriggeredReason
	})
}

// violation is why the Secret does not match the Certificate, without its renewal time.
func (f Facts) violation() *Reason {
	s, spec := f.Secret, &f.Certificate.Spec
	if s.Object == nil {
		return &Reason{certmanagerv1.DoesNotExistReason, fmt.Sprintf("Secret %q does not exist", spec.SecretName)}
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(s.Object.Data[key]) == 0 {
			return &Reason{certmanagerv1.MissingDataReason, fmt.Sprintf("Secret %q has no data at %q", spec.SecretName, key)}
		}
	}
	annotations := s.Object.Annotations
	issuer := IssuerOf(f.Certificate)
	switch {
	case s.CertificateProblem != "":
		return &Reason{certmanagerv1.InvalidCertificateReason, fmt.Sprintf("the certificate in Secret %q cannot be read: %s", spec.SecretName, s.CertificateProblem)}
	case s.KeyProblem != "" || s.Foreign:
		return &Reason{certmanagerv1.InvalidKeyPairReason, fmt.Sprintf("the key in Secret %q is not that of its certificate", spec.SecretName)}
	case f.named() != f.Certificate.Name:
		return &Reason{certmanagerv1.IncorrectCertificateReason, fmt.Sprintf("Secret %q was issued for %q", spec.SecretName, f.named())}
	case f.Problem != "":
		return nil // nothing to compare with
	case len(s.KeyDifferences) > 0:
		return &Reason{certmanagerv1.SecretMismatchReason, "the key is not as asked for: " + strings.Join(s.KeyDifferences, ", ")}
	case annotations[certmanagerv1.IssuerNameAnnotation] != issuer.Name || annotations[certmanagerv1.IssuerKindAnnotation] != issuer.Kind:
		return &Reason{certmanagerv1.IncorrectIssuerReason, fmt.Sprintf("it was issued by %s %s", annotations[certmanagerv1.IssuerKindAnnotation], annotations[certmanagerv1.IssuerNameAnnotation])}
	case len(s.Differences) > 0:
		return &Reason{certmanagerv1.RequestChangedReason, "the certificate is not as asked for: " + strings.Join(s.Differences, ", ")}
	case f.Issuer.Other:
		return &Reason{certmanagerv1.IncorrectIssuerReason, fmt.Sprintf("the authority of %s %s has changed", issuer.Kind, issuer.Name)}
	case !f.Now.Before(s.NotAfter):
		return &Reason{certmanagerv1.ExpiredReason, "the certificate expired at " + s.NotAfter.Format(time.RFC3339)}
	}
	return nil
}

// taken is the owner of the Secret, if it is not for this Certificate.
func (f Facts) taken() *Reason {
	c, secret := f.Certificate, f.Secret.Object
	for _, o := range f.Others {
		if name := f.named(); o.Name == name || name != c.Name && older(o, c) {
			return &Reason{certmanagerv1.SecretInUseReason, fmt.Sprintf("Secret %q is that of Certificate %s: name another one in spec.secretName", c.Spec.SecretName, o.Name)}
		}
	}
	switch {
	case secret == nil:
		return nil
	case secret.DeletionTimestamp != nil:
		return &Reason{certmanagerv1.SecretInUseReason, fmt.Sprintf("Secret %q is being deleted", secret.Name)}
	case secret.Immutable != nil && *secret.Immutable:
		return &Reason{certmanagerv1.SecretInUseReason, fmt.Sprintf("Secret %q is immutable: delete it", secret.Name)}
	case f.named() != "": // of this Certificate, or of one that no longer has it
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if len(secret.Data[key]) > 0 {
			return &Reason{certmanagerv1.SecretInUseReason, fmt.Sprintf("Secret %q was not made for this Certificate and has data at %q: name another one in spec.secretName, or delete it, or let it be replaced by the annotation %s: %s",
				secret.Name, key, certmanagerv1.CertificateNameAnnotation, c.Name)}
		}
	}
	return nil
}

func older(a, b *certmanagerv1.Certificate) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// issuer is why the issuer cannot issue.
func (f Facts) issuer() *Reason {
	ref := IssuerOf(f.Certificate)
	switch {
	case f.Issuer.Missing:
		return &Reason{certmanagerv1.IssuerNotFoundReason, fmt.Sprintf("Waiting for %s %s to be created", ref.Kind, ref.Name)}
	case f.Issuer.NotReady != "":
		return &Reason{certmanagerv1.IssuerNotReadyReason, fmt.Sprintf("Waiting for %s %s: %s", ref.Kind, ref.Name, f.Issuer.NotReady)}
	}
	return nil
}

// IssuerOf is the reference of a Certificate with its defaults.
func IssuerOf(c *certmanagerv1.Certificate) certmanagerv1.IssuerReference {
	ref := c.Spec.IssuerRef
	ref.Kind = cmp.Or(ref.Kind, certmanagerv1.IssuerKind)
	ref.Group = cmp.Or(ref.Group, certmanagerv1.GroupVersion().Group)
	return ref
}
