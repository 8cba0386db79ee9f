// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// connections reaches workload clusters directly, without caches: it reads the
// current state. Each use is a probe.
type connections struct {
	mgmt client.Client
	// handler returns what listens on an address in this process, or nil.
	handler func(addr string) http.Handler
	clock   clock.PassiveClock
	open    map[client.ObjectKey]*connection
	cut     bool // the way to all of them
}

var errCut = errors.New("no route to host")

// connection is the one to a cluster.
type connection struct {
	kubeconfig string // which Secret, and its version
	config     *rest.Config
	client     client.Client
	web        *http.Client // that of client
	health     workload.Health
	failing    time.Time // since when; zero if it answers
}

var _ workload.Clusters = &connections{}

// Config implements workload.Clusters.
func (c *connections) Config(cluster client.ObjectKey) (*rest.Config, error) {
	conn, err := c.connect(context.Background(), cluster)
	if err != nil {
		return nil, err
	}
	return rest.CopyConfig(conn.config), nil
}

// connect follows the kubeconfig of a cluster. The connection is there even if
// that has no kubeconfig.
func (c *connections) connect(ctx context.Context, cluster client.ObjectKey) (*connection, error) {
	conn := c.open[cluster]
	if conn == nil {
		conn = &connection{health: workload.Health{Since: c.clock.Now()}}
		c.open[cluster] = conn
	}
	secret := &corev1.Secret{}
	if err := c.mgmt.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: certs.SecretName(cluster.Name, certs.Kubeconfig)}, secret); err != nil {
		return conn, fmt.Errorf("%w: %w", workload.ErrNotConnected, err)
	}
	version := string(secret.UID) + " " + secret.ResourceVersion
	if version == conn.kubeconfig {
		return conn, nil
	}
	cfg, err := kubeconfig.FromSecret(secret)
	if err != nil {
		return conn, err
	}
	// The server's certificate is valid by the clock of the simulation, which
	// crypto/tls does not use. That of the client is checked anyway.
	cfg.Insecure, cfg.CAData = true, nil
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	if conn.web, err = c.httpClient(cfg); err != nil {
		return conn, err
	}
	conn.client, err = client.New(cfg, client.Options{Scheme: scheme.Scheme, HTTPClient: conn.web})
	if err == nil {
		conn.kubeconfig, conn.config = version, cfg
	}
	return conn, err
}

// httpClient calls a cluster without TLS and frames of HTTP where it can: a World
// calls each cluster several times per reconcile.
func (c *connections) httpClient(cfg *rest.Config) (*http.Client, error) {
	network, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, cert)
	}
	direct, err := rest.HTTPWrappersForConfig(cfg, handlertransport.Transport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: chain}
		r.Context().Value(handlerKey{}).(http.Handler).ServeHTTP(w, r)
	})))
	return &http.Client{Transport: nearby{c.handler, direct, network}}, err
}

// handlerKey is the key of the handler in the context of a request.
type handlerKey struct{}

// nearby sends requests to a handler in this process, or over the network if there
// is none.
type nearby struct {
	handler         func(addr string) http.Handler
	direct, network http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (n nearby) RoundTrip(r *http.Request) (*http.Response, error) {
	h := n.handler(r.URL.Host)
	if h == nil {
		return n.network.RoundTrip(r)
	}
	return n.direct.RoundTrip(r.WithContext(context.WithValue(r.Context(), handlerKey{}, h)))
}

// Client implements workload.Clusters.
func (c *connections) Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	conn := c.probe(ctx, cluster)
	if conn.health.Err != nil {
		return nil, fmt.Errorf("%w: %w", workload.ErrNotConnected, conn.health.Err)
	}
	return conn.client, nil
}

// Health implements workload.Clusters.
func (c *connections) Health(cluster client.ObjectKey) workload.Health {
	return c.probe(context.Background(), cluster).health
}

// probe checks whether a cluster answers.
func (c *connections) probe(ctx context.Context, cluster client.ObjectKey) *connection {
	conn, err := c.connect(ctx, cluster)
	if c.cut {
		err = errCut
	}
	if err == nil {
		err = conn.ready(ctx)
	}
	now := c.clock.Now()
	conn.health.Err, conn.health.Connected = err, err == nil
	if err == nil {
		conn.health.LastProbeSuccess, conn.health.Failures, conn.failing = now, 0, time.Time{}
		if conn.health.Answering.IsZero() {
			conn.health.Answering = now
		}
		return conn
	}
	if conn.failing.IsZero() {
		conn.failing = now
	}
	conn.health.Answering = time.Time{}
	conn.health.Failures = 1 + int(now.Sub(conn.failing)/time.Second) // as if it were probed each second
	return conn
}

// ready requests what needs no object.
func (c *connection) ready(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := c.web.Do(r)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET /readyz: %s", answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// Source implements workload.Clusters. It triggers nothing: every round reconciles
// everything.
func (c *connections) Source(client.Object, workload.ToRequests) source.Source { return nil }

// AwaitKinds implements workload.Clusters.
func (c *connections) AwaitKinds(client.ObjectKey) {}
