// SPDX-License-Identifier: Apache-2.0

// Package registry asks registries for manifests and layers of images, or mirrors of
// them. Nothing that they say is believed: what has a digest is compared with it,
// answers have limits, and nothing is said without encryption unless that was asked
// for or stays on this host.
package registry

import (
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
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/internal/access/nodeimages/download"
)

// Options say how registries are asked. The zero value asks them as they are named,
// by HTTPS, as nobody.
type Options struct {
	// Transport carries the requests; nil is one like Go's own.
	Transport http.RoundTripper
	// Keychain knows credentials; nil has none.
	Keychain authn.Keychain
	// Mirrors are asked before a registry, in order, by its name in names of images,
	// such as docker.io. Each is https://HOST[/PATH], or http:// if it speaks no TLS.
	Mirrors map[string][]string
	// PlainHTTP are registries that speak no TLS, as HOST or HOST:PORT. Those of this
	// host may speak none without being listed.
	PlainHTTP []string
	// Authorities are those by which registries and mirrors are trusted, as HOST or
	// HOST:PORT; the others are trusted by those of the host.
	Authorities map[string]*x509.CertPool
	// Pause is between two attempts, and longer each time; 0 is a second.
	Pause time.Duration
}

// Client asks registries.
type Client struct {
	o          Options
	mirrors    map[string][]endpoint
	transports map[string]http.RoundTripper // of those that have authorities of their own
}

// endpoint is where an image may be had.
type endpoint struct {
	host, path string // path is before the name of the repository
	plain      bool
}

// attempts are how often a layer is asked for; idle is how long nothing may come.
const (
	attempts = 5
	idle     = time.Minute
)

// New checks options.
func New(o Options) (*Client, error) {
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain()
	}
	if o.Pause == 0 {
		o.Pause = time.Second
	}
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

// Name returns the name of an image in full, with a registry and a tag or digest.
func Name(image string) (string, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return "", fmt.Errorf("name of an image %.300q: %w", image, err)
	}
	return named.String(), nil
}

// NotFoundError says that a registry has no such image.
type NotFoundError struct{ Image, Host string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s has no image %s: push it there, import it with \"capstan image import\", or correct its name", e.Host, e.Image)
}

// DeniedError says that a registry wants to know who asks, or does not like who does.
// Many answer so for what they do not have.
type DeniedError struct{ Image, Host, Said string }

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s gives no image %s to whom you are (%s): check its name, or log in with \"docker login %s\"", e.Host, e.Image, e.Said, e.Host)
}

// Repository is where an image of a name lies, and its mirrors.
type Repository struct {
	client    *Client
	image     string
	keys      authn.Keychain
	endpoints []*connection // the one that answered last comes first
}

type connection struct {
	endpoint
	repo name.Repository
	rt   http.RoundTripper // nil until it is needed
}

// Open returns where an image lies, by its name in full. It asks nobody. keys are
// credentials that go before those of the client; nil is none.
func (c *Client) Open(image string, keys authn.Keychain) (*Repository, error) {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return nil, fmt.Errorf("name of an image %.300q: %w", image, err)
	}
	r := &Repository{client: c, image: image, keys: c.o.Keychain}
	if keys != nil {
		r.keys = authn.NewMultiKeychain(keys, c.o.Keychain)
	}
	host := reference.Domain(named)
	own := endpoint{host: host, plain: c.mayBePlain(host)}
	for _, e := range append(slices.Clone(c.mirrors[host]), own) {
		full := e.host + "/" + strings.TrimPrefix(e.path+"/"+reference.Path(named), "/")
		var options []name.Option
		if e.plain {
			options = append(options, name.Insecure)
		}
		repo, err := name.NewRepository(full, options...)
		if err != nil {
			return nil, fmt.Errorf("name of an image %.300q: %w", image, err)
		}
		r.endpoints = append(r.endpoints, &connection{endpoint: e, repo: repo})
	}
	return r, nil
}

// mayBePlain reports whether a registry may be asked without TLS.
func (c *Client) mayBePlain(host string) bool {
	return slices.Contains(c.o.PlainHTTP, host) || isLoopback(host) && c.o.Authorities[host] == nil
}

func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Manifest fetches one by a tag or digest; empty is what the name of the image says.
func (r *Repository) Manifest(ctx context.Context, id string) (found *remote.Descriptor, err error) {
	if id == "" {
		named, err := reference.ParseDockerRef(r.image)
		if err != nil {
			return nil, err
		}
		switch n := named.(type) {
		case reference.Digested:
			id = n.Digest().String()
		case reference.Tagged:
			id = n.Tag()
		}
	}
	err = r.each(ctx, func(c *connection) error {
		var ref name.Reference = c.repo.Tag(id)
		if strings.Contains(id, ":") {
			ref = c.repo.Digest(id)
		}
		found, err = remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(c.rt))
		return err
	})
	return found, err
}

// Blob fetches what has a digest and a size into a file, unless it is there. What an
// earlier attempt has left of it, beside the file with .part at the end, is
// completed. tell is told how much there is.
func (r *Repository) Blob(ctx context.Context, h v1.Hash, size int64, file string, tell func(have int64)) error {
	return r.each(ctx, func(c *connection) error {
		scheme := "https"
		if c.plain {
			scheme = "http" // the transport knows better, if it is not so
		}
		u := url.URL{Scheme: scheme, Host: c.repo.RegistryStr(), Path: "/v2/" + c.repo.RepositoryStr() + "/blobs/" + h.String()}
		client := download.Client{
			HTTP: &http.Client{Transport: large{c.rt}}, Attempts: attempts, Pause: r.client.o.Pause, Idle: idle, Limit: size,
			Progress: func(_ string, have, _ int64) { tell(have) },
		}
		return client.File(ctx, u.String(), file, h.Hex)
	})
}

// each lets f ask where the image lies, in turn, until it is content.
func (r *Repository) each(ctx context.Context, f func(*connection) error) error {
	var errs []error
	for n, c := range r.endpoints {
		err := r.connect(ctx, c)
		if err == nil {
			err = f(c)
		}
		if err == nil {
			r.endpoints[0], r.endpoints[n] = r.endpoints[n], r.endpoints[0]
			return nil
		}
		errs = append(errs, r.explain(c, err))
		if ctx.Err() != nil {
			break
		}
	}
	// That of the registry itself says most: what comes before are mirrors.
	slices.Reverse(errs)
	return errors.Join(errs...)
}

// connect finds out how a registry is asked, and as whom.
func (r *Repository) connect(ctx context.Context, c *connection) (err error) {
	if c.rt != nil {
		return nil
	}
	auth, err := authn.Resolve(ctx, r.keys, c.repo)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	inner := &guard{inner: r.client.transports[c.host]}
	if inner.inner == nil {
		inner.inner = r.client.o.Transport
	}
	if c.plain {
		inner.plain = func(host string) bool { return host == c.host || r.client.mayBePlain(host) }
	}
	retry := transport.NewRetry(transport.NewUserAgent(inner, "capstan"),
		transport.WithRetryBackoff(transport.Backoff{Duration: r.client.o.Pause, Factor: 3, Jitter: 0.1, Steps: 3}),
		transport.WithRetryStatusCodes(http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout))
	c.rt, err = transport.NewWithContext(ctx, c.repo.Registry, auth, retry, []string{c.repo.Scope(transport.PullScope)})
	return err
}
