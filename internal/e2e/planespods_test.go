// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestAProviderOfOnePlaneIsReachedThroughAll: its Pod runs on the host that leads,
// and the API server of another host calls its webhook, also when that host is lost
// and the Pod runs on the other one.
func TestAProviderOfOnePlaneIsReachedThroughAll(t *testing.T) {
	testenv.OwnPlanes(t, 3)
	needSandboxes(t)
	s := newSharing(t, "b")
	archive := programImage(t, "example.com/served:v1", "test/served")
	for _, h := range s.all {
		if out, err := h.capstan(t.Context(), "image", "import", archive); err != nil {
			t.Fatalf("import at %s: %v\n%s", h.name, err, out)
		}
	}
	b := s.at("b")
	objects, err := template.Objects([]byte(served))
	s.must(err)
	for _, obj := range objects {
		s.must(b.Client.Create(t.Context(), obj))
	}
	b.provides()
	b.webhookRefuses()
	s.at("a").webhookRefuses()
	s.all["a"].kill()
	s.sees("b", "b", "(a)")
	b.provides()
	b.webhookRefuses()
}

// provides waits until the provider is Available and answers through the API server.
func (f fleet) provides() {
	f.Helper()
	typed, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	f.eventually(func() error {
		d := &appsv1.Deployment{}
		if err := f.Client.Get(f.Context(), client.ObjectKey{Namespace: "default", Name: "served"}, d); err != nil {
			return err
		}
		if d.Status.AvailableReplicas != 1 {
			return fmt.Errorf("the Deployment has the status %+v", d.Status)
		}
		if out, err := typed.CoreV1().Services("default").ProxyGet("http", "served", "http", "/api", nil).DoRaw(f.Context()); err != nil || string(out) != "403 Forbidden<nil>" {
			return fmt.Errorf("the API server answers the Pod by %q, %w", out, err)
		}
		return nil
	})
}

// webhookRefuses waits until the webhook of the provider refuses what is bad.
func (f fleet) webhookRefuses() {
	f.Helper()
	f.eventually(func() error {
		bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}}
		if err := f.Client.Create(f.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "it is bad") {
			return fmt.Errorf("the webhook behind the Service refuses by %w", err)
		}
		return nil
	})
}
