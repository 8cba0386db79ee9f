// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// synchronise brings what may change in place to the machines, and labels and
// annotations on to what they refer to. The machines are written with the rest,
// at the end.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (phase.Next, error) {
	next := phase.Continue()
	var errs []error
	for _, m := range s.Machines {
		t := kubeadmcontrolplane.TemplateOf(s.ControlPlane, s.Cluster.Name, m.Machine)
		err := r.factory().Prepare(ctx, m.Machine, t)
		if _, unusable := errors.AsType[*provider.KindError](err); unusable {
			// The machine stays behind, and is tried again: CRDs are not watched.
			// It must not keep the others from being looked after.
			next = phase.LookAgain(repairInterval)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
		}
	}
	return next, errors.Join(errs...)
}
