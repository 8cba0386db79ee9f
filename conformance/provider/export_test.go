// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
)

// InMemory makes a config use a management cluster in memory, and its Nodes.
func InMemory(c *Config, mgmt client.WithWatch, nodes func(context.Context) ([]corev1.Node, error)) {
	c.Mgmt = &rest.Config{Host: "memory"}
	c.connect = func(*rest.Config) (client.WithWatch, error) { return mgmt, nil }
	c.nodes = func(ctx context.Context, _ *testnamespace.World) ([]corev1.Node, error) { return nodes(ctx) }
}

// Unhurried makes a config wait for a correct provider on a busy machine: long for what
// must happen, and not long for what must not.
func Unhurried(c *Config) {
	c.Timeout.Duration, c.soon, c.Quiet.Duration = 2*time.Minute, 2*time.Minute, 100*time.Millisecond
}
