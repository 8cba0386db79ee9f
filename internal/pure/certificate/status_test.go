// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

// TestReportFollowsPlan shows a status in one line: conditions, revision, times.
func TestReportFollowsPlan(t *testing.T) {
	t.Parallel()
	asked := func(c *certmanagerv1.Certificate) {
		c.Status.Conditions = []metav1.Condition{{Type: "Issuing", Status: "True", Reason: "ManuallyTriggered", Message: "by a user"}}
	}
	failedBefore := func(c *certmanagerv1.Certificate) {
		c.Status.Conditions = []metav1.Condition{{Type: "Issuing", Status: "False", Reason: "Failed"}}
		c.Status.LastFailureTime = new(metav1.NewTime(now.Add(-time.Hour)))
	}
	some := func(reason string) *Reason { return &Reason{reason, strings.ToLower(reason)} }
	renewal := now.Add(50 * day)
	tests := map[string]struct {
		before func(*certmanagerv1.Certificate)
		plan   Plan
		issued bool
		want   string
	}{
		"it matches":                {plan: Plan{Renewal: renewal}, want: "Ready=True/Ready revision=1 until=2026-10-20 renewal=2026-09-20"},
		"it was issued again":       {before: func(c *certmanagerv1.Certificate) { c.Status.Revision = new(int64(4)) }, plan: Plan{Renewal: renewal}, issued: true, want: "Ready=True/Ready revision=5 until=2026-10-20 renewal=2026-09-20"},
		"the first one":             {plan: Plan{Renewal: renewal}, issued: true, want: "Ready=True/Ready revision=1 until=2026-10-20 renewal=2026-09-20"},
		"it waits for its issuer":   {plan: Plan{Violation: some("DoesNotExist"), Obstacle: some("IssuerNotFound"), Waiting: true}, want: "Ready=False/IssuerNotFound:issuernotfound; doesnotexist Issuing=True/IssuerNotFound:issuernotfound"},
		"a request is not lost":     {before: asked, plan: Plan{Obstacle: some("IssuerNotFound"), Waiting: true, Renewal: renewal}, want: "Ready=True/Ready Issuing=True/ManuallyTriggered:by a user revision=1 until=2026-10-20 renewal=2026-09-20"},
		"a request is fulfilled":    {before: asked, plan: Plan{Renewal: renewal}, issued: true, want: "Ready=True/Ready revision=1 until=2026-10-20 renewal=2026-09-20"},
		"the Secret is another's":   {plan: Plan{Violation: some("IncorrectCertificate"), Obstacle: some("SecretInUse")}, want: "Ready=False/SecretInUse:secretinuse; incorrectcertificate Issuing=False/SecretInUse:secretinuse failed=12:00"},
		"it fails for the first":    {plan: Plan{Obstacle: some("Failed"), Renewal: renewal}, want: "Ready=False/Failed:failed Issuing=False/Failed:failed revision=1 until=2026-10-20 renewal=2026-09-20 failed=12:00"},
		"it fails again":            {before: failedBefore, plan: Plan{Violation: some("DoesNotExist"), Obstacle: some("Failed")}, want: "Ready=False/Failed:failed; doesnotexist Issuing=False/Failed:failed failed=11:00"},
		"it failed before":          {before: failedBefore, plan: Plan{Renewal: renewal}, want: "Ready=True/Ready revision=1 until=2026-10-20 renewal=2026-09-20"},
		"it is about to be issued":  {plan: Plan{Violation: some("DoesNotExist"), Issue: some("DoesNotExist")}, want: "Ready=False/DoesNotExist:doesnotexist"},
		"renewal waits, it is good": {plan: Plan{Obstacle: some("IssuerNotReady"), Waiting: true, Renewal: renewal}, want: "Ready=True/Ready Issuing=True/IssuerNotReady:issuernotready revision=1 until=2026-10-20 renewal=2026-09-20"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fine()
			if tc.before != nil {
				tc.before(f.Certificate)
			}
			Report(f, tc.plan, tc.issued)
			if diff := cmp.Diff(tc.want, shown(f.Certificate)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			first := f.Certificate.DeepCopy()
			if Report(f, tc.plan, false); !cmp.Equal(first.Status, f.Certificate.Status) {
				t.Errorf("another report changes it (-first +second):\n%s", cmp.Diff(first.Status, f.Certificate.Status))
			}
		})
	}
}

func shown(c *certmanagerv1.Certificate) string {
	var parts []string
	for _, kind := range []string{"Ready", "Issuing"} {
		for _, cond := range c.Status.Conditions {
			if cond.Type != kind {
				continue
			}
			part := fmt.Sprintf("%s=%s/%s", kind, cond.Status, cond.Reason)
			if cond.Reason != "Ready" {
				part += ":" + cond.Message
			}
			parts = append(parts, part)
		}
	}
	if c.Status.Revision != nil {
		parts = append(parts, fmt.Sprint("revision=", *c.Status.Revision))
	}
	if c.Status.NotAfter != nil {
		parts = append(parts, "until="+c.Status.NotAfter.UTC().Format(time.DateOnly), "renewal="+c.Status.RenewalTime.UTC().Format(time.DateOnly))
	}
	if c.Status.LastFailureTime != nil {
		parts = append(parts, "failed="+c.Status.LastFailureTime.UTC().Format("15:04"))
	}
	return strings.Join(parts, " ")
}

// TestMetadataOverridesTemplate: a template cannot claim the Secret of
// another Certificate.
func TestMetadataOverridesTemplate(t *testing.T) {
	t.Parallel()
	c := fine().Certificate
	c.Spec.SecretTemplate = &certmanagerv1.SecretTemplate{
		Labels:      map[string]string{"a": "b", certmanagerv1.ControllerLabel: "false"},
		Annotations: map[string]string{"c": "d", certmanagerv1.CertificateNameAnnotation: "another", certmanagerv1.AllowInjectionAnnotation: "true"},
	}
	labels, annotations := Metadata(c, Names{Common: "web", DNS: []string{"a", "b"}, IPs: []string{"10.0.0.1"}, Emails: []string{"x@y"}})
	if diff := cmp.Diff(map[string]string{"a": "b", certmanagerv1.ControllerLabel: "true"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"c": "d", certmanagerv1.AllowInjectionAnnotation: "true", certmanagerv1.CertificateNameAnnotation: "web", certmanagerv1.IssuerNameAnnotation: "self",
		certmanagerv1.IssuerKindAnnotation: "Issuer", certmanagerv1.IssuerGroupAnnotation: "cert-manager.io", certmanagerv1.CommonNameAnnotation: "web",
		certmanagerv1.AltNamesAnnotation: "a,b", certmanagerv1.IPSANsAnnotation: "10.0.0.1", certmanagerv1.URISANsAnnotation: "", certmanagerv1.EmailSANsAnnotation: "x@y",
	}
	if diff := cmp.Diff(want, annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if c.Spec.SecretTemplate.Annotations[certmanagerv1.CertificateNameAnnotation] != "another" {
		t.Error("the template of the Certificate itself changed")
	}
	c.Spec.AdditionalOutputFormats = []certmanagerv1.OutputFormat{{Type: certmanagerv1.OutputDER}}
	if !Wants(c, certmanagerv1.OutputDER) || Wants(c, certmanagerv1.OutputCombinedPEM) {
		t.Error("the wrong formats are wanted")
	}
}
