// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// follow registers what the controller in another process has found out. As long
// as that has not told of the spec of now, what was registered before stays, and
// after a start calls wait: a hook that nobody answers because nobody was asked
// yet would be passed over.
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
