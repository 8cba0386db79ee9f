// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ToRequests returns the requests to enqueue when the registration of an
// ExtensionConfig has been added, changed or removed.
type ToRequests func(ctx context.Context, config string) []reconcile.Request

// Source triggers a controller when extensions are registered, changed or removed.
// A watch of ExtensionConfigs does not suffice: its event may come before the
// registration changes, and a call at that time would get the previous response.
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
