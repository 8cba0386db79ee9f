// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/mgmtplane/election"
)

// dialTimeout is the limit for each server in turn, before a start that a user
// waits for.
const dialTimeout = 3 * time.Second

// awaitEvery is how often a start checks whether an awaited etcd answers.
const awaitEvery = time.Second

// reach returns when the external etcd answers. If it does not, reach returns an
// error immediately, unless Await is set.
func (c *completed) reach(ctx context.Context, p *Plane) error {
	if !c.Etcd.Await {
		return c.Etcd.reach(ctx)
	}
	for {
		// An etcd that hangs may accept a connection.
		asking, cancel := context.WithTimeout(ctx, dialTimeout)
		_, err := p.others.client.Get(asking, election.Folder(c.Etcd.Prefix)+"/authorities")
		cancel()
		if err == nil {
			return nil
		}
		c.Progress("waiting for etcd")
		if lifecycle.Sleep(ctx, awaitEvery) != nil {
			return fmt.Errorf("wait for etcd at %s: %w", strings.Join(c.Etcd.Servers, ", "), err)
		}
	}
}

// reach returns an error unless one of the servers of an external etcd accepts
// connections. The API server would report only an exceeded deadline.
func (e ExternalEtcd) reach(ctx context.Context) error {
	cfg, err := e.TLS()
	if err != nil {
		return err
	}
	var errs []error
	for _, server := range e.Servers {
		err := dial(ctx, server, cfg)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("reach etcd at %s: %w", server, err))
	}
	return errors.Join(errs...)
}

// TLS returns the client configuration for https servers.
func (e ExternalEtcd) TLS() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CAFile != "" {
		pem, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority of etcd: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read certificate authority of etcd: no certificate in %s", e.CAFile)
		}
	}
	if e.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate for etcd: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func dial(ctx context.Context, server string, cfg *tls.Config) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var conn net.Conn
	switch u.Scheme {
	case "unix":
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", u.Path)
	case "http":
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	case "https":
		conn, err = (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", u.Host)
	default:
		return errors.New("the URL must begin with https://, http:// or unix://")
	}
	if err != nil {
		return err
	}
	return conn.Close()
}
