// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// scale executes the plan of package scaling.
func (r *Reconciler) scale(ctx context.Context, s *state) (reconciler.Next, error) {
	var errs []error
	if s.unsettled() {
		errs = append(errs, r.sweep(ctx, s))
	}
	facts := scaling.Facts{Want: s.want(), Machines: scaling.Counted(s.set, s.machines), Order: s.set.Spec.Deletion.Order, Blocked: s.blocked}
	if len(s.orphans) > 0 { // they would be too many once they are adopted
		facts.Blocked = append(slices.Clone(facts.Blocked), "Machines are not adopted yet")
	}
	if len(facts.Machines) > facts.Want {
		recipient, err := r.observeRecipient(ctx, s)
		if err != nil {
			return reconciler.Continue(), errors.Join(append(errs, err)...)
		}
		if facts.Recipient = recipient; recipient != nil && recipient.Awaited != "" {
			ctrl.LoggerFrom(ctx).V(2).Info("Waiting to hand Machines over", "reason", recipient.Awaited)
		}
	}
	for range facts.Missing() {
		random := r.Name(s.set.Name)
		name, err := scaling.MachineNaming(s.set).Name(random[strings.LastIndex(random, "-")+1:])
		if err != nil {
			errs = append(errs, err)
			break // it will fail again
		}
		facts.Names = append(facts.Names, name)
	}
	acts := scaling.Plan(facts)
	decisions.Add(ctx, facts, acts)
	if len(acts) == 0 {
		if len(s.blocked) > 0 {
			ctrl.LoggerFrom(ctx).V(2).Info("Waiting to create Machines", "reason", strings.Join(s.blocked, "; "))
		}
		return reconciler.Continue(), errors.Join(errs...)
	}
	for _, a := range acts {
		ctrl.LoggerFrom(ctx).Info("Scaling MachineSet", "action", a.String())
		if err := r.act(ctx, s, a); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
			if _, create := a.(scaling.Create); create {
				break // what failed once, such as a quota, will fail again
			}
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

func (r *Reconciler) act(ctx context.Context, s *state, a scaling.Action) error {
	switch a := a.(type) {
	case scaling.Create:
		m, err := r.create(ctx, s, a.Name)
		if err != nil {
			r.Recorder.Eventf(s.set, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s: %v", a, err)
			return err
		}
		r.Recorder.Eventf(s.set, m, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "%s", a)
		s.machines = append(s.machines, m)
		return nil
	case scaling.Delete:
		if m := metadata.Named(s.machines, a.Name); m != nil {
			return r.deleteMachine(ctx, s, m, a.String())
		}
		return nil
	case scaling.Move:
		return r.handOver(ctx, s, a)
	default:
		return fmt.Errorf("unknown action %T", a)
	}
}

// deleteMachines deletes the Machines of a set that is being deleted, and then
// allows its deletion.
func (r *Reconciler) deleteMachines(ctx context.Context, s *state) (reconciler.Next, error) {
	err := inBatches(s.machines, func(m *clusterv1.Machine) error {
		if !m.DeletionTimestamp.IsZero() {
			return nil
		}
		return r.deleteMachine(ctx, s, m, "delete "+m.Name+": the MachineSet is being deleted")
	})
	if err != nil || len(s.machines) > 0 {
		return reconciler.Wait(0), err
	}
	reconciler.RemoveFinalizers(s.set, clusterv1.MachineSetFinalizer)
	return reconciler.Continue(), nil
}

// inBatches calls do for one Machine after the other, until a batch of them has
// been written. The resulting events trigger the next reconcile, which continues
// from there, with the desired state at that time.
func inBatches(machines []*clusterv1.Machine, do func(*clusterv1.Machine) error) error {
	var errs []error
	written := 0
	for _, m := range machines {
		version, going := m.ResourceVersion, !m.DeletionTimestamp.IsZero()
		err := do(m)
		errs = append(errs, err)
		if err == nil && (m.ResourceVersion != version || going == m.DeletionTimestamp.IsZero()) {
			written++
		}
		if written == scaling.Batch(len(machines)) {
			break
		}
	}
	return errors.Join(errs...)
}
