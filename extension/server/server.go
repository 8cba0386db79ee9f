// SPDX-License-Identifier: Apache-2.0

// Package server is the server of a runtime extension, for its author: hooks are
// registered with typed functions, and the server does everything that is common to all
// extensions. It answers discovery from the registrations; it checks requests, limits
// them and gives them a deadline; it turns errors and panics into answers with status
// Failure; it generates certificates, or reads them again when they change; and it
// provides health, metrics and a log line per call.
//
//	s, err := server.New(server.Options{})
//	...
//	err = server.Handle(s, hooksv1.BeforeClusterCreate,
//		func(ctx context.Context, req *hooksv1.BeforeClusterCreateRequest, resp *hooksv1.BeforeClusterCreateResponse) error {
//			if !budgetLeft(req.Cluster.Namespace) {
//				resp.Message, resp.RetryAfterSeconds = "waiting for budget", 60
//			}
//			return nil
//		})
//	...
//	err = s.Start(ctx)
//
// Each handler runs in its own goroutine; a panic does not end the process. A handler
// must recover panics in goroutines that it starts itself: such a panic does end the
// process.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// The defaults of Options.
const (
	DefaultAddress         = "127.0.0.1:9443"
	DefaultGracePeriod     = DefaultTimeout // long enough for a call that has just started
	DefaultMaxRequestBytes = 20 << 20       // the same limit as Capstan's for an answer
	DefaultMaxConcurrent   = 200            // Capstan has half as many in progress
)

// Options configure a Server. The zero value is a server for local use.
type Options struct {
	// Catalog holds the hooks that can be registered; nil is catalog.Default.
	Catalog *catalog.Catalog

	// Address is the host and port for calls; DefaultAddress when empty. Port 0 selects a
	// free one. Without a host (":9443") it listens on all addresses.
	Address string

	// CertFile and KeyFile hold the certificate in PEM. They are read again
	// when they change. When both are empty, an authority and a certificate
	// are generated in memory for localhost, 127.0.0.1, ::1 and Hosts.
	CertFile, KeyFile string

	// Hosts are names or addresses under which callers reach the server. The first is the
	// host of URL when the server listens on all addresses.
	Hosts []string

	// ClientCAFile holds the authorities in PEM that client certificates must
	// be signed by. It is read again when it changes. Empty: clients need no
	// certificate.
	ClientCAFile string

	// OperationsAddress is the host and port where /healthz, /readyz and /metrics are
	// served over plain HTTP. Without a host (":8080") it is that port of 127.0.0.1 only.
	// When it is empty, they are not served.
	OperationsAddress string

	// GracePeriod is how long calls in flight may continue when the server stops;
	// DefaultGracePeriod when zero.
	GracePeriod time.Duration

	// MaxRequestBytes limits the body of a request, and of a response;
	// DefaultMaxRequestBytes when zero.
	MaxRequestBytes int64

	// MaxConcurrent is how many calls can be in progress at the same time;
	// DefaultMaxConcurrent when zero. Further calls are refused with 429 and Retry-After.
	// Discovery is not counted: it answers from memory.
	MaxConcurrent int

	// Log gets one line per call. The zero value discards.
	Log logr.Logger
}

// Server answers the hooks that Handle registers. It is an http.Handler, so that tests,
// and programs with their own listener, do not need Start.
type Server struct {
	options Options
	log     logr.Logger
	clock   clock.PassiveClock
	tls     *certificates
	metrics *metrics
	slots   chan struct{} // one for each call in progress
	ready   chan struct{} // closed once it listens

	stopping atomic.Bool

	mu                  sync.RWMutex // guards the following fields
	routes              map[string]*route
	names               map[string]*route
	started             bool
	main, operationsAdr net.Addr
}

// New checks the options and reads, or generates, the certificates.
func New(options Options) (*Server, error) {
	return newServer(options, clock.RealClock{})
}

func newServer(options Options, c clock.PassiveClock) (*Server, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("set up extension server: %w", err)
	}
	s := &Server{
		options: options,
		log:     options.Log,
		clock:   c,
		slots:   make(chan struct{}, options.MaxConcurrent),
		ready:   make(chan struct{}),
		routes:  map[string]*route{},
		names:   map[string]*route{},
	}
	var err error
	if s.tls, err = newCertificates(options, c, s.log); err != nil {
		return nil, fmt.Errorf("set up extension server: %w", err)
	}
	if err = s.serveDiscovery(); err != nil {
		return nil, fmt.Errorf("set up extension server: %w", err)
	}
	s.metrics = newMetrics()
	return s, nil
}

// complete fills in defaults and refuses what cannot work.
func (o *Options) complete() error {
	o.Address = cmp.Or(o.Address, DefaultAddress)
	o.GracePeriod = cmp.Or(o.GracePeriod, DefaultGracePeriod)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, DefaultMaxConcurrent)
	if o.Catalog == nil {
		o.Catalog = catalog.Default()
	}
	var errs []error
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		errs = append(errs, fmt.Errorf("address %q: give it as host:port: %w", o.Address, err))
	}
	if o.OperationsAddress != "" {
		host, port, err := net.SplitHostPort(o.OperationsAddress)
		if err != nil {
			errs = append(errs, fmt.Errorf("operations address %q: give it as host:port: %w", o.OperationsAddress, err))
		} else {
			o.OperationsAddress = net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("a certificate file and a key file go together: one of them is missing"))
	}
	if o.GracePeriod < 0 || o.MaxRequestBytes < 0 || o.MaxConcurrent < 0 {
		errs = append(errs, errors.New("grace period, request size and concurrency cannot be negative"))
	}
	for _, host := range o.Hosts {
		if err := checkHost(host); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Ready is closed once the server accepts connections. It stays open when
// Start fails, so wait for Start's error too.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is the address that calls are accepted on; nil before Ready.
func (s *Server) Addr() net.Addr {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.main
}

// URL is the URL of the server, without a path; empty before Ready.
func (s *Server) URL() string {
	if addr := s.Addr(); addr != nil {
		return "https://" + hostPort(addr, s.options.Hosts)
	}
	return ""
}

// OperationsURL is the URL of health and metrics, without a path; empty before Ready, and
// without Options.OperationsAddress.
func (s *Server) OperationsURL() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.operationsAdr == nil {
		return ""
	}
	return "http://" + hostPort(s.operationsAdr, nil)
}

// hostPort is addr as a caller would write it: an unspecified address is replaced by the
// first of hosts, or else by the loopback address.
func hostPort(addr net.Addr, hosts []string) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if len(hosts) > 0 {
			host = hosts[0]
		}
	}
	return net.JoinHostPort(host, port)
}

// CABundle is the generated authority in PEM, with which callers verify the server's
// certificate; nil with certificate files, whose authority the server does not have.
func (s *Server) CABundle() []byte { return s.tls.bundle }

// ExtensionConfig returns the object that registers the server under a name once it is
// created in a management cluster. It is complete after Ready, and with certificate files
// lacks the caBundle. Calls from other hosts need Address and Hosts that can be reached
// from there.
func (s *Server) ExtensionConfig(name string) *runtimev1.ExtensionConfig {
	return &runtimev1.ExtensionConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: runtimev1.GroupVersion().String(), Kind: "ExtensionConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       runtimev1.ExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: s.URL(), CABundle: s.CABundle()}},
	}
}

// Metrics is the registry behind /metrics. An extension can add its own collectors to it.
func (s *Server) Metrics() *prometheus.Registry { return s.metrics.registry }

// serveDiscovery registers the answer to the discovery hook.
func (s *Server) serveDiscovery() error {
	descriptor, err := s.options.Catalog.Lookup(hooksv1.Discovery)
	if err != nil {
		return fmt.Errorf("look up discovery: %w", err)
	}
	discovery := newRoute(descriptor, func(_ context.Context, _ *hooksv1.DiscoveryRequest, resp *hooksv1.DiscoveryResponse) error {
		resp.Handlers = s.handlers()
		return nil
	})
	discovery.uncounted = true
	s.routes[discovery.path()] = discovery
	return nil
}

var _ http.Handler = &Server{}
