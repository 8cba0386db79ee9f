// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// connections reaches workload clusters directly, without caches: what it reads
// is what there is. Each use is a probe.
type connections struct {
	mgmt  client.Client
	clock clock.PassiveClock
	open  map[client.ObjectKey]*connection
	cut   bool // the way to all of them
}

var errCut = errors.New("no route to host")

// connection is the one to a cluster.
type connection struct {
	kubeconfig string // which Secret, and its version
	config     *rest.Config
	client     client.Client
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
	// The server's certificate counts by the time of the world, of which
	// crypto/tls knows nothing. That of the client is checked all the same.
	cfg.Insecure, cfg.CAData = true, nil
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	conn.client, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err == nil {
		conn.kubeconfig, conn.config = version, cfg
	}
	return conn, err
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

// probe finds out whether a cluster answers.
func (c *connections) probe(ctx context.Context, cluster client.ObjectKey) *connection {
	conn, err := c.connect(ctx, cluster)
	if c.cut {
		err = errCut
	}
	if err == nil {
		err = conn.client.List(ctx, &corev1.NodeList{}, client.Limit(1))
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

// Source implements workload.Clusters. Nobody is woken here: every round
// reconciles everything.
func (c *connections) Source(client.Object, workload.ToRequests) source.Source { return nil }

// AwaitKinds implements workload.Clusters.
func (c *connections) AwaitKinds(client.ObjectKey) {}
