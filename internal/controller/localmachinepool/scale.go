// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// waitForOthers ends the reconcile while the machines must stay unchanged. Watches
// trigger the next.
func (r *Reconciler) waitForOthers(ctx context.Context, s *state) (reconciler.Next, error) {
	var err error
	if s.waiting = s.Waits(s.cluster, s.machinePool); s.waiting == "" {
		if s.backend, err = r.Backends.OfMachine(localpool.MachineSpec(s.Local)); err != nil {
			s.waiting = err.Error() // until the spec changes: a retry would fail the same way
		}
	}
	if s.waiting != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting before the machines are looked after", "reason", s.waiting)
		return reconciler.Wait(0), nil
	}
	s.blocked = s.Blocked(s.cluster, s.machinePool)
	return reconciler.Continue(), nil
}

// hold restores owner and labels of machines that lost them.
func (r *Reconciler) hold(ctx context.Context, s *state) (reconciler.Next, error) {
	for i, m := range s.members {
		if s.Holds(m.Local) {
			continue
		}
		local := m.Local.DeepCopy()
		commit := patch.Snapshot(r.Mgmt, local)
		s.Hold(local)
		if err := commit(ctx); err != nil {
			return reconciler.Continue(), err
		}
		s.members[i].Local = local
	}
	return reconciler.Continue(), nil
}

// scale executes the plan of package localpool.
func (r *Reconciler) scale(ctx context.Context, s *state) (reconciler.Next, error) {
	s.facts = localpool.Facts{
		Want: int(*s.machinePool.Spec.Replicas), Template: localpool.Template(s.Local, s.machinePool), Members: s.members, Blocked: s.blocked != "",
	}
	for range s.facts.Missing() {
		s.facts.Names = append(s.facts.Names, r.Name(s.Local.Name))
	}
	var errs []error
	plan := localpool.Plan(s.facts)
	decisions.Add(ctx, s.facts, plan)
	for _, a := range plan {
		ctrl.LoggerFrom(ctx).Info("Scaling LocalMachinePool", "action", a.String())
		var err error
		switch a := a.(type) {
		case scaling.Create:
			err = r.create(ctx, s, a)
		case scaling.Delete:
			err = r.deleteNamed(ctx, s, a.Name, a.String())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a, err))
			break // what failed once, such as a quota, will fail again
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

func (r *Reconciler) create(ctx context.Context, s *state, a scaling.Create) error {
	local := s.Make(s.machinePool, a.Name, s.members)
	local.Spec.ProviderID = s.backend.ProviderID(client.ObjectKeyFromObject(local), s.Cluster)
	if err := r.Mgmt.Create(ctx, local); err != nil {
		r.Recorder.Eventf(s.Local, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s: %v", a, err)
		return fmt.Errorf("create LocalMachine %s: %w", client.ObjectKeyFromObject(local), err)
	}
	r.Recorder.Eventf(s.Local, local, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "%s", a)
	s.members = append(s.members, localpool.Member{Local: local})
	return nil
}

func (r *Reconciler) deleteNamed(ctx context.Context, s *state, name, why string) error {
	for i, m := range s.members {
		if m.Local.Name == name {
			return r.delete(ctx, s, &s.members[i], why)
		}
	}
	return nil
}

// delete deletes a machine through its Machine, so that its Node is drained. A
// machine without a Machine has nothing to drain.
func (r *Reconciler) delete(ctx context.Context, s *state, m *localpool.Member, why string) error {
	var obj client.Object = m.Local
	if m.Machine == nil {
		// The cache may lag behind the API server.
		machine := &clusterv1.Machine{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(m.Local), machine)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get Machine %s: %w", client.ObjectKeyFromObject(m.Local), err)
		}
		if err == nil && s.Represents(machine, m.Local) {
			m.Machine = machine
		}
	}
	if m.Machine != nil {
		obj = m.Machine
	}
	if err := r.Mgmt.Delete(ctx, obj.DeepCopyObject().(client.Object), client.Preconditions{UID: new(obj.GetUID())}); client.IgnoreNotFound(err) != nil {
		r.Recorder.Eventf(s.Local, obj, corev1.EventTypeWarning, "FailedDelete", "Delete", "%s: %v", why, err)
		return fmt.Errorf("delete %s: %w", client.ObjectKeyFromObject(obj), err)
	}
	r.Recorder.Eventf(s.Local, obj, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "%s", why)
	return nil
}

// deleteAll deletes the machines of a pool that is being deleted, and then allows
// its deletion. If the MachinePool is being deleted, it deletes the Machines. At
// most a batch is deleted at a time; the resulting events trigger the next.
func (r *Reconciler) deleteAll(ctx context.Context, s *state) (reconciler.Next, error) {
	deleted := 0
	for i := range s.members {
		m := &s.members[i]
		if m.Going() || m.Machine != nil && s.machinePool != nil && !s.machinePool.DeletionTimestamp.IsZero() && metav1.IsControlledBy(m.Machine, s.machinePool) {
			continue
		}
		if deleted == scaling.Batch(len(s.members)) {
			break
		}
		if err := r.delete(ctx, s, m, "delete "+m.Local.Name+": the LocalMachinePool is being deleted"); err != nil {
			return reconciler.Continue(), err
		}
		deleted++
	}
	if len(s.members) == 0 {
		reconciler.RemoveFinalizers(s.Local, infrav1.LocalMachinePoolFinalizer)
	}
	return reconciler.Continue(), nil
}
