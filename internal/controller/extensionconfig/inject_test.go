// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

func authority(t *testing.T) []byte {
	t.Helper()
	pair, err := certs.NewCA(certs.ECDSAP256, "ca", time.Unix(1_000_000, 0), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Cert
}

func secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}, Data: data}
}

func TestTheAuthorityIsCopiedFromItsSecretBeforeTheExtensionIsAsked(t *testing.T) {
	t.Parallel()
	first, second := authority(t), authority(t)
	w := newWorld(t, ext(annotated(runtimev1.InjectCAFromSecretAnnotation, "ns/ca")), secret(map[string][]byte{"ca.crt": first}))
	want := first
	w.answer = func(ctx context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
		if !bytes.Equal(config.Spec.ClientConfig.CABundle, want) {
			t.Error("asked with another authority")
		}
		return says(answers("a"))(ctx, config)
	}
	w.reconcile()
	w.wrote("patch", "patch status of")
	w.stored() // as the API server changes the generation
	w.is(isDiscovered, "True", "")
	w.reconcile()
	w.wrote()
	if w.asked != 1 {
		t.Errorf("asked %d times: its own write is no change", w.asked)
	}
	if got := w.registered["ext"].Spec.ClientConfig.CABundle; !bytes.Equal(got, first) {
		t.Errorf("registered with %s", got)
	}

	want = second
	w.must(w.client.Update(t.Context(), secret(map[string][]byte{"ca.crt": second})))
	w.writes = nil
	w.reconcile()
	w.wrote("patch", "patch status of") // the conditions are of another generation
	if got := w.registered["ext"].Spec.ClientConfig.CABundle; w.asked != 2 || !bytes.Equal(got, second) {
		t.Errorf("asked %d times, registered with %s", w.asked, got)
	}
}

func TestOnlyCertificatesAreCopiedFromASecret(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	broken := "-----BEGIN PRIVATE KEY-----\nhunter2\n"
	w := newWorld(t, ext(annotated(runtimev1.InjectCAFromSecretAnnotation, "ns/ca")), secret(map[string][]byte{
		"ca.crt": slices.Concat([]byte("password: hunter2\n"), ca, []byte(broken), ca, []byte("hunter2")), "tls.key": []byte("hunter2"),
	}))
	w.answer = says(answers("a"))
	w.reconcile()
	if got := w.registered["ext"].Spec.ClientConfig.CABundle; !bytes.Equal(got, slices.Concat(ca, ca)) {
		t.Errorf("registered with %s", got)
	}
	if got := w.read().Spec.ClientConfig.CABundle; bytes.Contains(got, []byte("hunter2")) {
		t.Errorf("stored with %s", got)
	}
}

// stored sets the generation of the object, as an API server would.
func (w *world) stored() {
	w.Helper()
	config := w.read()
	config.Generation++
	w.must(w.client.Update(w.Context(), config))
	w.writes = nil
}

func TestAnAuthorityThatCannotBeInjectedIsNamed(t *testing.T) {
	t.Parallel()
	rubbish := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("rubbish")})
	tests := map[string]struct {
		annotation string
		data       map[string][]byte
		want       string
	}{
		"no name":              {annotation: "ca", want: `annotation runtime.cluster.x-k8s.io/inject-ca-from-secret: "ca" does not name a Secret: write namespace/name`},
		"no Secret":            {want: "Secret ns/ca, named by annotation runtime.cluster.x-k8s.io/inject-ca-from-secret, does not exist: create it, or correct the annotation"},
		"no key":               {data: map[string][]byte{"tls.crt": []byte("x")}, want: "Secret ns/ca, named by annotation runtime.cluster.x-k8s.io/inject-ca-from-secret, has no key ca.crt"},
		"an empty key":         {data: map[string][]byte{"ca.crt": nil}, want: "holds no certificate in PEM form"},
		"no certificate":       {data: map[string][]byte{"ca.crt": []byte("topsecret")}, want: "ca.crt of Secret ns/ca, named by annotation runtime.cluster.x-k8s.io/inject-ca-from-secret: holds no certificate in PEM form"},
		"rubbish":              {data: map[string][]byte{"ca.crt": rubbish}, want: "certificate 1 cannot be read"},
		"more than can be had": {data: map[string][]byte{"ca.crt": []byte(strings.Repeat("x", 51201))}, want: "has 51201 bytes, and may have 51200"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{}
			if tc.data != nil {
				objects = append(objects, secret(tc.data))
			}
			if tc.annotation == "" {
				tc.annotation = "ns/ca"
			}
			w := newWorld(t, append(objects, ext(discoveredBefore, annotated(runtimev1.InjectCAFromSecretAnnotation, tc.annotation)))...)
			if res := w.reconcile(); res.RequeueAfter < 9*time.Minute {
				t.Errorf("requeues after %s: the watch triggers a reconcile", res.RequeueAfter)
			}
			w.is(isDiscovered, "False", tc.want)
			w.wrote("patch status of")
			w.callable("old.ext")
			if event := <-w.events.Events; strings.Contains(event, "topsecret") {
				t.Errorf("%s reveals a secret", event)
			}
			w.reconcile()
			w.wrote()
			w.said()
			if w.asked != 0 || len(w.tried) != 2 {
				t.Errorf("asked %d times, tried %v", w.asked, w.tried)
			}

			// After the correction, it is discovered immediately.
			good := secret(map[string][]byte{"ca.crt": authority(t)})
			if tc.data != nil {
				w.must(w.client.Update(t.Context(), good))
			} else {
				w.must(w.client.Create(t.Context(), good))
			}
			w.change(annotated(runtimev1.InjectCAFromSecretAnnotation, "ns/ca"))
			w.reconcile()
			w.is(isDiscovered, "True", "")
			w.callable("a.ext", "b.ext")
		})
	}
}

func TestASecretThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ext(annotated(runtimev1.InjectCAFromSecretAnnotation, "ns/ca")))
	w.Live = unreadable{w.client}
	if _, err := w.Reconcile(t.Context(), w.read()); err == nil || err.Error() != "certificate authority: read Secret ns/ca: timeout" {
		t.Errorf("error %v", err)
	}
	w.wrote()
	if len(w.tried) != 1 {
		t.Errorf("tried %v: the registry must not wait for ever", w.tried)
	}
}

type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("timeout")
}
