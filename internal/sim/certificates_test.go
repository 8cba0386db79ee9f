// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// hour formats the times of a certificate: valid from, valid to, renewal.
func hour(t *metav1.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format("01-02T15")
}

// certificates writes the statuses of Certificates and their issuers.
func certificates(w *story) {
	for _, kind := range []string{"Issuer", "ClusterIssuer"} {
		for _, obj := range w.objects(kind) {
			for _, c := range obj.(interface{ GetConditions() []metav1.Condition }).GetConditions() {
				w.Record("%s %s: %s %s %s %s", kind, obj.GetName(), c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	for _, obj := range w.objects("Certificate") {
		c := obj.(*certmanagerv1.Certificate)
		revision := int64(0)
		if c.Status.Revision != nil {
			revision = *c.Status.Revision
		}
		w.Record("Certificate %s: revision %d from %s to %s, renewed at %s", c.Name, revision, hour(c.Status.NotBefore), hour(c.Status.NotAfter), hour(c.Status.RenewalTime))
		for _, cond := range c.Status.Conditions {
			w.Record("  %s %s %s %s", cond.Type, cond.Status, cond.Reason, cond.Message)
		}
	}
}

func selfSigned(name string) *certmanagerv1.Issuer {
	i := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	i.Spec.SelfSigned = &certmanagerv1.SelfSignedIssuer{}
	return i
}

// serving is the Certificate of a webhook, as providers have it; its key takes no
// time to generate.
func serving(name, issuer string) *certmanagerv1.Certificate {
	c := &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Spec.SecretName, c.Spec.IssuerRef.Name = name, issuer
	c.Spec.DNSNames = []string{name + ".default.svc", name + ".default.svc.cluster.local"}
	c.Spec.PrivateKey = &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}
	return c
}

// pair is what a Secret holds.
func pair(t *testing.T, w *story, name string) (cert, key string) {
	t.Helper()
	s := get(t, w, name, &corev1.Secret{})
	if err := (certs.Pair{Cert: s.Data["tls.crt"], Key: s.Data["tls.key"]}).Check(""); err != nil {
		t.Errorf("Secret %s: %v", name, err)
	}
	return string(s.Data["tls.crt"]), string(s.Data["tls.key"])
}

func certify(t *testing.T, w *story, what string, objects ...client.Object) {
	t.Helper()
	w.Record("# %s", what)
	for _, obj := range objects {
		w.must(w.Mgmt.Create(t.Context(), obj))
	}
	w.Run()
	certificates(w)
}

func TestACertificateIsIssuedAndRenewed(t *testing.T) {
	t.Parallel()
	w := New(t)
	never := serving("kept", "self")
	never.Spec.PrivateKey.RotationPolicy = certmanagerv1.RotateNever
	certify(t, w, "certificates come before their issuer", serving("webhook", "self"), never)
	certify(t, w, "the issuer comes", selfSigned("self"))
	cert, key := pair(t, w, "webhook")
	_, kept := pair(t, w, "kept")
	w.Record("# 59 days later")
	w.RunFor(59 * 24 * time.Hour)
	if now, _ := pair(t, w, "webhook"); now != cert {
		t.Error("it was renewed before its time")
	}
	w.Record("# a day later")
	w.RunFor(24 * time.Hour)
	certificates(w)
	if nowCert, nowKey := pair(t, w, "webhook"); nowCert == cert || nowKey == key {
		t.Error("it was not renewed with a new key")
	}
	if _, now := pair(t, w, "kept"); now != kept {
		t.Error("a key that is to stay was changed")
	}
	w.Golden("a-certificate-is-issued-and-renewed.txt")
}

// by is an Issuer that signs with an authority.
func by(name, secret string) *certmanagerv1.Issuer {
	i := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	i.Spec.CA = &certmanagerv1.CAIssuer{SecretName: secret}
	return i
}

func TestCertificatesFollowTheirAuthority(t *testing.T) {
	t.Parallel()
	w := New(t)
	root := serving("root", "self")
	root.Spec.IsCA, root.Spec.CommonName, root.Spec.DNSNames, root.Spec.Duration = true, "root", nil, "240h"
	certify(t, w, "an authority, and a certificate that it signs", by("ca", "root"), serving("webhook", "ca"), root, selfSigned("self"))
	trusted := func() {
		t.Helper()
		if got, want := string(get(t, w, "webhook", &corev1.Secret{}).Data["ca.crt"]), string(get(t, w, "root", &corev1.Secret{}).Data["tls.crt"]); got != want {
			t.Error("the certificate must be trusted by another authority")
		}
	}
	trusted()
	w.Record("# the authority is renewed")
	w.RunFor(160 * time.Hour)
	certificates(w)
	trusted()
	w.Record("# the Secret of the certificate is lost")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "webhook", &corev1.Secret{})))
	w.Run()
	certificates(w)
	change(t, w, "webhook", &certmanagerv1.Certificate{}, "a name more is asked for, and labels", func(c *certmanagerv1.Certificate) {
		c.Spec.DNSNames = append(c.Spec.DNSNames, "webhook")
		c.Spec.SecretTemplate = &certmanagerv1.SecretTemplate{Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"cert-manager.io/alt-names": "mine", "note": "b"}}
		c.Spec.AdditionalOutputFormats = []certmanagerv1.OutputFormat{{Type: certmanagerv1.OutputDER}, {Type: certmanagerv1.OutputCombinedPEM}}
	})
	secret := get(t, w, "webhook", &corev1.Secret{})
	w.Record("Secret webhook: labels %v, alt-names %s, note %s, keys %v", secret.Labels, secret.Annotations["cert-manager.io/alt-names"], secret.Annotations["note"], slices.Sorted(maps.Keys(secret.Data)))
	change(t, w, "webhook", &certmanagerv1.Certificate{}, "the labels are no longer desired", func(c *certmanagerv1.Certificate) {
		c.Spec.SecretTemplate, c.Spec.AdditionalOutputFormats = nil, nil
	})
	secret = get(t, w, "webhook", &corev1.Secret{})
	w.Record("Secret webhook: labels %v, note %q, keys %v", secret.Labels, secret.Annotations["note"], slices.Sorted(maps.Keys(secret.Data)))
	certificates(w)
	w.Golden("certificates-follow-their-authority.txt")
}

func TestASecretOfAnotherOwnerIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := New(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"}, Data: map[string][]byte{"password": []byte("x")}}
	w.must(w.Mgmt.Create(t.Context(), theirs))
	first, second, wrong := serving("first", "self"), serving("second", "self"), serving("wrong", "self")
	second.Spec.SecretName = "first"
	wrong.Spec.DNSNames, wrong.Spec.Duration, wrong.Spec.Keystores = nil, "1 year", &apiextensionsv1.JSON{Raw: []byte(`{"jks":{"create":true}}`)}
	acme := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "acme"}}
	acme.Spec.ACME = &apiextensionsv1.JSON{Raw: []byte(`{"server":"https://acme.example.com"}`)}
	certify(t, w, "Certificates that cannot have what they ask for", selfSigned("self"), acme, first, second, serving("theirs", "self"), wrong, serving("asked", "acme"))
	if now := get(t, w, "theirs", &corev1.Secret{}); len(now.Data) != 1 || string(now.Data["password"]) != "x" || len(now.Annotations) > 0 {
		t.Errorf("the Secret is now %v", slices.Sorted(maps.Keys(now.Data)))
	}
	cert, _ := pair(t, w, "first")
	w.Record("# who had the Secret goes")
	w.must(w.Mgmt.Delete(t.Context(), first))
	w.Run()
	change(t, w, "wrong", &certmanagerv1.Certificate{}, "the error is corrected", func(c *certmanagerv1.Certificate) {
		c.Spec.DNSNames, c.Spec.Duration, c.Spec.Keystores = []string{"right"}, "", nil
	})
	certificates(w)
	if now, _ := pair(t, w, "first"); now == cert {
		t.Error("the Secret is still that of who has gone")
	}
	w.Golden("a-secret-of-another-owner-is-left-alone.txt")
}

func TestCertificatesOfCertManagersOwnAreLeftToIt(t *testing.T) {
	t.Parallel()
	w := New(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.Mgmt.Get(t.Context(), client.ObjectKey{Name: "certificates.cert-manager.io"}, crd))
	crd.Labels["app.kubernetes.io/name"] = "cert-manager"
	w.must(w.Mgmt.Update(t.Context(), crd))
	certify(t, w, "they are installed", selfSigned("self"), serving("webhook", "self"))
	for _, kind := range []string{"Secret", "Certificate", "Issuer"} {
		for _, obj := range w.objects(kind) {
			if kind == "Secret" || len(obj.(interface{ GetConditions() []metav1.Condition }).GetConditions()) > 0 {
				t.Errorf("%s %s was acted upon", kind, obj.GetName())
			}
		}
	}
}
