// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// remediate handles the Machines that a health check marked for remediation.
func (r *Reconciler) remediate(ctx context.Context, s *state) (reconciler.Next, error) {
	outdated, err := rollout.Superseded(s.deployment, s.set)
	if err != nil {
		return reconciler.Continue(), err
	}
	held, _, err := machines.HeldForRemediation(ctx, r.Mgmt, r.Workload, healthcheck.Orders{Cluster: s.cluster, Now: s.now}, s.machines)
	if err != nil {
		return reconciler.Continue(), err
	}
	facts := scaling.Unhealthy{
		Machines:    s.machines,
		Held:        held,
		Outdated:    outdated,
		MaxInFlight: scaling.MaxInFlight(s.deployment),
		Blocked:     s.blocked,
	}
	plan := scaling.Remediation(facts)
	decisions.Add(ctx, facts, plan)
	var errs []error
	for _, v := range plan {
		errs = append(errs, r.carryOut(ctx, s, v))
	}
	return reconciler.Continue(), errors.Join(errs...)
}

// carryOut writes the result to the Machine before it deletes it, so that the
// reason is visible as long as the Machine exists.
func (r *Reconciler) carryOut(ctx context.Context, s *state, v scaling.Decision) error {
	m := v.Machine
	commit := patch.Snapshot(r.Mgmt, m, patch.Locked)
	if v.Condition == nil {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	} else {
		conditions.Set(m, s.now, *v.Condition)
	}
	if r.Deprecated {
		v1beta1conditions.SetMachine(m, s.now, healthcheck.Deprecated(m)...)
	}
	if err := commit(ctx); err != nil || !v.Delete {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Remediating Machine", "action", v.String())
	return r.deleteMachine(ctx, s, m, v.String())
}

// deleteMachine deletes a Machine and emits an event.
func (r *Reconciler) deleteMachine(ctx context.Context, s *state, m *clusterv1.Machine, why string) error {
	if err := client.IgnoreNotFound(r.Mgmt.Delete(ctx, m, client.Preconditions{UID: new(m.UID)})); err != nil {
		return err
	}
	r.Recorder.Eventf(s.set, m, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "%s", why)
	m.DeletionTimestamp = new(metav1.NewTime(s.now)) // as the cache will show it
	return nil
}
