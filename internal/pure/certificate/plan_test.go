// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// fine is a Certificate whose Secret has matched it for ten days.
func fine() Facts {
	c := &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: metav1.NewTime(now)}}
	c.Spec.SecretName, c.Spec.IssuerRef.Name, c.Spec.DNSNames = "web-tls", "self", []string{"web"}
	labels, annotations := Metadata(c, Names{})
	return Facts{Certificate: c, Now: now, Times: Times{Duration: 90 * day}, Secret: Secret{
		Object:    &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls", Labels: labels, Annotations: annotations}, Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k"), "ca.crt": []byte("a")}},
		NotBefore: now.Add(-10 * day), NotAfter: now.Add(80 * day),
	}}
}

func other(name string, age time.Duration) *certmanagerv1.Certificate {
	return &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
}

func never(f *Facts) {
	f.Certificate.Spec.PrivateKey = &certmanagerv1.PrivateKey{RotationPolicy: certmanagerv1.RotateNever}
}

func unannotated(f *Facts) { f.Secret.Object.Annotations = nil }

// told writes a plan in one line.
func told(p Plan) string {
	var parts []string
	say := func(what string, r *Reason) {
		if r != nil {
			parts = append(parts, fmt.Sprintf("%s %s: %s", what, r.Reason, r.Message))
		}
	}
	say("not", p.Violation)
	say(map[bool]string{true: "waits", false: "stuck"}[p.Waiting], p.Obstacle)
	say("issue", p.Issue)
	if p.Issue != nil && p.NewKey {
		parts = append(parts, "new key")
	}
	if !p.Renewal.IsZero() {
		parts = append(parts, "renew "+p.Renewal.Format("01-02"))
	}
	return strings.Join(parts, " | ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Facts)
		want   string
	}{
		"all is well":                          {func(*Facts) {}, "renew 09-20"},
		"no Secret":                            {func(f *Facts) { f.Secret = Secret{} }, `not DoesNotExist: Secret "web-tls" does not exist | issue DoesNotExist: Secret "web-tls" does not exist | new key`},
		"no Secret, but a key that is to stay": {func(f *Facts) { never(f); f.Secret = Secret{} }, `not DoesNotExist: Secret "web-tls" does not exist | issue DoesNotExist: Secret "web-tls" does not exist | new key`},
		"an empty Secret": {func(f *Facts) {
			f.Secret = Secret{Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls"}, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil}}}
		}, `not MissingData: Secret "web-tls" has no data at "tls.crt" | issue MissingData: Secret "web-tls" has no data at "tls.crt" | new key`},
		"its key has gone":          {func(f *Facts) { delete(f.Secret.Object.Data, "tls.key") }, `not MissingData: Secret "web-tls" has no data at "tls.key" | issue MissingData: Secret "web-tls" has no data at "tls.key" | new key | renew 09-20`},
		"the certificate is broken": {func(f *Facts) { f.Secret.CertificateProblem = "no PEM" }, `not InvalidCertificate: the certificate in Secret "web-tls" cannot be read: no PEM | issue InvalidCertificate: the certificate in Secret "web-tls" cannot be read: no PEM | new key`},
		"the key is another's":      {func(f *Facts) { f.Secret.Foreign = true }, `not InvalidKeyPair: the key in Secret "web-tls" is not that of its certificate | issue InvalidKeyPair: the key in Secret "web-tls" is not that of its certificate | new key | renew 09-20`},
		"the key is another's, and stays": {func(f *Facts) { never(f); f.Secret.Foreign = true },
			`not InvalidKeyPair: the key in Secret "web-tls" is not that of its certificate | issue InvalidKeyPair: the key in Secret "web-tls" is not that of its certificate | renew 09-20`},
		"a name more is asked for": {func(f *Facts) { f.Secret.Differences = []string{"spec.dnsNames"} }, "not RequestChanged: the certificate is not as asked for: spec.dnsNames | issue RequestChanged: the certificate is not as asked for: spec.dnsNames | new key | renew 09-20"},
		"another kind of key":      {func(f *Facts) { f.Secret.KeyDifferences = []string{"spec.privateKey.size"} }, "not SecretMismatch: the key is not as asked for: spec.privateKey.size | issue SecretMismatch: the key is not as asked for: spec.privateKey.size | new key | renew 09-20"},
		"another kind of key than the one that stays": {func(f *Facts) { never(f); f.Secret.KeyDifferences = []string{"spec.privateKey.size"} },
			"not SecretMismatch: the key is not as asked for: spec.privateKey.size | stuck SecretMismatch: the key in Secret web-tls is not as asked for by spec.privateKey.size, and rotationPolicy is Never: set it to Always, or delete the Secret | renew 09-20"},
		"another issuer":            {func(f *Facts) { f.Certificate.Spec.IssuerRef.Name = "ca" }, "not IncorrectIssuer: it was issued by Issuer self | issue IncorrectIssuer: it was issued by Issuer self | new key | renew 09-20"},
		"another kind of issuer":    {func(f *Facts) { f.Certificate.Spec.IssuerRef.Kind = "ClusterIssuer" }, "not IncorrectIssuer: it was issued by Issuer self | issue IncorrectIssuer: it was issued by Issuer self | new key | renew 09-20"},
		"the authority was renewed": {func(f *Facts) { f.Issuer.Other = true }, "not IncorrectIssuer: the authority of Issuer self has changed | issue IncorrectIssuer: the authority of Issuer self has changed | new key | renew 09-20"},
		"its time has come":         {func(f *Facts) { f.Now = now.Add(50 * day) }, "issue Renewing: the certificate is due for renewal since 2026-09-20T12:00:00Z | new key | renew 09-20"},
		"its time has come, and the key stays": {func(f *Facts) { never(f); f.Now = now.Add(50 * day) },
			"issue Renewing: the certificate is due for renewal since 2026-09-20T12:00:00Z | renew 09-20"},
		"its end has come": {func(f *Facts) { f.Now = now.Add(80 * day) }, "not Expired: the certificate expired at 2026-10-20T12:00:00Z | issue Expired: the certificate expired at 2026-10-20T12:00:00Z | new key | renew 09-20"},
		"another is requested": {func(f *Facts) {
			f.Certificate.Status.Conditions = []metav1.Condition{{Type: "Issuing", Status: "True", Reason: "ManuallyTriggered"}}
		}, "issue ManuallyTriggered: a user requested a new certificate | new key | renew 09-20"},
		"no issuer, and none is needed": {func(f *Facts) { f.Issuer.Missing = true }, "renew 09-20"},
		"no issuer when it must be renewed": {func(f *Facts) { f.Now, f.Issuer.Missing = now.Add(50*day), true },
			"waits IssuerNotFound: Waiting for Issuer self to be created | renew 09-20"},
		"an issuer that cannot issue": {func(f *Facts) { f.Secret, f.Issuer.NotReady = Secret{}, "no key" },
			`not DoesNotExist: Secret "web-tls" does not exist | waits IssuerNotReady: Waiting for Issuer self: no key`},
		"the requested certificate is not available": {func(f *Facts) { f.Problem, f.Secret.Differences = "spec: bad", []string{"spec.duration"} }, "stuck Failed: spec: bad | renew 09-20"},
		"the requested certificate is not available, and none exists": {func(f *Facts) { f.Problem, f.Secret = "spec: bad", Secret{} },
			`not DoesNotExist: Secret "web-tls" does not exist | stuck Failed: spec: bad`},
		"a Secret of another owner": {unannotated, `not IncorrectCertificate: Secret "web-tls" was issued for "" | stuck SecretInUse: Secret "web-tls" was not made for this Certificate and has data at "ca.crt": name another one in spec.secretName, or delete it, or let it be replaced by the annotation cert-manager.io/certificate-name: web`},
		"a password of another owner": {func(f *Facts) {
			f.Secret = Secret{Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "web-tls"}, Data: map[string][]byte{"password": []byte("x")}}}
		}, `not MissingData: Secret "web-tls" has no data at "tls.crt" | stuck SecretInUse: Secret "web-tls" was not made for this Certificate and has data at "password": name another one in spec.secretName, or delete it, or let it be replaced by the annotation cert-manager.io/certificate-name: web`},
		"the Secret of a Certificate that has gone": {func(f *Facts) { f.Secret.Object.Annotations[certmanagerv1.CertificateNameAnnotation] = "old" },
			`not IncorrectCertificate: Secret "web-tls" was issued for "old" | issue IncorrectCertificate: Secret "web-tls" was issued for "old" | new key`},
		"the Secret of another Certificate": {func(f *Facts) {
			f.Secret.Object.Annotations[certmanagerv1.CertificateNameAnnotation] = "old"
			f.Others = append(f.Others, other("old", -day))
		}, `not IncorrectCertificate: Secret "web-tls" was issued for "old" | stuck SecretInUse: Secret "web-tls" is that of Certificate old: name another one in spec.secretName`},
		"another Certificate wants it":           {func(f *Facts) { f.Others = append(f.Others, other("old", day)) }, "renew 09-20"},
		"an older one wants it, and none has it": {func(f *Facts) { f.Secret, f.Others = Secret{}, append(f.Others, other("old", day)) }, `not DoesNotExist: Secret "web-tls" does not exist | stuck SecretInUse: Secret "web-tls" is that of Certificate old: name another one in spec.secretName`},
		"a younger one wants it, and none has it": {func(f *Facts) { f.Secret, f.Others = Secret{}, append(f.Others, other("young", -day)) },
			`not DoesNotExist: Secret "web-tls" does not exist | issue DoesNotExist: Secret "web-tls" does not exist | new key`},
		"of two made at once the first by name has it": {func(f *Facts) { f.Secret, f.Others = Secret{}, append(f.Others, other("aaa", 0)) },
			`not DoesNotExist: Secret "web-tls" does not exist | stuck SecretInUse: Secret "web-tls" is that of Certificate aaa: name another one in spec.secretName`},
		"the Secret is immutable": {func(f *Facts) { f.Secret.Object.Immutable, f.Issuer.Other = new(true), true },
			`not IncorrectIssuer: the authority of Issuer self has changed | stuck SecretInUse: Secret "web-tls" is immutable: delete it | renew 09-20`},
		"the Secret goes": {func(f *Facts) { f.Secret.Object.DeletionTimestamp, f.Issuer.Other = new(metav1.NewTime(now)), true },
			`not IncorrectIssuer: the authority of Issuer self has changed | stuck SecretInUse: Secret "web-tls" is being deleted | renew 09-20`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fine()
			tc.change(&f)
			if diff := cmp.Diff(tc.want, told(Decide(f))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		duration, before string
		percent          *int64
		renewal          time.Duration // after the beginning
		err              string
	}{
		"by default":              {"", "", nil, 60 * day, ""},
		"an hour":                 {"1h", "", nil, 40 * time.Minute, ""},
		"before":                  {"240h", "24h", nil, 9 * day, ""},
		"a share":                 {"100h", "", new(int64(25)), 75 * time.Hour, ""},
		"no duration":             {"a year", "", nil, 0, `spec.duration: "a year" is not a duration such as 2160h`},
		"too short":               {"59m", "", nil, 0, "spec.duration: 59m0s is less than 1h0m0s"},
		"negative":                {"-1h", "", nil, 0, "spec.duration: -1h0m0s is less than 1h0m0s"},
		"no time before":          {"", "soon", nil, 0, `spec.renewBefore: "soon" is not a duration such as 720h`},
		"too little before":       {"", "1m", nil, 0, "spec.renewBefore: 1m0s is less than 5m0s"},
		"longer before than that": {"1h", "1h", nil, 0, "spec.renewBefore: 1h0m0s is not less than the 1h0m0s for which the certificate is valid"},
		"both":                    {"", "24h", new(int64(1)), 0, "spec.renewBeforePercentage: spec.renewBefore is set as well"},
		"all of it":               {"", "", new(int64(100)), 0, "spec.renewBeforePercentage: 100 is not between 1 and 99"},
		"none of it":              {"", "", new(int64(0)), 0, "spec.renewBeforePercentage: 0 is not between 1 and 99"},
		"too little of it":        {"1h", "", new(int64(1)), 0, "spec.renewBeforePercentage: 1 % of 1h0m0s is less than 5m0s"},
		"two things at once":      {"x", "y", nil, 0, "spec.duration: \"x\" is not a duration such as 2160h\nspec.renewBefore: \"y\" is not a duration such as 720h"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times, err := ReadTimes(&certmanagerv1.CertificateSpec{Duration: tc.duration, RenewBefore: tc.before, RenewBeforePercentage: tc.percent})
			if text := fmt.Sprint(err); text != tc.err && (err != nil || tc.err != "") {
				t.Fatalf("error %v, want %s", err, tc.err)
			}
			if got := times.Renewal(now, now.Add(times.Duration)).Sub(now); err == nil && got != tc.renewal {
				t.Errorf("renewed after %s, want %s", got, tc.renewal)
			}
		})
	}
	if got := (Times{before: 2 * time.Hour}).Renewal(now, now.Add(time.Hour)).Sub(now); got != 40*time.Minute {
		t.Errorf("a certificate with a lifetime below its renewal time is renewed after %s", got)
	}
}

func TestCheckNamesUnavailableFields(t *testing.T) {
	t.Parallel()
	if err := Check(fine().Certificate); err != nil {
		t.Error(err)
	}
	c := &certmanagerv1.Certificate{}
	want := "spec.issuerRef.name: there is none\nspec.secretName: there is none\nspec: there is no name: give one of commonName, dnsNames, ipAddresses, uris and emailAddresses"
	if diff := cmp.Diff(want, Check(c).Error()); diff != "" {
		t.Errorf("nothing at all (-want +got):\n%s", diff)
	}
	c = fine().Certificate
	c.Spec.SecretName, c.Spec.CommonName, c.Spec.LiteralSubject, c.Spec.SignatureAlgorithm = "Not A Name", strings.Repeat("x", 65), "CN=a", "SHA1"
	c.Spec.IssuerRef = certmanagerv1.IssuerReference{Name: "x", Group: "awspca.cert-manager.io", Kind: "AWSPCAIssuer"}
	c.Spec.AdditionalOutputFormats = []certmanagerv1.OutputFormat{{Type: "DER"}, {Type: "JKS"}}
	c.Spec.SecretTemplate = &certmanagerv1.SecretTemplate{Labels: map[string]string{"a": "not a value"}, Annotations: map[string]string{"not a key": ""}}
	want = strings.Join([]string{
		`spec.additionalOutputFormats[1].type: "JKS" is none of DER and CombinedPEM`, "spec.commonName: it has more than 64 bytes",
		`spec.issuerRef.group: issuers of "awspca.cert-manager.io" are not honoured: give an Issuer or ClusterIssuer of cert-manager.io`, `spec.issuerRef.kind: "AWSPCAIssuer" is none of Issuer, ClusterIssuer`,
		"spec.literalSubject: it is not honoured without cert-manager: remove it",
		`spec.secretName: "Not A Name" is not a name of a Secret`, `spec.secretTemplate.annotations: "not a key" is not the key of an annotation`, `spec.secretTemplate.labels: a: "not a value" is not a label`,
		"spec.signatureAlgorithm: it is not honoured without cert-manager: remove it",
	}, "\n")
	if diff := cmp.Diff(want, Check(c).Error()); diff != "" {
		t.Errorf("much that is wrong (-want +got):\n%s", diff)
	}
}
