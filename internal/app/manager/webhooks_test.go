// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
			l, err := listenForWebhooks(t.Context(), b.Build(), "127.0.0.1:0", "capstan-core")
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
	if l, err := listenForWebhooks(t.Context(), fake.NewClientBuilder().Build(), "127.0.0.1:"+port, "capstan-core"); err == nil {
		_ = l.Close()
		t.Errorf("%s was taken, and %s is used instead", taken.Addr(), l.Addr())
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
