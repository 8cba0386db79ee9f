// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// desk is a management cluster with a Certificate web of the issuer self, whose Secret is
// tls, and the controller.
type desk struct {
	*testing.T
	*Reconciler
	client.Client
	clock  *testclock.FakePassiveClock
	events *events.FakeRecorder
	// after is called with the verb and kind of each write of the controller. Its error is
	// the response; the write is stored anyway if it is lost.
	after func(write string) error
}

var errLost = errors.New("connection reset by peer")

func newDesk(t *testing.T, change func(*certmanagerv1.Certificate), more ...client.Object) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), certmanagerv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	web := &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Generation: 1, CreationTimestamp: metav1.NewTime(now)}}
	web.Spec.SecretName, web.Spec.IssuerRef.Name, web.Spec.DNSNames = "tls", "self", []string{"web.ns.svc"}
	web.Spec.PrivateKey = &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}
	if change != nil {
		change(web)
	}
	d := &desk{T: t, clock: testclock.NewFakePassiveClock(now), events: events.NewFakeRecorder(20), after: func(string) error { return nil }}
	d.Client = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&certmanagerv1.Certificate{}, &certmanagerv1.Issuer{}).
		WithIndex(&certmanagerv1.Certificate{}, SecretName, OfSecretName).
		WithObjects(append(more, web,
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "certificates.cert-manager.io", Labels: map[string]string{certmanagerv1.DefinitionLabel: "capstan"}}},
			&certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "self"}, Spec: certmanagerv1.IssuerSpec{SelfSigned: &certmanagerv1.SelfSignedIssuer{}}},
		)...).Build()
	d.Reconciler = &Reconciler{Live: d.Client, Clock: d.clock, Recorder: d.events, Mgmt: interceptor.NewClient(d.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return d.write("create Secret", func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return d.write("update Secret", func() error { return c.Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return d.write("patch status", func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
	})}
	return d
}

func (d *desk) write(what string, do func() error) error {
	err := d.after(what)
	if err == nil || errors.Is(err, errLost) {
		err = errors.Join(do(), err)
	}
	return err
}

// reconcile returns the result for the Certificate as it is stored.
func (d *desk) reconcile() (ctrl.Result, error) {
	d.Helper()
	return d.Reconcile(d.Context(), d.web())
}

func (d *desk) settle() ctrl.Result {
	d.Helper()
	result, err := d.reconcile()
	if err != nil {
		d.Fatal(err)
	}
	return result
}

func (d *desk) web() *certmanagerv1.Certificate {
	d.Helper()
	web := &certmanagerv1.Certificate{}
	if err := d.Client.Get(d.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, web); err != nil {
		d.Fatal(err)
	}
	return web
}

// tls is the Secret; nil if it does not exist.
func (d *desk) tls() *corev1.Secret {
	d.Helper()
	secret := &corev1.Secret{}
	if err := d.Client.Get(d.Context(), client.ObjectKey{Namespace: "ns", Name: "tls"}, secret); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		d.Fatal(err)
	}
	return secret
}

func (d *desk) checkPair() {
	d.Helper()
	s := d.tls()
	if s == nil {
		d.Fatal("there is no Secret")
	}
	if err := (certs.Pair{Cert: s.Data["tls.crt"], Key: s.Data["tls.key"]}).Check(""); err != nil {
		d.Errorf("the pair in the Secret: %v", err)
	}
}

func ready(c *certmanagerv1.Certificate) string {
	return conditions.Reason(c, certmanagerv1.ReadyCondition) + ": " + conditions.Message(c, certmanagerv1.ReadyCondition)
}

// TestReconcileIssuesOneCertificateWhenAWriteFails: a write is refused, its response gets
// lost, or another client is faster. The next reconcile ends with one pair that fits
// together, and what is stored is never issued twice.
func TestReconcileIssuesOneCertificateWhenAWriteFails(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "tls", errors.New("it has changed"))
	for _, existing := range []bool{false, true} {
		secretWrite := map[bool]string{false: "create Secret", true: "update Secret"}[existing]
		for _, write := range []string{secretWrite, "patch status"} {
			for name, cause := range map[string]error{"refused": errors.New("refused by a test"), "conflict": conflict, "lost": errLost} {
				what := write + " " + name
				var more []client.Object
				if existing {
					more = append(more, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls", Labels: map[string]string{"mine": "x"}}, Data: map[string][]byte{"other": nil}})
				}
				d := newDesk(t, nil, more...)
				failed := false
				d.after = func(w string) error {
					if w == write && !failed {
						failed = true
						return cause
					}
					return nil
				}
				if _, err := d.reconcile(); err == nil {
					t.Errorf("%s: no error", what)
				}
				if stored := d.tls(); write == secretWrite && name != "lost" && stored != nil && len(stored.Data["tls.key"]) > 0 {
					t.Errorf("%s: the Secret has a key", what)
				}
				if conditions.IsTrue(d.web(), certmanagerv1.ReadyCondition) && name != "lost" {
					t.Errorf("%s: the Certificate is ready", what)
				}
				before := d.tls()
				d.settle()
				d.checkPair()
				if web := d.web(); !strings.HasPrefix(ready(web), "Ready: ") || web.Status.Revision == nil || *web.Status.Revision != 1 {
					t.Errorf("%s: %s, revision %v", what, ready(web), web.Status.Revision)
				}
				if before != nil && len(before.Data["tls.key"]) > 0 && !bytes.Equal(before.Data["tls.key"], d.tls().Data["tls.key"]) {
					t.Errorf("%s: a second certificate was issued", what)
				}
				if existing && d.tls().Labels["mine"] != "x" {
					t.Errorf("%s: a label of another client was removed", what)
				}
			}
		}
	}
}

func TestReconcileWritesNothingInSteadyState(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	result := d.settle()
	if want := 60 * 24 * time.Hour; result.RequeueAfter != want {
		t.Errorf("the next reconcile is in %s, want the renewal in %s", result.RequeueAfter, want)
	}
	d.after = func(write string) error {
		t.Errorf("%s in steady state", write)
		return nil
	}
	d.clock.SetTime(now.Add(24 * time.Hour))
	if got, want := d.settle().RequeueAfter, 59*24*time.Hour; got != want {
		t.Errorf("the next reconcile is in %s, want %s", got, want)
	}
}

func TestReconcileRenewsWithANewKeyUnlessItMustStay(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", certmanagerv1.RotateAlways, certmanagerv1.RotateNever} {
		d := newDesk(t, func(c *certmanagerv1.Certificate) { c.Spec.PrivateKey.RotationPolicy = policy })
		d.settle()
		first := d.tls()
		d.clock.SetTime(now.Add(60 * 24 * time.Hour))
		d.settle()
		d.checkPair()
		second := d.tls()
		if bytes.Equal(first.Data["tls.crt"], second.Data["tls.crt"]) {
			t.Errorf("policy %q: not renewed", policy)
		}
		if stays := bytes.Equal(first.Data["tls.key"], second.Data["tls.key"]); stays != (policy == certmanagerv1.RotateNever) {
			t.Errorf("policy %q: the key stays: %t", policy, stays)
		}
		if got := *d.web().Status.Revision; got != 2 {
			t.Errorf("policy %q: revision %d", policy, got)
		}
	}
}

// TestReconcileFollowsOutputFormats adds and removes what is derived from the pair.
func TestReconcileFollowsOutputFormats(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *certmanagerv1.Certificate) {
		c.Spec.AdditionalOutputFormats = []certmanagerv1.OutputFormat{{Type: certmanagerv1.OutputDER}, {Type: certmanagerv1.OutputCombinedPEM}}
	})
	d.settle()
	data := d.tls().Data
	block, _ := pem.Decode(data["tls.key"])
	if !bytes.Equal(block.Bytes, data["key.der"]) {
		t.Error("key.der is another key")
	}
	if want := slices.Concat(data["tls.key"], []byte("\n"), data["tls.crt"]); !bytes.Equal(want, data["tls-combined.pem"]) {
		t.Errorf("tls-combined.pem is %s", data["tls-combined.pem"])
	}
	web := d.web()
	web.Spec.AdditionalOutputFormats = nil
	if err := d.Client.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	d.settle()
	if got, want := slices.Sorted(maps.Keys(d.tls().Data)), []string{"ca.crt", "tls.crt", "tls.key"}; !slices.Equal(got, want) {
		t.Errorf("data %q, want %q", got, want)
	}
	if !bytes.Equal(d.tls().Data["tls.key"], data["tls.key"]) {
		t.Error("a new certificate was issued")
	}
}

// TestReconcileLeavesTheSecretAlone that is of another owner, or if the request is wrong.
func TestReconcileLeavesTheSecretAlone(t *testing.T) {
	t.Parallel()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls"}, Data: map[string][]byte{"tls.key": []byte("mine")}}
	frozen := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "tls"}, Immutable: new(true)}
	rival := &certmanagerv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "first", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: certmanagerv1.CertificateSpec{SecretName: "tls"}}
	for name, tc := range map[string]struct {
		change func(*certmanagerv1.Certificate)
		more   []client.Object
		want   string
	}{
		"data of another owner":    {nil, []client.Object{foreign}, `has data at "tls.key"`},
		"an immutable Secret":      {nil, []client.Object{frozen}, "is immutable"},
		"an older Certificate":     {nil, []client.Object{rival}, "is that of Certificate first"},
		"a wrong request":          {func(c *certmanagerv1.Certificate) { c.Spec.Duration = "1m" }, nil, "spec.duration: 1m0s is less than 1h0m0s"},
		"an issuer that is absent": {func(c *certmanagerv1.Certificate) { c.Spec.IssuerRef.Name = "none" }, nil, "Waiting for Issuer none to be created"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, tc.change, tc.more...)
			before := d.tls()
			for range 2 {
				d.settle()
			}
			if after := d.tls(); (before == nil) != (after == nil) || before != nil && before.ResourceVersion != after.ResourceVersion {
				t.Errorf("the Secret was written: %v", after)
			}
			if got := ready(d.web()); !strings.Contains(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if n := len(d.events.Events); n > 1 {
				t.Errorf("%d events for one problem", n)
			}
		})
	}
}

// TestReconcileReplacesWhatDoesNotFit: another client damages the Secret.
func TestReconcileReplacesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	other := newDesk(t, nil)
	other.settle()
	for name, damage := range map[string]func(map[string][]byte){
		"no key":            func(data map[string][]byte) { delete(data, "tls.key") },
		"no certificate":    func(data map[string][]byte) { delete(data, "tls.crt") },
		"an empty key":      func(data map[string][]byte) { data["tls.key"] = nil },
		"a key that is DER": func(data map[string][]byte) { data["tls.key"] = []byte{0x30, 0x82, 0x01} },
		"another key":       func(data map[string][]byte) { data["tls.key"] = other.tls().Data["tls.key"] },
		"text":              func(data map[string][]byte) { data["tls.crt"] = []byte("text") },
		"another authority": func(data map[string][]byte) { data["ca.crt"] = other.tls().Data["ca.crt"] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, func(c *certmanagerv1.Certificate) {
				c.Spec.AdditionalOutputFormats = []certmanagerv1.OutputFormat{{Type: certmanagerv1.OutputDER}}
			})
			d.settle()
			secret := d.tls()
			before := bytes.Clone(secret.Data["tls.crt"])
			damage(secret.Data)
			if err := d.Client.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			d.settle()
			d.checkPair()
			if bytes.Equal(before, d.tls().Data["tls.crt"]) {
				t.Error("no new certificate was issued")
			}
			if got := ready(d.web()); !strings.HasPrefix(got, "Ready: ") {
				t.Error(got)
			}
		})
	}
}

// TestIssuerIsNotReadyOnceItsAuthorityExpired, without any other change.
func TestIssuerIsNotReadyOnceItsAuthorityExpired(t *testing.T) {
	t.Parallel()
	secret := authority(t, "ns", corev1.SecretTypeTLS)
	block, _ := pem.Decode(secret.Data["tls.crt"])
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "ns", Name: "by-ca"}
	d := newDesk(t, nil, secret, &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}})
	r := &IssuerReconciler[*certmanagerv1.Issuer]{Name: "x", Mgmt: d.Client, Live: d.Client, Clock: d.clock}
	for at, want := range map[time.Time]bool{now: true, cert.NotAfter.Add(time.Second): false} {
		d.clock.SetTime(at)
		issuer := &certmanagerv1.Issuer{}
		if err := d.Client.Get(t.Context(), key, issuer); err != nil {
			t.Fatal(err)
		}
		result, err := r.Reconcile(t.Context(), issuer)
		if err != nil {
			t.Fatal(err)
		}
		if got := conditions.IsTrue(issuer, certmanagerv1.ReadyCondition); got != want {
			t.Errorf("at %s: ready %t", at, got)
		}
		if after := at.Add(result.RequeueAfter); want && (result.RequeueAfter == 0 || after.Before(cert.NotAfter) || after.After(cert.NotAfter.Add(time.Minute))) {
			t.Errorf("the next reconcile is in %s, want one when the authority expires at %s", result.RequeueAfter, cert.NotAfter)
		}
	}
}
