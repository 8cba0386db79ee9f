// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

func TestWebhooksKeepTheirPortOverRestarts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		url      string // PORT stands for that of the earlier start
		taken    bool   // by somebody else meanwhile
		wantSame bool
	}{
		"the first start":                 {},
		"the port is free":                {url: "https://127.0.0.1:PORT/mutate", wantSame: true},
		"the port is taken":               {url: "https://127.0.0.1:PORT/mutate", taken: true},
		"the registration names no port":  {url: "https://webhooks.example.com/mutate"},
		"the registration names nonsense": {url: "https://127.0.0.1:99999/mutate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			earlier, port := listen(t)
			if !tc.taken {
				_ = earlier.Close()
			}
			b := fake.NewClientBuilder()
			if tc.url != "" {
				url := strings.ReplaceAll(tc.url, "PORT", port)
				b = b.WithObjects(&admissionregistrationv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: "capstan-core"},
					Webhooks: []admissionregistrationv1.ValidatingWebhook{
						{ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "s"}}},
						{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}},
					},
				})
			}
			l, err := listenForWebhooks(t.Context(), b.Build(), "127.0.0.1:0", []string{"core", "kubeadm"})
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
	if l, err := listenForWebhooks(t.Context(), fake.NewClientBuilder().Build(), "127.0.0.1:"+port, []string{"core"}); err == nil {
		_ = l.Close()
		t.Errorf("%s was taken, and %s is used instead", taken.Addr(), l.Addr())
	}
}

// TestTheWebhooksAnswerOnceTheManagerIsMade makes one for an API server that
// knows no definitions yet, and will ask the webhooks when it gets them.
func TestTheWebhooksAnswerOnceTheManagerIsMade(t *testing.T) {
	t.Parallel()
	authority, err := certs.NewCA(certs.ECDSAP256, "capstan-webhooks", time.Now(), certs.CAValidity)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(bare(authority))
	t.Cleanup(api.Close)
	m, err := New(t.Context(), &rest.Config{Host: api.URL}, Options{
		Providers: []string{controllers.Core, controllers.Local}, SimulatedDir: t.TempDir(), Webhooks: Webhooks{Listen: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	hook := m.webhooks.clientConfig(m.webhooks.hooks[controllers.Local][0].Path())
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(hook.CABundle)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	ask := func() (int, error) {
		resp, err := c.Post(*hook.URL, "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, err
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

// bare is an API server that has its own kinds and the webhooks' authority, and
// nothing else.
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
		_ = json.NewEncoder(w).Encode(answer) // who asks sees what is missing
	})
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
