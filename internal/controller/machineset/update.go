// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// update writes the desired state of the Machines that were handed over to the set,
// which starts their update in place.
func (r *Reconciler) update(ctx context.Context, s *state) (reconciler.Next, error) {
	if len(s.blocked) > 0 {
		return reconciler.Continue(), nil // what would break a new Machine would break these too
	}
	var errs []error
	waiting := scaling.ToUpdate(s.set, s.machines)
	for _, m := range waiting[:min(len(waiting), scaling.Batch(len(s.machines)))] {
		if err := r.begin(ctx, s, m); err != nil {
			errs = append(errs, fmt.Errorf("update Machine %s in place: %w", m.Name, err))
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

// begin writes the desired state of a Machine. If the provider refuses it, the
// Machine is replaced.
func (r *Reconciler) begin(ctx context.Context, s *state, m *clusterv1.Machine) error {
	change, err := machines.Fresh(scaling.MachineTemplate(s.set), m.Name, s.infraTemplate, s.bootstrapTemplate)
	if err != nil {
		return err
	}
	err = r.factory().Update(ctx, m, change)
	if refused, is := errors.AsType[*machines.RefusedError](err); is {
		return r.deleteMachine(ctx, s, m, fmt.Sprintf("replace %s: it cannot be updated in place: %v", m.Name, refused))
	}
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Updating Machine in place", "Machine", m.Name)
	r.Recorder.Eventf(s.set, m, corev1.EventTypeNormal, "UpdateStarted", "UpdateInPlace", "update %s in place", m.Name)
	return nil
}

// observeRecipient returns the MachineSet that receives the surplus Machines of
// this set.
func (r *Reconciler) observeRecipient(ctx context.Context, s *state) (*scaling.Recipient, error) {
	name := scaling.RecipientName(s.set)
	if name == "" {
		return nil, nil
	}
	to, err := r.recipient(ctx, s, name)
	if err != nil || to == nil {
		return scaling.RecipientOf(s.set, nil, nil), err
	}
	selector, err := owner.Selector(&to.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var list clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(to.Namespace), client.MatchingFields{index.ClusterName: to.Spec.ClusterName},
		client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines of MachineSet %s: %w", to.Name, err)
	}
	theirs, _ := owner.Divide(list.Items, to.UID)
	return scaling.RecipientOf(s.set, to, theirs), nil
}

func (r *Reconciler) recipient(ctx context.Context, s *state, name string) (*clusterv1.MachineSet, error) {
	to := &clusterv1.MachineSet{}
	key := client.ObjectKey{Namespace: s.set.Namespace, Name: name}
	err := r.Mgmt.Get(ctx, key, to)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get MachineSet %s: %w", key, err)
	}
	return to, nil
}

// handOver transfers a Machine to the MachineSet that will update it.
func (r *Reconciler) handOver(ctx context.Context, s *state, a scaling.Move) error {
	m := metadata.Named(s.machines, a.Name)
	to, err := r.recipient(ctx, s, a.To)
	if err != nil || to == nil || m == nil {
		return err
	}
	theirs, err := owner.Controller(to, r.Mgmt)
	if err != nil {
		return err
	}
	target := inplace.Target{Owner: theirs, Labels: map[string]string{
		clusterv1.MachineDeploymentUniqueLabel: to.Labels[clusterv1.MachineDeploymentUniqueLabel],
		clusterv1.MachineSetNameLabel:          fieldvalidation.AsLabelValue(to.Name),
	}}
	if err := r.factory().Move(ctx, m, target); err != nil {
		return err
	}
	r.Recorder.Eventf(s.set, m, corev1.EventTypeNormal, "SuccessfulMove", "Move", "%s", a)
	s.machines = slices.DeleteFunc(s.machines, func(have *clusterv1.Machine) bool { return have == m })
	return nil
}

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
