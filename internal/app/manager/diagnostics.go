// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// profilesPath is the path of profiles, below an address that requires
// authentication.
const profilesPath = "/debug/pprof/"

// Metrics and Profiles name what is served for diagnostics.
const (
	Metrics  = "metrics"
	Profiles = "profiles"
)

// diagnostics returns how metrics and profiles are served at an address: by TLS to
// clients that the API server authenticates and authorizes. Loopback is no exception,
// since every process of the host can connect to it.
func (o Options) diagnostics(name, address string) (server.Options, error) {
	served := server.Options{BindAddress: address, ExtraHandlers: map[string]http.Handler{}}
	if address == "0" {
		return served, nil
	}
	if o.InsecureDiagnostics {
		served.FilterProvider = o.reported(name, &served.ListenConfig, askNone)
		return served, nil
	}
	cert, err := ownCertificate()
	if err != nil {
		return served, fmt.Errorf("make the certificate for metrics: %w", err)
	}
	served.SecureServing, served.FilterProvider = true, o.reported(name, &served.ListenConfig, askAPIServer)
	served.TLSOpts = []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion, c.NextProtos, c.GetCertificate = tls.VersionTLS12, []string{"http/1.1"}, cert.get
	}}
	maps.Copy(served.ExtraHandlers, DecisionPages(o.Decisions))
	served.ExtraHandlers[profilesPath] = http.HandlerFunc(pprof.Index)
	for name, handler := range map[string]http.HandlerFunc{"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		served.ExtraHandlers[profilesPath+name] = handler
	}
	return served, nil
}

// filters creates the filter of a server.
type filters func(*rest.Config, *http.Client) (server.Filter, error)

// reported returns filters that report the address of the server when it listens, which
// may be another than the configured one, whose port can be 0. The server does not
// report it; it requests its filters with an open listener.
func (o Options) reported(name string, listen *net.ListenConfig, wrapped filters) filters {
	var socket syscall.RawConn
	listen.Control = func(_, _ string, c syscall.RawConn) error {
		socket = c
		return nil
	}
	report := sync.OnceFunc(func() {
		address, err := boundTo(socket)
		if err != nil {
			o.Log.Error(err, "Reading the address of a server", "serves", name)
			return
		}
		o.Log.Info("Serving diagnostics", "serves", name, "address", address.String())
		if o.Serving != nil {
			o.Serving(name, address)
		}
	})
	return func(cfg *rest.Config, c *http.Client) (server.Filter, error) {
		filter, err := wrapped(cfg, c)
		if err != nil {
			return nil, err
		}
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			report()
			return filter(log, next)
		}, nil
	}
}

// boundTo returns the address that a socket is bound to.
func boundTo(socket syscall.RawConn) (netip.AddrPort, error) {
	if socket == nil {
		return netip.AddrPort{}, errors.New("no socket was opened")
	}
	var name unix.Sockaddr
	var err error
	if failed := socket.Control(func(fd uintptr) { name, err = unix.Getsockname(int(fd)) }); failed != nil || err != nil {
		return netip.AddrPort{}, errors.Join(failed, os.NewSyscallError("getsockname", err))
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), nil
	}
	return netip.AddrPort{}, fmt.Errorf("socket of type %T", name)
}

// addProfiles serves profiles at PprofAddress. Without authentication, controller-runtime
// does that.
func (o Options) addProfiles(mgr ctrl.Manager) error {
	if o.PprofAddress == "0" || o.InsecureDiagnostics {
		return nil
	}
	served, err := o.diagnostics(Profiles, o.PprofAddress)
	if err != nil {
		return err
	}
	profiles, err := server.NewServer(served, mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	return mgr.Add(profiles)
}

// ownCertificate returns a certificate signed by an authority of this process only:
// clients of metrics need encryption, and do not verify the identity of the server.
func ownCertificate() (*servingCert, error) {
	c := clock.RealClock{}
	authority, err := certs.NewCA(certs.ECDSAP256, "capstan-diagnostics", c.Now(), certs.CAValidity)
	if err != nil {
		return nil, err
	}
	return &servingCert{authority: authority, host: "localhost", clock: c}, nil
}

// reviewTimeout is how long the API server may take to authenticate a client.
const reviewTimeout = 10 * time.Second

// askNone returns a filter that forwards all requests.
func askNone(*rest.Config, *http.Client) (server.Filter, error) {
	return func(_ logr.Logger, next http.Handler) (http.Handler, error) { return next, nil }, nil
}

// askAPIServer returns a filter by which the API server authenticates a token, and
// authorizes it to read the path.
func askAPIServer(cfg *rest.Config, c *http.Client) (server.Filter, error) {
	authn, err := authentication.NewForConfigAndClient(cfg, c)
	if err != nil {
		return nil, err
	}
	authz, err := authorization.NewForConfigAndClient(cfg, c)
	if err != nil {
		return nil, err
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return &guard{next: next, log: log, tokens: authn.TokenReviews(), access: authz.SubjectAccessReviews()}, nil
	}, nil
}

// guard forwards the requests that the API server allows.
type guard struct {
	next   http.Handler
	log    logr.Logger
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
}

// ServeHTTP answers 401 to clients that the API server does not authenticate, and
// 403 to those that it does not authorize.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, err := g.check(r)
	switch {
	case err != nil:
		g.log.Error(err, "Asking the API server who may read diagnostics")
		http.Error(w, "the API server did not say who you are", http.StatusInternalServerError)
	case code != http.StatusOK:
		http.Error(w, http.StatusText(code), code)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// check authenticates a client, then authorizes it. Answers are not cached:
// diagnostics are read rarely, and a revoked permission ends immediately.
func (g *guard) check(r *http.Request) (code int, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	known, err := g.tokens.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !known.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := known.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	may, err := g.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
