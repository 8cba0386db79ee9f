// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// grace is how late an answer may be, to allow for network latency.
const grace = time.Second

// session is one run against one server.
type session struct {
	config   Config
	base     *url.URL
	tls      *tls.Config
	pool     *transport.Pool
	endpoint transport.Endpoint
	raw      *http.Client

	// problem, once set, is the reason why no further check can be run.
	problem string

	// fault, once set, is a mistake in the config that is only visible with the server's
	// handlers.
	fault error

	// discovered is true when handlers has those of the server.
	discovered bool
	discovery  *handler
	handlers   []*handler
}

// handler is one handler of the server, or its discovery.
type handler struct {
	name    string // in full
	hook    catalog.GroupVersionHook
	path    string
	timeout time.Duration

	request, response schema.GroupVersionKind
	blocking          bool

	// problem, once set, is the reason why no further check can be run.
	problem string

	// first is the handler's answer to its first request.
	first *firstAnswer
}

// firstAnswer is an answer, or the reason why it is missing.
type firstAnswer struct {
	request request
	raw     []byte
	took    time.Duration
	err     error
}

// open reads what a run needs; it does not call the server.
func open(c Config) (*session, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, errors.New("the url cannot be parsed")
	}
	if base.Path == "" {
		base.Path = "/" // otherwise a path that is joined to it is not absolute
	}
	s := &session{config: c, base: base, endpoint: transport.Endpoint{URL: c.URL, CABundle: c.CABundle}}
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: base.Hostname()}
	if len(c.CABundle) > 0 {
		s.tls.RootCAs = x509.NewCertPool()
		if !s.tls.RootCAs.AppendCertsFromPEM(c.CABundle) {
			return nil, errors.New("the CA bundle holds no PEM certificate")
		}
	}
	if c.ClientCertFile != "" || c.ClientKeyFile != "" {
		cert, err := tls.LoadX509KeyPair(c.ClientCertFile, c.ClientKeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		s.tls.Certificates = []tls.Certificate{cert}
	}
	options := transport.Options{ClientCertFile: c.ClientCertFile, ClientKeyFile: c.ClientKeyFile}
	if service, ok := c.service(); ok && c.Address != "" {
		s.endpoint.URL, s.endpoint.Service = "", &service
		options.Services = fixed(c.Address)
	}
	s.pool, err = transport.New(options)
	if err != nil {
		return nil, err
	}
	s.raw = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: s.tls, TLSHandshakeTimeout: s.limit(extensionconfig.DefaultTimeout), DialContext: s.connect},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	d, err := c.Catalog.Lookup(hooksv1.Discovery)
	if err != nil {
		s.close()
		return nil, err
	}
	s.discovery = newHandler(d, "Discovery", "", extensionconfig.DefaultTimeout)
	return s, nil
}

// fixed is the one address of all Services.
type fixed string

func (f fixed) Resolve(context.Context, string, string, int32) (string, error) {
	return string(f), nil
}

// connect dials the server, at Address if that is set.
func (s *session) connect(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, cmp.Or(s.config.Address, address))
}

func newHandler(d catalog.Descriptor, name, pathName string, timeout time.Duration) *handler {
	return &handler{
		name: name, hook: d.GroupVersionHook, path: d.Path(pathName), timeout: timeout,
		request: d.Request, response: d.Response, blocking: d.Blocking,
	}
}

func (s *session) close() {
	s.pool.Close()
	s.raw.CloseIdleConnections()
}

// limit is how long a call may take whose timeout would be d.
func (s *session) limit(d time.Duration) time.Duration {
	if s.config.Timeout > 0 {
		return min(d, s.config.Timeout)
	}
	return d
}

// answer is the answer of a handler, in two forms.
type answer struct {
	raw      []byte
	fields   map[string]any
	response hooksv1.ResponseObject
}

// post sends one well-formed call and returns its answer and its duration.
func (s *session) post(ctx context.Context, h *handler, body []byte) (raw []byte, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit(h.timeout))
	defer cancel()
	start := time.Now()
	raw, err = s.pool.Probe(ctx, s.endpoint, h.path, body)
	return raw, time.Since(start), err
}

// ask sends a call whose answer must be usable.
func (s *session) ask(ctx context.Context, h *handler, r request) (answer, error) {
	raw, _, err := s.post(ctx, h, r.json())
	if err != nil {
		return answer{}, err
	}
	return s.read(h, raw)
}

// read decodes an answer that must be usable.
func (s *session) read(h *handler, raw []byte) (answer, error) {
	a := answer{raw: raw}
	var err error
	if a.fields, err = decode[map[string]any](raw); err != nil {
		return answer{}, err
	}
	if a.response, err = s.config.Catalog.NewResponse(h.hook); err != nil {
		return answer{}, err
	}
	extensionconfig.Clear(a.response) // fields that are missing in the answer must be recognizable
	return a, extensionconfig.Decode(raw, h.response, a.response)
}

// start sends a handler's first call, once. A skip is returned as such.
func (s *session) start(ctx context.Context, h *handler) (*firstAnswer, error) {
	if h.first != nil {
		return h.first, nil
	}
	r, err := s.request(h)
	if err != nil {
		return nil, err
	}
	raw, took, err := s.post(ctx, h, r.json())
	h.first = &firstAnswer{request: r, raw: raw, took: took, err: err}
	return h.first, nil
}

// firstAnswer returns the handler's first request and usable answer.
func (s *session) firstAnswer(ctx context.Context, h *handler) (request, answer, error) {
	first, err := s.start(ctx, h)
	if err != nil {
		return nil, answer{}, err
	}
	if first.err != nil {
		return nil, answer{}, conformance.Skip("it did not answer its first call")
	}
	a, err := s.read(h, first.raw)
	if err != nil {
		return nil, answer{}, conformance.Skip("its first answer cannot be used: %w", err)
	}
	return first.request.clone(), a, nil
}

// succeeded is firstAnswer for checks that need an answer with content.
func (s *session) succeeded(ctx context.Context, h *handler) (request, answer, error) {
	r, a, err := s.firstAnswer(ctx, h)
	if err == nil && a.response.GetStatus() != hooksv1.ResponseStatusSuccess {
		err = conformance.Skip("it answered Failure (%s): give a request of your own that it answers with Success", a.response.GetMessage())
	}
	return r, a, err
}
