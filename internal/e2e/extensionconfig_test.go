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
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// extension is a server that answers discovery, and a namespace in which a
// Secret has its authority.
type extension struct {
	fleet
	server *httptest.Server
	cert   atomic.Pointer[tls.Certificate]
	names  atomic.Pointer[[]string] // the names of its handlers
	asked  atomic.Int64             // how often for them, but below /uncounted
	// hanging is how many callers wait for an answer now, which will not come.
	hanging atomic.Int64
}

const discoveryPath = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"

// newExtension starts one that answers below any path; below /hang it never
// does.
func newExtension(f fleet) *extension {
	f.Helper()
	x := &extension{fleet: f}
	x.answer("a")
	over := make(chan struct{})
	x.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, discoveryPath):
			http.NotFound(w, r)
		case strings.HasPrefix(r.URL.Path, "/hang"):
			x.hanging.Add(1)
			defer x.hanging.Add(-1)
			select {
			case <-over:
			case <-r.Context().Done():
			}
		case strings.HasPrefix(r.URL.Path, "/uncounted"):
			x.discover(w)
		default:
			x.asked.Add(1)
			x.discover(w)
		}
	}))
	x.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*x.cert.Load()}}, nil // the test server's own would win
	}}
	x.server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused certificates are part of the tests
	x.rotate()
	x.server.StartTLS()
	f.Cleanup(x.server.Close)
	f.Cleanup(func() { close(over) })
	return x
}

func (x *extension) answer(names ...string) { x.names.Store(&names) }

func (x *extension) discover(w http.ResponseWriter) {
	response := &hooksv1.DiscoveryResponse{TypeMeta: metav1.TypeMeta{APIVersion: hooksv1.GroupVersion().String(), Kind: "DiscoveryResponse"}}
	response.Status = hooksv1.ResponseStatusSuccess
	for _, name := range *x.names.Load() {
		response.Handlers = append(response.Handlers, hooksv1.ExtensionHandler{
			Name: name, RequestHook: hooksv1.GroupVersionHook{APIVersion: hooksv1.GroupVersion().String(), Hook: "BeforeClusterCreate"},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response)
}

// rotate gives the server a certificate of a new authority, and puts that into
// the Secret ca.
func (x *extension) rotate() {
	x.Helper()
	ca, err := certs.NewCA(certs.ECDSAP256, "extension", time.Now(), time.Hour)
	x.must(err)
	host, err := netip.ParseAddrPort(x.server.Listener.Addr().String())
	x.must(err)
	leaf, err := ca.Issue(certs.Leaf{CommonName: "extension", DNSNames: []string{"hooks." + x.Namespace + ".svc"}, IPs: []net.IP{host.Addr().AsSlice()}, Server: true, Now: time.Now()})
	x.must(err)
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	x.must(err)
	x.cert.Store(&pair)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "ca"}, Data: map[string][]byte{"ca.crt": ca.Cert}}
	if err := x.Client.Update(x.Context(), secret); apierrors.IsNotFound(err) {
		x.must(x.Client.Create(x.Context(), secret))
	} else {
		x.must(err)
	}
}

// config registers the extension under the name of the namespace and a suffix.
func (x *extension) config(suffix string, edits ...func(*runtimev1.ExtensionConfig)) *runtimev1.ExtensionConfig {
	x.Helper()
	c := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: x.Namespace + suffix}}
	c.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: x.Namespace + "/ca"}
	c.Spec.ClientConfig.URL = x.server.URL
	// Clusters of other tests do not wait until it is discovered.
	c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": x.Namespace}}
	for _, edit := range edits {
		edit(c)
	}
	x.must(x.Client.Create(x.Context(), c, client.FieldValidation("Strict")))
	x.Cleanup(func() { _ = x.Client.Delete(context.Background(), c) }) // it, or the plane, may be deleted
	return c
}

// discovered reads a config and returns an error unless it has exactly the
// handlers.
func (x *extension) discovered(c *runtimev1.ExtensionConfig, handlers ...string) error {
	if err := x.Client.Get(x.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		return err
	}
	d := conditions.Get(c, runtimev1.ExtensionConfigDiscoveredCondition)
	if d == nil || d.Status != metav1.ConditionTrue || d.ObservedGeneration != c.Generation {
		return fmt.Errorf("Discovered is %+v at generation %d", d, c.Generation)
	}
	var got, want []string
	for _, h := range c.Status.Handlers {
		got = append(got, h.Name)
	}
	for _, h := range handlers {
		want = append(want, h+"."+c.Name)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("handlers %v, want %v", got, want)
	}
	return nil
}

// undiscovered returns an error unless a config reports that, and what, is wrong.
func (x *extension) undiscovered(c *runtimev1.ExtensionConfig, why string) error {
	if err := x.Client.Get(x.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		return err
	}
	if d := conditions.Get(c, runtimev1.ExtensionConfigDiscoveredCondition); d == nil || d.Status != metav1.ConditionFalse || !strings.Contains(d.Message, why) {
		return fmt.Errorf("Discovered is %+v, want False with %q", d, why)
	}
	return nil
}

// registered returns an error unless the plane lists exactly these handlers of a
// config.
func (x *extension) registered(config string, handlers ...string) error {
	body, err := x.get("/capstan/v1/extensions")
	if err != nil {
		return err
	}
	var stats []struct{ Handler, Config string }
	if err := json.Unmarshal(body, &stats); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	var got, want []string
	for _, s := range stats {
		if s.Config == config && s.Handler != "" {
			got = append(got, s.Handler)
		}
	}
	for _, h := range handlers {
		want = append(want, h+"."+config)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the plane knows of handlers %v, want %v", got, want)
	}
	return nil
}

func (f fleet) get(path string) ([]byte, error) {
	c, err := kubernetes.NewForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	return c.Discovery().RESTClient().Get().AbsPath(path).DoRaw(f.Context())
}

func TestAnExtensionIsFollowedFromRegistrationToRemoval(t *testing.T) {
	t.Parallel()
	x := newExtension(newFleet(t))
	c := x.config("")
	x.eventually(func() error { return errors.Join(x.discovered(c, "a"), x.registered(c.Name, "a")) })
	if len(c.Spec.ClientConfig.CABundle) == 0 {
		t.Error("no authority was injected")
	}

	x.answer("b", "c")
	c.Spec.Settings = map[string]string{"key": "value"}
	x.must(x.Client.Update(t.Context(), c))
	x.eventually(func() error { return errors.Join(x.discovered(c, "b", "c"), x.registered(c.Name, "b", "c")) })

	before := slices.Clone(c.Spec.ClientConfig.CABundle)
	x.answer("d")
	x.rotate()
	x.eventually(func() error { return errors.Join(x.discovered(c, "d"), x.registered(c.Name, "d")) })
	if slices.Equal(c.Spec.ClientConfig.CABundle, before) {
		t.Error("the authority was not rotated")
	}

	x.must(x.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "ca"}}))
	x.eventually(func() error {
		return errors.Join(x.undiscovered(c, "Secret "+x.Namespace+"/ca, named by annotation"), x.registered(c.Name, "d"))
	})
	x.rotate()
	x.eventually(func() error { return x.discovered(c, "d") })

	x.must(x.Client.Delete(t.Context(), c))
	x.eventually(func() error { return x.registered(c.Name) })
}

func TestRemovedExtensionIsNotCalled(t *testing.T) {
	t.Parallel()
	x := newExtension(newFleet(t))
	held := x.config("", func(c *runtimev1.ExtensionConfig) { c.Finalizers = []string{"example.com/mine"} })
	x.eventually(func() error { return errors.Join(x.discovered(held, "a"), x.registered(held.Name, "a")) })
	x.must(x.Client.Delete(t.Context(), held))
	x.eventually(func() error { return x.registered(held.Name) }) // although it is still there
	before := x.asked.Load()
	x.must(x.Client.Get(t.Context(), client.ObjectKeyFromObject(held), held))
	held.Annotations["restart"], held.Finalizers = "up", nil
	x.must(x.Client.Update(t.Context(), held))
	other := x.config("-other", func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL += "/uncounted" })
	x.eventually(func() error { return x.discovered(other, "a") })
	if got := x.asked.Load() - before; got != 0 {
		t.Errorf("asked %d times after the removal", got)
	}
}

func TestAServiceIsFoundWithoutDNS(t *testing.T) {
	t.Parallel()
	x := newExtension(newFleet(t))
	port := int32(netip.MustParseAddrPort(x.server.Listener.Addr().String()).Port())
	c := x.config("", func(c *runtimev1.ExtensionConfig) {
		c.Spec.ClientConfig = runtimev1.ClientConfig{Service: runtimev1.ServiceReference{Namespace: x.Namespace, Name: "hooks", Path: "/below", Port: &port}}
	})
	x.eventually(func() error {
		return x.undiscovered(c, "find Service "+x.Namespace+"/hooks: it does not exist")
	})
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: "hooks"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}
	x.must(x.Client.Create(t.Context(), service))
	x.eventually(func() error { return x.undiscovered(c, "it has no ready endpoint") })
	// No EndpointSlice may hold a loopback address; a name may resolve to one.
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	x.must(x.Client.Update(t.Context(), service))
	x.eventually(func() error { return x.discovered(c, "a") })
}

func TestExtensionsThatHangDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	x := newExtension(newFleet(t))
	const each = 40
	for i := range each {
		x.config(fmt.Sprintf("-hang-%d", i), func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL += "/hang" })
	}
	x.eventually(func() error { // with a few workers there would never be so many in parallel
		if n := x.hanging.Load(); n < each {
			return fmt.Errorf("%d of %d extensions are asked at the same time", n, each)
		}
		return nil
	})
	for i := range each {
		c := x.config(fmt.Sprintf("-well-%d", i))
		x.eventually(func() error { return x.discovered(c, "a") })
	}
}

func TestARestartDoesNotWriteToExtensions(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	x := newExtension(f)
	well := x.config("-well")
	lost := x.config("-lost", func(c *runtimev1.ExtensionConfig) { c.Spec.ClientConfig.URL = "https://127.0.0.1:1" })
	paused := x.config("-paused", func(c *runtimev1.ExtensionConfig) { c.Annotations["cluster.x-k8s.io/paused"] = "" })
	x.eventually(func() error {
		return errors.Join(x.discovered(well, "a"), x.undiscovered(lost, "connection refused"), x.says(paused, "Paused", "True", "annotation"))
	})
	before := f.quiet()
	asked := x.asked.Load()
	f.must(p.stop())
	x.fleet = p.start()
	x.eventually(func() error {
		if x.asked.Load() == asked {
			return errors.New("the extension was not asked again")
		}
		return x.registered(well.Name, "a")
	})
	if diff := cmp.Diff(before, x.quiet()); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

func TestExtensionPagesNeedAuthentication(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for path, want := range map[string]string{"/capstan/v1/extensions": "[", "/capstan/v1/hooks/openapi.json": "{"} {
		if body, err := f.get(path); err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("%s: %.100s, %v", path, body, err)
		}
		stranger := *f.Env
		stranger.Config = rest.AnonymousClientConfig(f.Config)
		if body, err := (fleet{t, &stranger}).get(path); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			t.Errorf("%s, to an unrelated client: %.100s, %v", path, body, err)
		}
	}
}
