// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
)

// Report fills the status of the Certificate of f from the last decision. issued reports
// that a certificate was issued before that.
func Report(f Facts, p Plan, issued bool) {
	c, s := f.Certificate, f.Secret
	if c.Status.NotBefore, c.Status.NotAfter, c.Status.RenewalTime = nil, nil, nil; !p.Renewal.IsZero() {
		c.Status.NotBefore, c.Status.NotAfter, c.Status.RenewalTime = date(s.NotBefore), date(s.NotAfter), date(p.Renewal)
	}
	switch {
	case issued && c.Status.Revision != nil:
		c.Status.Revision = new(*c.Status.Revision + 1)
	case issued, c.Status.Revision == nil && p.Violation == nil && f.Problem == "":
		c.Status.Revision = new(int64(1))
	}
	set := func(kind string, status metav1.ConditionStatus, r Reason) {
		conditions.Set(c, f.Now, metav1.Condition{Type: kind, Status: status, Reason: r.Reason, Message: r.Message, ObservedGeneration: c.Generation})
	}
	if not := notReady(p); not != nil {
		set(certmanagerv1.ReadyCondition, metav1.ConditionFalse, *not)
	} else {
		set(certmanagerv1.ReadyCondition, metav1.ConditionTrue, Reason{certmanagerv1.ReadyReason, "Certificate is up to date and has not expired"})
	}
	failed := p.Obstacle != nil && !p.Waiting
	switch {
	case failed:
		if !conditions.IsFalse(c, certmanagerv1.IssuingCondition) {
			c.Status.LastFailureTime = date(f.Now)
		}
		set(certmanagerv1.IssuingCondition, metav1.ConditionFalse, *p.Obstacle)
		return
	case p.Waiting && !Asked(c): // the request must not be lost
		set(certmanagerv1.IssuingCondition, metav1.ConditionTrue, *p.Obstacle)
	case !p.Waiting:
		conditions.Delete(c, certmanagerv1.IssuingCondition)
	}
	c.Status.LastFailureTime = nil
}

// notReady is why the Secret does not match the Certificate. A failure to issue is the
// cause, so its message is first.
func notReady(p Plan) *Reason {
	failed := p.Obstacle != nil && !p.Waiting && p.Obstacle.Reason == certmanagerv1.FailedReason
	switch {
	case p.Violation == nil && !failed:
		return nil
	case p.Obstacle == nil:
		return p.Violation
	case p.Violation == nil:
		return p.Obstacle
	}
	return &Reason{p.Obstacle.Reason, p.Obstacle.Message + "; " + p.Violation.Message}
}

func date(t time.Time) *metav1.Time { return new(metav1.NewTime(t.Truncate(time.Second))) }

// Metadata are the labels and annotations of the Secret of a Certificate: those of its
// template, and those that name its Certificate, which no template changes.
func Metadata(c *certmanagerv1.Certificate, n Names) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	if t := c.Spec.SecretTemplate; t != nil {
		maps.Copy(labels, t.Labels)
		maps.Copy(annotations, t.Annotations)
	}
	ref := IssuerOf(c)
	labels[certmanagerv1.ControllerLabel] = "true"
	maps.Copy(annotations, map[string]string{
		certmanagerv1.CertificateNameAnnotation: c.Name,
		certmanagerv1.IssuerNameAnnotation:      ref.Name,
		certmanagerv1.IssuerKindAnnotation:      ref.Kind,
		certmanagerv1.IssuerGroupAnnotation:     ref.Group,
		certmanagerv1.CommonNameAnnotation:      n.Common,
		certmanagerv1.AltNamesAnnotation:        strings.Join(n.DNS, ","),
		certmanagerv1.IPSANsAnnotation:          strings.Join(n.IPs, ","),
		certmanagerv1.URISANsAnnotation:         strings.Join(n.URIs, ","),
	})
	if len(n.Emails) > 0 {
		annotations[certmanagerv1.EmailSANsAnnotation] = strings.Join(n.Emails, ",")
	}
	return labels, annotations
}

// Names are the names in a certificate.
type Names struct {
	Common                 string
	DNS, IPs, URIs, Emails []string
}

// Wants reports whether a Certificate requests an additional format of its key.
func Wants(c *certmanagerv1.Certificate, format string) bool {
	return slices.ContainsFunc(c.Spec.AdditionalOutputFormats, func(f certmanagerv1.OutputFormat) bool { return f.Type == format })
}
