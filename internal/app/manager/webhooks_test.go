// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/app/webhooks"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
)

func TestWebhooksKeepTheirPortOverRestarts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		of       string // the provider whose registration exists; core if empty
		url      string // PORT is a placeholder for that of the earlier start
		wantSame bool   // it is free then; otherwise another process has it, or the kernel may choose it by chance
	}{
		"the first start":                 {},
		"the port is free":                {url: "https://127.0.0.1:PORT/mutate", wantSame: true},
		"other providers ran":             {of: "local", url: "https://127.0.0.1:PORT/mutate", wantSame: true},
		"the port is taken":               {url: "https://127.0.0.1:PORT/mutate"},
		"the registration names no port":  {url: "https://webhooks.example.com/mutate"},
		"the registration names nonsense": {url: "https://127.0.0.1:99999/mutate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			earlier, port := listen(t)
			if tc.wantSame {
				_ = earlier.Close()
			}
			b := fake.NewClientBuilder()
			if tc.url != "" {
				url := strings.ReplaceAll(tc.url, "PORT", port)
				b = b.WithObjects(&admissionregistrationv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: registration + cmp.Or(tc.of, "core")},
					Webhooks: []admissionregistrationv1.ValidatingWebhook{
						{ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}}},
						{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}},
					},
				})
			}
			l, err := Webhooks{Listen: "127.0.0.1:0"}.listen(t.Context(), b.Build(), []string{"core", "kubeadm"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			if got := portOf(t, l); (got == port) != tc.wantSame {
				t.Errorf("port %s; that of the earlier start was %s", got, port)
			}
		})
	}
}

func TestAPortThatWasChosenIsKept(t *testing.T) {
	t.Parallel()
	taken, port := listen(t)
	if l, err := (Webhooks{Listen: "127.0.0.1:" + port}).listen(t.Context(), fake.NewClientBuilder().Build(), []string{"core"}); err == nil {
		_ = l.Close()
		t.Errorf("%s was taken, and %s is used instead", taken.Addr(), l.Addr())
	}
}

// TestTheWebhooksAnswerOnceTheManagerIsMade creates one for an API server that has
// no definitions yet, and will call the webhooks when it gets them.
func TestTheWebhooksAnswerOnceTheManagerIsMade(t *testing.T) {
	t.Parallel()
	authority, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", time.Now(), certs.CAValidity)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(bare(authority))
	t.Cleanup(api.Close)
	m, err := New(t.Context(), &rest.Config{Host: api.URL}, Options{
		Config: Config{Providers: []string{controllers.Core, controllers.Local}, SimulatedDir: t.TempDir()}, Webhooks: Webhooks{Listen: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	hook := m.webhooks.clientConfig(m.webhooks.hooks[controllers.Local][0].Path())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(hook.CABundle)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	ask := func() (int, error) {
		resp, err := c.Post(*hook.URL, "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		if resp.ProtoMajor != 1 {
			t.Errorf("it speaks %s, whose connections take a second to end", resp.Proto)
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if status, err := ask(); err != nil || status != http.StatusBadRequest { // it is no review
		t.Errorf("status %d, error %v, want the webhook to answer", status, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if status, err := ask(); err == nil {
		t.Errorf("status %d after the end", status)
	}
}

// bare is an API server that has only its own kinds and the webhooks' authority.
func bare(authority certs.Pair) http.Handler {
	ours := metav1.GroupVersionForDiscovery{GroupVersion: "admissionregistration.k8s.io/v1", Version: "v1"}
	have := map[string]any{
		"/api": metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{
			Name: "admissionregistration.k8s.io", Versions: []metav1.GroupVersionForDiscovery{ours}, PreferredVersion: ours,
		}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true},
		}},
		"/apis/admissionregistration.k8s.io/v1": metav1.APIResourceList{GroupVersion: ours.GroupVersion, APIResources: []metav1.APIResource{
			{Name: "validatingwebhookconfigurations", Kind: "ValidatingWebhookConfiguration"},
		}},
		"/api/v1/namespaces/capstan-system/secrets/capstan-webhook-ca": &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			Data:     map[string][]byte{certs.CertKey: authority.Cert, certs.PrivateKeyKey: authority.Key},
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := have[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer) // the client detects what is missing
	})
}

// serving returns a server of the webhooks of core, on an API server with objects,
// and its address.
func serving(t *testing.T, c client.Client) (*webhookServer, string) {
	t.Helper()
	authority, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", time.Now(), certs.CAValidity)
	if err != nil {
		t.Fatal(err)
	}
	listener, port := listen(t)
	s := &webhookServer{live: c, listener: listener, at: Webhooks{Host: "127.0.0.1"}, cert: &servingCert{authority: authority, host: "127.0.0.1", clock: clock.RealClock{}}}
	s.hooks = map[string][]webhook.Webhook{controllers.Core: webhooks.Of(webhooks.Clients{Live: c, Cache: c}, localinfra.Backends{}, controllers.Gates{}, controllers.Core)}
	return s, "https://127.0.0.1:" + port
}

// registered returns the configurations of a provider, reached at a URL, or by a
// Service if it is empty.
func registered(provider, url string) []client.Object {
	reach := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}}
	if url != "" {
		reach = admissionregistrationv1.WebhookClientConfig{URL: new(url + "/path")}
	}
	meta := metav1.ObjectMeta{Name: registration + provider, UID: "1"}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "m", ClientConfig: reach}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "v", ClientConfig: reach}}},
	}
}

func TestUnservedWebhooksAreRemoved(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "validatingwebhookconfigurations"}, "capstan-kubeadm", errors.New("no"))
	for name, tc := range map[string]struct {
		at       func(here string) string
		deletion error
		want     int // configurations that are left
	}{
		"that an earlier start served here": {at: func(here string) string { return here }},
		"that who asks may not delete":      {at: func(here string) string { return here }, deletion: refused, want: 2},
		"of another manager":                {at: func(string) string { return "https://127.0.0.1:1" }, want: 2},
		"of another manager, by a Service":  {at: func(string) string { return "" }, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
				if tc.deletion != nil {
					return tc.deletion
				}
				return c.Delete(ctx, obj, o...)
			}}).Build()
			s, here := serving(t, c)
			for _, obj := range registered(controllers.Kubeadm, tc.at(here)) {
				if err := c.Create(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.register(t.Context(), []string{controllers.Core}); err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, obj := range registered(controllers.Kubeadm, "") {
				err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				if err == nil {
					left++
				}
			}
			if left != tc.want {
				t.Errorf("%d configurations are left, want %d", left, tc.want)
			}
			ours := &admissionregistrationv1.ValidatingWebhookConfiguration{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: "capstan-core"}, ours); err != nil || len(ours.Webhooks) == 0 || addressOf(ours.Webhooks[0].ClientConfig) != strings.TrimPrefix(here, "https://") {
				t.Errorf("those of core: %v, error %v", ours.Webhooks, err)
			}
		})
	}
}

// listen opens a port for as long as the test runs.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, portOf(t, l)
}

func portOf(t *testing.T, l net.Listener) string {
	t.Helper()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
