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

	"github.com/capstan-dev/capstan/internal/mgmtplane/members"
)

// dialTimeout is for each server in turn, before a start that a user waits for.
const dialTimeout = 3 * time.Second

// awaitEvery is how often a start looks whether an etcd answers that it awaits.
const awaitEvery = time.Second

// reach returns when the external etcd answers, or with an error at once unless it
// is to be awaited.
func (c *completed) reach(ctx context.Context, p *Plane) error {
	if !c.Etcd.Await {
		return c.Etcd.reach(ctx)
	}
	for {
		// What answers a connection may be an etcd that hangs.
		asking, cancel := context.WithTimeout(ctx, dialTimeout)
		_, err := p.others.client.Get(asking, members.Folder(c.Etcd.Prefix)+"/authorities")
		cancel()
		if err == nil {
			return nil
		}
		c.Progress("waiting for etcd")
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for etcd at %s: %w", strings.Join(c.Etcd.Servers, ", "), err)
		case <-time.After(awaitEvery):
		}
	}
}

// reach returns an error unless one of the servers of an external etcd takes
// connections. The API server would say only that a deadline has passed.
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

// TLS is how its https servers are reached.
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
