// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cached reads for the webhooks, which answer before the cache runs, for objects
// of any namespace. An object that the cache does not show is looked for past it:
// the user may just have made it.
type cached struct {
	client.Reader // the cache
	live          client.Reader
}

// Get implements client.Reader.
func (c cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if c.Reader.Get(ctx, key, obj, opts...) == nil {
		return nil
	}
	return c.live.Get(ctx, key, obj, opts...)
}
