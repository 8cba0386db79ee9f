// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// synchronise copies what may change in place to the machines, and labels and
// annotations also to the objects to which they refer. The machines are written
// with the other changes, at the end.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (reconciler.Next, error) {
	next := reconciler.Continue()
	var errs []error
	for _, m := range s.Machines {
		t := controlplane.TemplateOf(s.ControlPlane, s.Cluster.Name, m.Machine)
		err := r.factory().Prepare(ctx, m.Machine, t)
		if _, unusable := errors.AsType[*provider.KindError](err); unusable {
			// The machine is skipped, and retried: CRDs are not watched. It must
			// not prevent the update of the others.
			next = reconciler.RequeueAfter(repairInterval)
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
		}
	}
	return next, errors.Join(errs...)
}
