// SPDX-License-Identifier: Apache-2.0

// Package registry fetches images and artifacts from registries or their mirrors.
// Registries are not trusted: content is verified with its digest, responses have
// limits, requests are encrypted unless plain HTTP was configured or they stay on this
// host, and a registry cannot name a server with a local address.
package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/internal/kit/download"
)

// Options configure requests to registries. The zero value uses their names, HTTPS
// and no credentials.
type Options struct {
	// Transport sends the requests; nil is one like Go's default.
	Transport http.RoundTripper
	// Keychain has credentials; nil has none.
	Keychain authn.Keychain
	// Mirrors are tried before a registry, in order, by its name in names of images,
	// such as docker.io. Each is https://HOST[/PATH], or http:// if it does not use
	// TLS.
	Mirrors map[string][]string
	// PlainHTTP are registries that do not use TLS, as HOST or HOST:PORT. Registries
	// on this host need not be listed.
	PlainHTTP []string
	// Authorities are those with which registries and mirrors are trusted, by HOST or
	// HOST:PORT; for others those of the host are used.
	Authorities map[string]*x509.CertPool
	// Pause is the time between two attempts, and increases each time; 0 is a second.
	Pause time.Duration
	// Once sends each request once, for callers that repeat them.
	Once bool
	// Idle is how long a server may send nothing; 0 is a minute.
	Idle time.Duration
}

// Client sends requests to registries.
type Client struct {
	o          Options
	mirrors    map[string][]endpoint
	transports map[string]http.RoundTripper // of hosts with separate authorities
}

// endpoint is a registry or mirror with an image.
type endpoint struct {
	host, path string // path is prepended to the name of the repository
	plain      bool
}

// New validates options and returns a Client.
func New(o Options) (*Client, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain()
	}
	o.Pause, o.Idle = cmp.Or(o.Pause, time.Second), cmp.Or(o.Idle, time.Minute)
	c := &Client{o: o, mirrors: map[string][]endpoint{}, transports: map[string]http.RoundTripper{}}
	for host, authorities := range o.Authorities {
		own, ok := o.Transport.(*http.Transport)
		if !ok {
			return nil, fmt.Errorf("trust %s: a transport of %T knows no authorities", host, o.Transport)
		}
		own = own.Clone()
		own.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
		c.transports[host] = own
	}
	for host, mirrors := range o.Mirrors {
		for _, m := range mirrors {
			u, err := url.Parse(m)
			if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
				return nil, fmt.Errorf("mirror %q of %s: write it as https://HOST/PATH; credentials are those of the host in the configuration of Docker", m, host)
			}
			c.mirrors[host] = append(c.mirrors[host], endpoint{host: u.Host, path: strings.Trim(u.Path, "/"), plain: u.Scheme == "http"})
		}
	}
	return c, nil
}

// Name returns the full name of an image, with a registry and a tag or digest.
func Name(image string) (string, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("name of an image %.300q: %w", image, err)
	}
	return named.String(), nil
}

// NotFoundError means that a registry has no such image.
type NotFoundError struct {
	Image, Host string
	Answer      *transport.Error
}

// Unwrap returns the answer of the registry.
func (e *NotFoundError) Unwrap() error { return e.Answer }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s has no image %s: push it there, import it with \"capstan image import\", or correct its name", e.Host, e.Image)
}

// DeniedError means that a registry requires or refuses credentials. Many
// registries answer so for images that do not exist.
type DeniedError struct {
	Image, Host, Said string
	Answer            *transport.Error
}

// Unwrap returns the answer of the registry.
func (e *DeniedError) Unwrap() error { return e.Answer }

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s does not give image %s to this user (%s): check its name, or log in with \"docker login %s\"", e.Host, e.Image, e.Said, e.Host)
}

// Repository is the repository of an image or artifact in a registry, and its mirrors.
type Repository struct {
	client *Client
	image  string
	id     string // the tag or digest in the name of the image
	keys   authn.Keychain

	mu        sync.Mutex    // guards endpoints
	endpoints []*connection // the one that answered last is first
}

type connection struct {
	endpoint
	repo name.Repository

	mu sync.Mutex        // guards rt
	rt http.RoundTripper // nil until needed
}

// Open returns the repository of an image by its full name. It sends no request.
// keys are credentials that take precedence over those of the client; nil is none.
func (c *Client) Open(image string, keys authn.Keychain) (*Repository, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return nil, fmt.Errorf("name of an image %.300q: %w", image, err)
	}
	r, err := c.Repository(reference.Domain(named), reference.Path(named), keys)
	if err != nil {
		return nil, fmt.Errorf("name of an image %.300q: %w", image, err)
	}
	r.image = image
	switch n := named.(type) {
	case reference.Digested:
		r.id = n.Digest().String()
	case reference.Tagged:
		r.id = n.Tag()
	}
	return r, nil
}

// Repository returns the repository of a registry at a valid path. It is like Open.
func (c *Client) Repository(host, path string, keys authn.Keychain) (*Repository, error) {
	r := &Repository{client: c, image: host + "/" + path, keys: c.o.Keychain}
	if keys != nil {
		r.keys = authn.NewMultiKeychain(keys, c.o.Keychain)
	}
	own := endpoint{host: host, plain: c.mayBePlain(host)}
	for _, e := range append(slices.Clone(c.mirrors[host]), own) {
		var options []name.Option
		if e.plain {
			options = append(options, name.Insecure)
		}
		at, err := name.NewRegistry(e.host, options...)
		if err != nil {
			return nil, err
		}
		r.endpoints = append(r.endpoints, &connection{endpoint: e, repo: at.Repo(strings.TrimPrefix(e.path+"/"+path, "/"))})
	}
	return r, nil
}

// mayBePlain reports whether requests to a registry may be sent without TLS.
func (c *Client) mayBePlain(host string) bool {
	return slices.Contains(c.o.PlainHTTP, host) || IsLoopback(host) && c.o.Authorities[host] == nil
}

// IsLoopback reports whether a host, with a port or without, is this one.
func IsLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

// each calls f for each endpoint of the image, in turn, until it succeeds.
func (r *Repository) each(ctx context.Context, f func(*connection) error) error {
	r.mu.Lock()
	endpoints := slices.Clone(r.endpoints)
	r.mu.Unlock()
	var errs []error
	for n, c := range endpoints {
		err := r.connect(ctx, c)
		if err == nil {
			err = f(c)
		}
		if err == nil {
			endpoints[0], endpoints[n] = endpoints[n], endpoints[0]
			r.mu.Lock()
			r.endpoints = endpoints
			r.mu.Unlock()
			return nil
		}
		errs = append(errs, r.explain(c, err))
		if ctx.Err() != nil {
			break
		}
	}
	// The error of the registry itself is the most useful; mirrors come before it.
	slices.Reverse(errs)
	return errors.Join(errs...)
}

// connect determines the scheme and credentials of a registry.
func (r *Repository) connect(ctx context.Context, c *connection) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rt != nil {
		return nil
	}
	auth, err := authn.Resolve(ctx, r.keys, c.repo)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	o := r.client.o
	inner := r.client.transports[c.host]
	if inner == nil {
		inner = o.Transport
	}
	server := url.URL{Host: c.host}
	guarded := &guard{inner: download.Impatient(inner, o.Idle), hostname: server.Hostname(), resolve: lookUp}
	if c.plain {
		guarded.plain = func(host string) bool { return host == c.host || r.client.mayBePlain(host) }
	}
	rt := transport.NewUserAgent(guarded, "capstan")
	if !o.Once {
		rt = transport.NewRetry(rt,
			transport.WithRetryBackoff(transport.Backoff{Duration: o.Pause, Factor: 3, Jitter: 0.1, Steps: 3}),
			transport.WithRetryStatusCodes(http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout))
	}
	c.rt, err = transport.NewWithContext(ctx, c.repo.Registry, auth, rt, []string{c.repo.Scope(transport.PullScope)})
	return err
}
