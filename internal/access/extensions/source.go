// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ToRequests says whom it concerns that what an ExtensionConfig has registered is
// another by now, or nothing.
type ToRequests func(ctx context.Context, config string) []reconcile.Request

// Source wakes a controller when extensions are registered, changed or removed.
// A watch of ExtensionConfigs will not do: it tells of what is not registered yet,
// or still, and whoever asks then is given the answer of before.
func (c *Client) Source(to ToRequests) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.registry.watch(func(config string, _, _ *registration) {
			for _, req := range to(ctx, config) {
				queue.Add(req)
			}
		})
		return nil
	})
}
