// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestWebhooksAnswerBeforeDefinitionsAreWritten registers a webhook for
// definitions, which checks at each change whether the plane's webhooks answer: the
// versions in a definition may need them.
func TestWebhooksAnswerBeforeDefinitionsAreWritten(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir)
	c := connect(t, dir)
	hooks := registeredOf(t, c, "capstan-core")
	crd := definition(t, c)
	want := crd.GetLabels()["cluster.x-k8s.io/provider"]
	crd.SetLabels(map[string]string{"cluster.x-k8s.io/provider": "stale"})
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	looks := askOfDefinitions(t, c, func(ctx context.Context) error { return answers(ctx, hooks) })
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	startOn(t, dir)
	select {
	case err := <-looks:
		if err != nil {
			t.Errorf("when the first definition was written: %v", err)
		}
	default:
		t.Error("no definition was written")
	}
	if got := definition(t, connect(t, dir)).GetLabels()["cluster.x-k8s.io/provider"]; got != want {
		t.Errorf("label %q, want %q again", got, want)
	}
}

// TestWebhooksOfAProviderThatNoLongerRunsAreTakenAway starts a plane that ran all
// providers with one of them: no webhook is left to admit the others' objects.
func TestWebhooksOfAProviderThatNoLongerRunsAreTakenAway(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir)
	before := registeredOf(t, connect(t, dir), "capstan-local")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	startOn(t, dir, "--providers=local")
	c := connect(t, dir)
	for _, name := range []string{"capstan-core", "capstan-kubeadm"} {
		for _, config := range []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}} {
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, config); !apierrors.IsNotFound(err) {
				t.Errorf("%T %s: %v, want it gone", config, name, err)
			}
		}
	}
	if now := registeredOf(t, c, "capstan-local"); *now.URL != *before.URL {
		t.Errorf("the provider that runs is reached at %s, and was at %s", *now.URL, *before.URL)
	}
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
		"metadata": map[string]any{"namespace": "default", "name": "c"}, "spec": map[string]any{"files": []any{map[string]any{"path": "/a", "content": "b"}}},
	}}
	if err := c.Create(t.Context(), config); err != nil {
		t.Errorf("create an object of a provider that does not run: %v", err)
	}
}

func registeredOf(t *testing.T, c client.Client, name string) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, config); err != nil || len(config.Webhooks) == 0 || config.Webhooks[0].ClientConfig.URL == nil {
		t.Fatalf("registration %s: %v, %v", name, config.Webhooks, err)
	}
	return config.Webhooks[0].ClientConfig
}

func definition(t *testing.T, c client.Client) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := c.Get(t.Context(), client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// askOfDefinitions has the API server call a webhook before it changes a
// definition, and returns the results of look.
func askOfDefinitions(t *testing.T, c client.Client, look func(context.Context) error) <-chan error {
	t.Helper()
	looks := make(chan error, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
			looks <- fmt.Errorf("read what is asked: %v", err)
			return
		}
		looks <- look(r.Context())
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			looks <- err
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	err := c.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "definitions"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "definitions.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL, CABundle: ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apiextensions.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"customresourcedefinitions"}},
			}},
			SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return looks
}

// answers returns an error unless a webhook shows a certificate that the API server
// trusts, and answers, before ctx ends: the caller waits no longer than that.
func answers(ctx context.Context, hook admissionregistrationv1.WebhookClientConfig) error {
	pool := x509.NewCertPool()
	u, err := url.Parse(*hook.URL)
	if err != nil || !pool.AppendCertsFromPEM(hook.CABundle) {
		return errors.Join(err, errors.New("the registration has no certificate authority"))
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if !slices.Contains([]int{http.StatusOK, http.StatusBadRequest}, resp.StatusCode) {
		return fmt.Errorf("%s: %s", u, resp.Status)
	}
	return nil
}
