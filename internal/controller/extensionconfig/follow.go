// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// follow registers the results of the controller in another process. Until that
// controller has reported the current spec, the earlier registration stays, and
// after a start calls wait: a hook would be skipped if it has no handlers only
// because discovery has not run yet.
func (r *Reconciler) follow(ctx context.Context, config *runtimev1.ExtensionConfig) error {
	if !config.DeletionTimestamp.IsZero() {
		return r.sweep(ctx, config.Name)
	}
	told := conditions.Get(config, runtimev1.ExtensionConfigDiscoveredCondition)
	if !pause.Requested(nil, config) && (told == nil || told.ObservedGeneration != config.Generation) {
		return nil
	}
	defer r.Registry.Tried(config.Name)
	return r.register(ctx, config)
}
