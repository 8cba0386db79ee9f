// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestDiagnosticsAskForAuthenticationOnEveryAddress(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		address  string
		insecure bool
		want     bool
	}{
		"no address":                 {address: "0"},
		"loopback":                   {address: "127.0.0.1:9090", want: true},
		"loopback of IPv6":           {address: "[::1]:9090", want: true},
		"loopback by name":           {address: "localhost:0", want: true},
		"every address":              {address: ":9090", want: true},
		"one address":                {address: "192.0.2.1:9090", want: true},
		"loopback, told otherwise":   {address: "127.0.0.1:9090", insecure: true},
		"every address, not secured": {address: ":9090", insecure: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served, err := Options{Config: Config{InsecureDiagnostics: tc.insecure}}.diagnostics(Metrics, tc.address)
			if err != nil {
				t.Fatal(err)
			}
			_, profiles := served.ExtraHandlers[profilesPath]
			_, recorded := served.ExtraHandlers[decisions.Path]
			if recorded != tc.want {
				t.Errorf("decisions %v, want %v", recorded, tc.want)
			}
			if served.SecureServing != tc.want || profiles != tc.want {
				t.Errorf("secure %v, profiles %v: want %v", served.SecureServing, profiles, tc.want)
			}
			for _, c := range []Config{{MetricsAddress: tc.address}, {PprofAddress: tc.address}} {
				o := Options{Config: c}
				o.InsecureDiagnostics, o.SimulatedDir = tc.insecure, t.TempDir()
				if o, err = o.complete(); err != nil {
					t.Fatal(err)
				}
				opts, err := managerOptions(o)
				if err != nil {
					t.Fatal(err)
				}
				if plain := opts.PprofBindAddress != "0" || opts.Metrics.BindAddress != "0" && !opts.Metrics.SecureServing; plain == (tc.want || tc.address == "0") {
					t.Errorf("%+v: in the clear %v", o, plain)
				}
			}
		})
	}
}

// unauthorized is a manager whose API server authenticates no token.
type unauthorized struct {
	ctrl.Manager
	cfg   *rest.Config
	added []ctrlmanager.Runnable
}

func (u *unauthorized) GetConfig() *rest.Config          { return u.cfg }
func (u *unauthorized) GetHTTPClient() *http.Client      { return http.DefaultClient }
func (u *unauthorized) Add(r ctrlmanager.Runnable) error { u.added = append(u.added, r); return nil }

func TestProfilesOnLoopbackAskForToken(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": {"authenticated": false}}`)
	}))
	defer api.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	mgr := &unauthorized{cfg: &rest.Config{Host: api.URL}}
	if err := (Options{Config: Config{PprofAddress: address}}).addProfiles(mgr); err != nil || len(mgr.added) != 1 {
		t.Fatalf("%v, serves %v", err, mgr.added)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.added[0].Start(ctx) }()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/metrics", decisions.Path, decisions.Path + "machine/ns/a"} {
		for _, token := range []string{"", "wrong"} {
			testenv.Eventually(t, func() error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
				if err != nil {
					return err
				}
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				resp, err := transport.RoundTrip(req)
				if err != nil {
					return err
				}
				defer func() { _ = resp.Body.Close() }()
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s with token %q: %s", path, token, resp.Status)
				}
				return nil
			})
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDiagnosticsReportAddressOfPortZero(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	for name, tc := range map[string]struct {
		insecure bool
		scheme   string
		want     int
	}{
		"with authentication":    {scheme: "https", want: http.StatusUnauthorized},
		"without authentication": {insecure: true, scheme: "http", want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported, logged := make(chan netip.AddrPort, 1), make(chan string, 1)
			o := Options{Config: Config{InsecureDiagnostics: tc.insecure}, Log: funcr.New(func(_, args string) { logged <- args }, funcr.Options{}), Serving: func(name string, address netip.AddrPort) {
				if name != Metrics {
					t.Errorf("got the address of %s", name)
				}
				reported <- address
			}}
			served, err := o.diagnostics(Metrics, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s, err := server.NewServer(served, &rest.Config{Host: api.URL}, http.DefaultClient)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Start(ctx) }()
			address := <-reported
			if log := <-logged; !strings.Contains(log, address.String()) {
				t.Errorf("the log has %s, want %s", log, address)
			}
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, tc.scheme+"://"+address.String()+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != tc.want {
				t.Errorf("got %s, %v, want %d", resp.Status, err, tc.want)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDiagnosticsNeedPermissionOfAPIServer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header   string
		down     bool
		wantCode int
	}{
		"a refused user":               {wantCode: 401},
		"a password":                   {header: "Basic Z29vZDpnb29k", wantCode: 401},
		"an empty token":               {header: "Bearer ", wantCode: 401},
		"an unknown token":             {header: "Bearer unknown", wantCode: 401},
		"an allowed user":              {header: "Bearer allowed", wantCode: 403},
		"a reader":                     {header: "Bearer reader", wantCode: 200},
		"a reader, without API server": {header: "Bearer reader", down: true, wantCode: 500},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := fake.NewClientset()
			set.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				review.Status.Authenticated = review.Spec.Token != "unknown"
				review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"g"}}
				if tc.down {
					return true, nil, errors.New("no answer")
				}
				return true, review, nil
			})
			set.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
				asked := *review.Spec.NonResourceAttributes
				review.Status.Allowed = review.Spec.User == "reader" && review.Spec.Groups[0] == "g" && asked == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
				return true, review, nil
			})
			g := &guard{
				next: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), log: logr.Discard(),
				tokens: set.AuthenticationV1().TokenReviews(), access: set.AuthorizationV1().SubjectAccessReviews(),
			}
			r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil), httptest.NewRecorder()
			if tc.header != "" {
				r.Header.Set("Authorization", tc.header)
			}
			if g.ServeHTTP(w, r); w.Code != tc.wantCode {
				t.Errorf("code %d, want %d", w.Code, tc.wantCode)
			}
			if _, token, _ := strings.Cut(tc.header, " "); token != "" && strings.Contains(w.Body.String(), token) {
				t.Errorf("the answer holds the token: %s", w.Body)
			}
		})
	}
}

func TestDiagnosticsAreServedByTLS(t *testing.T) {
	t.Parallel()
	cert, err := ownCertificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: cert.get})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
}
