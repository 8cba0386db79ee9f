// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/sandbox"
)

// InMemory has a config look at a management cluster in memory, and at Nodes
// there.
func InMemory(c *Config, mgmt client.WithWatch, nodes func(context.Context) ([]corev1.Node, error)) {
	c.Mgmt = &rest.Config{Host: "memory"}
	c.connect = func(*rest.Config) (client.WithWatch, error) { return mgmt, nil }
	c.nodes = func(ctx context.Context, _ *sandbox.World) ([]corev1.Node, error) { return nodes(ctx) }
}

// Unhurried makes a config wait for a provider that keeps the contract on a busy
// machine: long for what must happen, and not long for what must not.
func Unhurried(c *Config) {
	c.Timeout.Duration, c.soon, c.Quiet.Duration = 2*time.Minute, 2*time.Minute, 100*time.Millisecond
}
