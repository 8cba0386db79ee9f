// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// certified are the Certificates and Issuers of a release, and the objects into
// which their authority is injected: of its definitions, one.
func certified(t *testing.T, provider string) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	unpackRelease(t, provider, published[provider].version, dir)
	doc, err := os.ReadFile(filepath.Join(dir, "infrastructure-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := template.Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"Namespace", "Certificate", "Issuer", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind()) && o.GetName() != provider+"clustertemplates.infrastructure.cluster.x-k8s.io"
	})
}

func TestCertificatesOfProvidersAreIssuedAndInjected(t *testing.T) {
	t.Parallel()
	for provider, name := range map[string]string{"aws": "capa", "openstack": "capo"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			var wanting []*unstructured.Unstructured
			for _, obj := range certified(t, provider) {
				f.must(f.Client.Create(f.Context(), obj, client.FieldValidation("Strict")))
				f.Cleanup(func() { _ = f.Client.Delete(context.Background(), obj) })
				if obj.GetAnnotations()[certmanagerv1.InjectFromAnnotation] != "" {
					wanting = append(wanting, obj)
				}
			}
			if len(wanting) < 2 {
				t.Fatalf("%d objects want an authority", len(wanting))
			}
			c := &certmanagerv1.Certificate{}
			f.eventually(func() error {
				if err := f.Client.Get(f.Context(), client.ObjectKey{Namespace: name + "-system", Name: name + "-serving-cert"}, c); err != nil {
					return err
				}
				if !conditions.IsTrue(c, certmanagerv1.ReadyCondition) {
					return fmt.Errorf("Certificate is %v", c.Status)
				}
				return nil
			})
			secret := &corev1.Secret{}
			f.must(f.Client.Get(f.Context(), client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.SecretName}, secret))
			cert, err := certs.ParseCertificate(secret.Data["tls.crt"])
			f.must(err)
			if diff := cmp.Diff(c.Spec.DNSNames, cert.DNSNames); diff != "" || c.Status.NotAfter.Sub(c.Status.NotBefore.Time) != 90*24*time.Hour {
				t.Errorf("valid from %s to %s; names (-want +got):\n%s", c.Status.NotBefore, c.Status.NotAfter, diff)
			}
			f.eventually(func() (err error) {
				for _, obj := range wanting {
					err = errors.Join(err, f.injected(obj, secret.Data["ca.crt"]))
				}
				return err
			})
		})
	}
}

// injected returns an error unless an object has an authority in all its places.
func (f fleet) injected(obj *unstructured.Unstructured, ca []byte) error {
	if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return err
	}
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		return err
	}
	var got [][]byte
	switch obj.GetKind() {
	case "CustomResourceDefinition":
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(raw, crd); err != nil {
			return err
		}
		got = append(got, crd.Spec.Conversion.Webhook.ClientConfig.CABundle)
	default:
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{} // both kinds are alike in this
		if err := json.Unmarshal(raw, hooks); err != nil {
			return err
		}
		for _, w := range hooks.Webhooks {
			got = append(got, w.ClientConfig.CABundle)
		}
	}
	if i := slices.IndexFunc(got, func(bundle []byte) bool { return string(bundle) != string(ca) }); i >= 0 || len(got) == 0 {
		return fmt.Errorf("%s %s has not the authority everywhere", obj.GetKind(), obj.GetName())
	}
	return nil
}

// webhook is a server that serves the current certificate of a Secret, and refuses
// every review.
type webhook struct {
	fleet
	server *httptest.Server
	cert   atomic.Pointer[tls.Certificate]
}

func newWebhook(f fleet) *webhook {
	f.Helper()
	w := &webhook{fleet: f}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "the webhook was asked"}}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review)
	}))
	w.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*w.cert.Load()}}, nil
	}}
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0) // while certificate and authority do not match
	return w
}

// serve shows what the Secret holds now, and returns its authority.
func (w *webhook) serve(secret string) ([]byte, error) {
	s := &corev1.Secret{}
	if err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: secret}, s); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(s.Data["tls.crt"], s.Data["tls.key"])
	if err != nil {
		return nil, err
	}
	w.cert.Store(&pair)
	return s.Data["ca.crt"], nil
}

// asked returns why the API server does not reach the webhook.
func (w *webhook) asked() error {
	err := w.Client.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "a-"}})
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message == `admission webhook "w.capstan.dev" denied the request: the webhook was asked` {
		return nil
	}
	return fmt.Errorf("create a ConfigMap: %w", err)
}

// register makes the API server call the webhook for ConfigMaps in the namespace.
func (w *webhook) register() *unstructured.Unstructured {
	w.Helper()
	url, none := w.server.URL, admissionregistrationv1.SideEffectClassNone
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace, Annotations: map[string]string{certmanagerv1.InjectFromAnnotation: w.Namespace + "/hook"}}}
	c.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "w.capstan.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}
	w.must(w.Client.Create(w.Context(), c))
	w.Cleanup(func() { _ = w.Client.Delete(context.Background(), c) })
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"))
	obj.SetName(c.Name)
	return obj
}

// TestAWebhookIsAskedThroughTheInjectedAuthority has one serve with a certificate
// that an authority of the namespace signed, and continue when all of it is
// replaced.
func TestAWebhookIsAskedThroughTheInjectedAuthority(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	w := newWebhook(f)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.Namespace, Name: name} }
	ecdsa := &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}
	ref := func(name string) certmanagerv1.IssuerReference { return certmanagerv1.IssuerReference{Name: name} }
	for _, obj := range []client.Object{
		&certmanagerv1.Certificate{ObjectMeta: meta("hook"), Spec: certmanagerv1.CertificateSpec{SecretName: "hook", IPAddresses: []string{"127.0.0.1"}, IssuerRef: ref("ca"), PrivateKey: ecdsa}},
		&certmanagerv1.Issuer{ObjectMeta: meta("ca"), Spec: certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}},
		&certmanagerv1.Certificate{ObjectMeta: meta("ca"), Spec: certmanagerv1.CertificateSpec{SecretName: "ca", CommonName: "ca", IsCA: true, IssuerRef: ref("self"), PrivateKey: ecdsa}},
		&certmanagerv1.Issuer{ObjectMeta: meta("self"), Spec: certmanagerv1.IssuerSpec{SelfSigned: &certmanagerv1.SelfSignedIssuer{}}},
	} {
		f.must(f.Client.Create(f.Context(), obj, client.FieldValidation("Strict")))
	}
	var first []byte
	f.eventually(func() (err error) { first, err = w.serve("hook"); return err })
	w.server.StartTLS()
	f.Cleanup(w.server.Close)
	hooks := w.register()
	f.eventually(w.asked)

	// The Secret of the signer is lost, and so are all the events about it.
	f.must(f.Client.Delete(f.Context(), &corev1.Secret{ObjectMeta: meta("ca")}))
	f.eventually(func() error {
		now, err := w.serve("hook")
		if err == nil && string(now) == string(first) {
			err = errors.New("the certificate is of the authority that is lost")
		}
		if err != nil {
			return err
		}
		return f.injected(hooks, now)
	})
	w.server.CloseClientConnections()
	f.eventually(w.asked)
}
