// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// defaultPort is the port of an endpoint that names none.
const defaultPort = 443

// Endpoint is a server and how to trust it: a URL or a Service, not both.
type Endpoint struct {
	// URL is https://host[:port][/path].
	URL string
	// Service is reached under the name <name>.<namespace>.svc, which must be in its
	// certificate.
	Service *Service
	// CABundle is PEM; if empty, the system's authorities are trusted.
	CABundle []byte
}

// Service is a Service of the management cluster.
type Service struct {
	Namespace, Name string
	// Path is prepended to the path of each call.
	Path string
	// Port defaults to 443 if it is 0.
	Port int32
}

// Resolver returns the address, host:port, of a Service's port. It is called for
// each new connection.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (address string, err error)
}

// Host is the name of the server in messages and metrics: host:port or
// <name>.<namespace>.svc:port. It contains no path and no password, and is one
// short printable line for any endpoint.
func (e Endpoint) Host() string {
	if e.Service != nil {
		return clean(net.JoinHostPort(e.Service.host(), strconv.Itoa(int(e.Service.port()))))
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" {
		return "unknown host"
	}
	port := cmp.Or(u.Port(), strconv.Itoa(defaultPort))
	return clean(net.JoinHostPort(strings.ToLower(u.Hostname()), port))
}

func (s *Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

func (s *Service) port() int32 {
	if s.Port == 0 {
		return defaultPort
	}
	return s.Port
}

// key identifies endpoints that can share connections.
type key struct {
	url string
	// service has Path and Port as given; it is zero for a URL.
	service Service
	bundle  [sha256.Size]byte
}

func (e Endpoint) key() key {
	k := key{url: e.URL, bundle: sha256.Sum256(e.CABundle)}
	if e.Service != nil {
		k.service = *e.Service
	}
	return k
}

// base returns the URL to which the paths of calls are appended.
func (e Endpoint) base() (*url.URL, error) {
	switch {
	case e.Service != nil && e.URL != "":
		return nil, errors.New("both a URL and a Service are given: keep one")
	case e.Service != nil:
		s := e.Service
		if s.Name == "" || s.Namespace == "" {
			return nil, errors.New("the Service needs a name and a namespace")
		}
		if s.Port < 0 || s.Port > 65535 {
			return nil, fmt.Errorf("port %d of the Service is not within 1 and 65535", s.Port)
		}
		return &url.URL{Scheme: "https", Host: e.Host(), Path: s.Path}, nil
	case e.URL == "":
		return nil, errors.New("neither a URL nor a Service is given")
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be parsed") // url's error contains the URL with its password
	case u.Scheme != "https":
		return nil, fmt.Errorf("the URL must begin with https://, not %s://", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the URL names no host")
	case u.User != nil:
		return nil, errors.New("the URL must not hold a user or a password: use client certificates")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL must end with its path, without a query and a fragment")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, fmt.Errorf("port %s of the URL is not within 1 and 65535", port)
		}
	}
	return u, nil
}

// roots returns the trusted authorities; nil means those of the system.
func (e Endpoint) roots() (*x509.CertPool, error) {
	if len(e.CABundle) == 0 {
		return nil, nil
	}
	pool, found := x509.NewCertPool(), false
	for rest := e.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the CA bundle holds a certificate that cannot be parsed: %w", err)
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return nil, errors.New("the CA bundle holds no PEM certificate: put the certificate of the server's authority there, or leave it empty to trust the authorities of the system")
	}
	return pool, nil
}
