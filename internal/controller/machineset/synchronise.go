// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// synchronise copies what may change in place from the set to its Machines, and
// labels and annotations also to their bootstrap and infrastructure objects.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (reconciler.Next, error) {
	t := scaling.MachineTemplate(s.set)
	return reconciler.Continue(), inBatches(s.machines, func(m *clusterv1.Machine) error {
		if err := r.factory().Sync(ctx, m, t); err != nil {
			return fmt.Errorf("Machine %s: %w", m.Name, err)
		}
		return nil
	})
}
