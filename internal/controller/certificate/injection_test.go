// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

// world has an object, a Certificate web with its Secret tls, and a Secret free.
type world struct {
	*testing.T
	*InjectionReconciler
	client.Client
	events *events.FakeRecorder
	ca     string // in base64
	writes int
	refuse error // what the next write is answered
}

func newWorld(t *testing.T, obj string) (*world, *metav1.PartialObjectMetadata) {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(obj), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetName("it")
	ca, err := certs.NewCA("", "ca", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), certmanagerv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range append(slices.Collect(maps.Values(InjectedKinds())), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")) {
		if !scheme.Recognizes(kind) {
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		}
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	definition.SetName("certificates.cert-manager.io")
	definition.SetLabels(map[string]string{certmanagerv1.DefinitionLabel: "capstan"})
	secret := func(name string, annotations map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: annotations}, Data: map[string][]byte{"ca.crt": append([]byte("# of ours\n"), ca.Cert...), "tls.key": ca.Key}}
	}
	w := &world{T: t, events: events.NewFakeRecorder(10), ca: base64.StdEncoding.EncodeToString(ca.Cert)}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(u, definition,
		&certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: certmanagerv1.CertificateSpec{SecretName: "tls"}},
		secret("tls", map[string]string{certmanagerv1.CertificateNameAnnotation: "web"}),
		secret("free", map[string]string{certmanagerv1.AllowInjectionAnnotation: "true"}),
	).WithInterceptorFuncs(writes.Before(func(string, client.Object) error { w.writes++; return w.refuse })).Build()
	w.InjectionReconciler = &InjectionReconciler{Name: "x", Kind: u.GroupVersionKind(), Mgmt: w.Client, Live: w.Client, Recorder: w.events, APIServer: ca.Cert}
	seen := InjectedObject(u.GroupVersionKind())
	seen.SetName("it")
	seen.SetAnnotations(u.GetAnnotations())
	return w, seen
}

func (w *world) text() string {
	w.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(w.Kind)
	if err := w.Client.Get(w.Context(), client.ObjectKey{Name: "it"}, obj); err != nil {
		w.Fatal(err)
	}
	out, err := yaml.Marshal(obj.Object)
	if err != nil {
		w.Fatal(err)
	}
	return string(out)
}

func TestAnAuthorityIsInjectedOnce(t *testing.T) {
	t.Parallel()
	hooks := "{apiVersion: admissionregistration.k8s.io/v1, kind: %, metadata: {annotations: {@}}, webhooks: [{name: a, clientConfig: {url: u}}, {name: b, clientConfig: {url: v}}]}"
	from := map[string]string{"certificate": "cert-manager.io/inject-ca-from: ns/web", "secret": "cert-manager.io/inject-ca-from-secret: ns/free", "server": `cert-manager.io/inject-apiserver-ca: "true"`}
	tests := map[string]struct {
		obj  string
		want int // places
	}{
		"validating webhooks": {strings.Replace(hooks, "%", "ValidatingWebhookConfiguration", 1), 2},
		"mutating webhooks":   {strings.Replace(hooks, "%", "MutatingWebhookConfiguration", 1), 2},
		"a definition":        {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {annotations: {@}}, spec: {conversion: {strategy: Webhook, webhook: {clientConfig: {url: u}}}}}", 1},
		"an API server":       {"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {annotations: {@}}, spec: {service: {name: s}}}", 1},
	}
	for name, tc := range tests {
		for source, annotation := range from {
			t.Run(name+" "+source, func(t *testing.T) {
				t.Parallel()
				w, seen := newWorld(t, strings.Replace(tc.obj, "@", annotation, 1))
				for range 2 {
					if _, err := w.Reconcile(t.Context(), seen); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Count(w.text(), "caBundle: "+w.ca); got != tc.want || w.writes != 1 {
					t.Errorf("the authority is in %d places after %d writes, want %d after 1", got, w.writes, tc.want)
				}
			})
		}
	}
}

func TestNothingIsInjectedThatIsNotThereOrNotAllowed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ annotation, event string }{
		"no Certificate yet":                 {"cert-manager.io/inject-ca-from: ns/later", ""},
		"no Secret yet":                      {"cert-manager.io/inject-ca-from-secret: ns/later", ""},
		"a Secret that does not allow":       {"cert-manager.io/inject-ca-from-secret: ns/tls", "Warning NotInjected no certificate authority is injected: Secret ns/tls, for annotation cert-manager.io/inject-ca-from-secret, does not allow it"},
		"a name that is none":                {"cert-manager.io/inject-ca-from: web", "Warning NotInjected no certificate authority is injected: annotation cert-manager.io/inject-ca-from"},
		"an object that does not request it": {"x: y", ""},
		"an object that refuses it":          {`cert-manager.io/inject-apiserver-ca: "no"`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, seen := newWorld(t, "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {annotations: {"+tc.annotation+"}}, webhooks: [{name: a, clientConfig: {url: u}}]}")
			if _, err := w.Reconcile(t.Context(), seen); err != nil {
				t.Fatal(err)
			}
			event := ""
			if len(w.events.Events) > 0 {
				event = <-w.events.Events
			}
			if w.writes > 0 || !strings.HasPrefix(event, tc.event) || (event == "") != (tc.event == "") {
				t.Errorf("%d writes, event %q; want %q", w.writes, event, tc.event)
			}
		})
	}
}

func TestAWriteThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, seen := newWorld(t, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {annotations: {cert-manager.io/inject-ca-from: ns/web}}, spec: {service: {name: s}}}`)
	w.refuse = errors.New("busy")
	if _, err := w.Reconcile(t.Context(), seen); err == nil || err.Error() != "inject a certificate authority into APIService it: busy" {
		t.Errorf("error %v", err)
	}
	w.refuse = nil
	if _, err := w.Reconcile(t.Context(), seen); err != nil || !strings.Contains(w.text(), w.ca) {
		t.Errorf("error %v", err)
	}
}
