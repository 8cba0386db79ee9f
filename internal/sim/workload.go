// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// connections reaches workload clusters directly, without caches: what it reads
// is what there is.
type connections struct {
	mgmt  client.Client
	clock clock.PassiveClock
	open  map[client.ObjectKey]client.Client
}

var _ workload.Clusters = &connections{}

// Config implements workload.Clusters.
func (c *connections) Config(cluster client.ObjectKey) (*rest.Config, error) {
	secret := &corev1.Secret{}
	if err := c.mgmt.Get(context.Background(), client.ObjectKey{Namespace: cluster.Namespace, Name: certs.SecretName(cluster.Name, certs.Kubeconfig)}, secret); err != nil {
		return nil, fmt.Errorf("%w: %w", workload.ErrNotConnected, err)
	}
	return kubeconfig.FromSecret(secret)
}

// Client implements workload.Clusters.
func (c *connections) Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	if known, ok := c.open[cluster]; ok {
		return known, nil
	}
	cfg, err := c.Config(cluster)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	found, err := client.New(cfg, client.Options{Scheme: clientscheme.Scheme})
	if err == nil {
		err = found.List(ctx, &corev1.NodeList{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", workload.ErrNotConnected, err)
	}
	c.open[cluster] = found
	return found, nil
}

// Health implements workload.Clusters.
func (c *connections) Health(cluster client.ObjectKey) workload.Health {
	if _, err := c.Client(context.Background(), cluster); err != nil {
		return workload.Health{Err: err}
	}
	return workload.Health{Connected: true, LastProbeSuccess: c.clock.Now()}
}

// Source implements workload.Clusters. Nobody is woken here: every round
// reconciles everything.
func (c *connections) Source(client.Object, workload.ToRequests) source.Source { return nil }
