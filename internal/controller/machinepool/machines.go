// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// withMachines reports whether the provider has an infrastructure machine, and so
// the pool a Machine, for each replica.
func (s *state) withMachines() bool { return s.infraReport.MachineKind != "" || len(s.machines) > 0 }

// factory creates and synchronizes the Machines.
func (r *Reconciler) factory() machines.Factory {
	return machines.Factory{Mgmt: r.Mgmt, Live: r.Live, Providers: r.Providers, FieldOwner: fieldOwner}
}

// keepMachines ensures a Machine for each infrastructure machine of the pool.
// Without a report of the infrastructure, existing Machines stay unchanged.
func (r *Reconciler) keepMachines(ctx context.Context, s *state) (reconciler.Next, error) {
	if s.infraReport.MachineKind == "" {
		return reconciler.Continue(), nil
	}
	kind := schema.GroupKind{Group: s.infra.Ref.APIGroup, Kind: s.infraReport.MachineKind}
	hosts, err := r.hosts(ctx, s, kind)
	if err != nil {
		err = fmt.Errorf("status.infrastructureMachineKind of %s: %w", s.infra, err)
		s.problems = append(s.problems, err.Error())
		return reconciler.Continue(), err
	}
	acts := machinepool.Machines(kind.Kind, hosts, s.machines)
	s.problems = append(s.problems, acts.Problems...)
	mine, err := owner.Controller(s.pool, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	errs := []error{owner.HealAll(ctx, r.Mgmt, s.machines, mine), r.remediate(ctx, s), r.synchronise(ctx, s)}
	for _, m := range acts.Delete {
		errs = append(errs, r.deleteHostless(ctx, s, kind, m))
	}
	for _, name := range acts.Create {
		if err := r.create(ctx, s, kind, name); err != nil {
			errs = append(errs, err)
			break // what failed once, such as a quota, will fail again
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

// hosts reads the infrastructure machines with the label of the pool.
func (r *Reconciler) hosts(ctx context.Context, s *state, kind schema.GroupKind) ([]machinepool.Host, error) {
	if err := r.Providers.Watch(ctx, hostRef(kind, ""), provider.Trigger{Controller: name, Watcher: r.watcher, To: r.ofHost}); err != nil {
		return nil, err
	}
	objects, err := r.Providers.List(ctx, kind, s.pool.Namespace, clusterv1.MachinePoolNameLabel, client.MatchingLabels{
		clusterv1.ClusterNameLabel: s.pool.Spec.ClusterName, clusterv1.MachinePoolNameLabel: machinepool.NameLabel(s.pool),
	})
	if err != nil {
		return nil, err
	}
	if err := r.adopt(ctx, s, objects); err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(s.machines))
	for _, m := range s.machines {
		have[m.Name] = true
	}
	t := machinepool.MachineTemplate(s.pool)
	hosts := make([]machinepool.Host, 0, len(objects))
	for i := range objects {
		obj := &objects[i]
		h := machinepool.Host{Name: obj.GetName(), Going: !obj.GetDeletionTimestamp().IsZero()}
		if !have[h.Name] && !h.Going {
			if h.Holder, err = r.holder(ctx, t.Machine(h.Name), obj); err != nil {
				return nil, err
			}
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// adopt adopts the Machines of the pool's infrastructure machines that lost their
// owner, for example after a backup was restored.
func (r *Reconciler) adopt(ctx context.Context, s *state, hosts []unstructured.Unstructured) error {
	if len(s.orphans) == 0 {
		return nil
	}
	mine, err := owner.Controller(s.pool, r.Mgmt)
	if err != nil {
		return err
	}
	for _, m := range s.orphans {
		if !slices.ContainsFunc(hosts, func(h unstructured.Unstructured) bool {
			return m.Name == h.GetName() && m.Spec.InfrastructureRef == hostRef(h.GroupVersionKind().GroupKind(), m.Name)
		}) {
			continue
		}
		m = m.DeepCopy() // it is shared with the cache
		commit := patch.Snapshot(r.Mgmt, m, patch.As(fieldOwner))
		owner.Set(m, mine)
		if err := commit(ctx); err != nil {
			return fmt.Errorf("adopt: %w", err)
		}
		ctrl.LoggerFrom(ctx).Info("Adopted Machine", "Machine", m.Name)
		s.machines = append(s.machines, m)
	}
	return nil
}

// holder returns the owner of an infrastructure machine, or of the Machine of its
// name.
func (r *Reconciler) holder(ctx context.Context, m *clusterv1.Machine, obj *unstructured.Unstructured) (string, error) {
	if v := reference.ByMachine(m).Evaluate(obj); v.Holder != "" {
		return v.Holder, nil
	}
	there := &clusterv1.Machine{}
	err := r.Mgmt.Get(ctx, client.ObjectKeyFromObject(m), there)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("get Machine %s: %w", client.ObjectKeyFromObject(m), err)
	case metav1.IsControlledBy(there, &metav1.ObjectMeta{UID: metav1.GetControllerOfNoCopy(m).UID}):
		return "", nil // its labels were changed
	}
	return "a Machine of the same name, which is not of the pool", nil
}

func hostRef(kind schema.GroupKind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: name}
}

func (r *Reconciler) create(ctx context.Context, s *state, kind schema.GroupKind, name string) error {
	t := machinepool.MachineTemplate(s.pool)
	t.Spec.InfrastructureRef = hostRef(kind, name)
	m, err := r.factory().Make(ctx, machines.Order{Name: name, Template: t})
	if err != nil {
		r.Recorder.Eventf(s.pool, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "create Machine for %s %s: %v", kind.Kind, name, err)
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Created Machine", "Machine", name, kind.Kind, name) // no event: the provider emits one for the infrastructure machine
	s.machines = append(s.machines, m)
	return nil
}

// synchronise copies what may change in place from the pool to its Machines. The
// provider updates their infrastructure objects, except labels and annotations.
func (r *Reconciler) synchronise(ctx context.Context, s *state) error {
	t := machinepool.MachineTemplate(s.pool)
	var errs []error
	written := 0
	for i, m := range s.machines {
		t.Spec.InfrastructureRef = m.Spec.InfrastructureRef
		if t.InStep(m) && !metadata.Lost(m, fieldOwner) {
			continue
		}
		m = m.DeepCopy() // objects in the cache are shared
		s.machines[i] = m
		version := m.ResourceVersion
		if err := r.factory().Sync(ctx, m, t); err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
		}
		if m.ResourceVersion != version {
			written++
		}
		if written == scaling.Batch(len(s.machines)) {
			break // the events of these trigger the next reconcile
		}
	}
	return errors.Join(errs...)
}

// remediate deletes the Machines that a health check marked for remediation: their
// provider creates others.
func (r *Reconciler) remediate(ctx context.Context, s *state) error {
	held, _, err := machines.HeldForRemediation(ctx, r.Mgmt, r.Workload, healthcheck.Orders{Cluster: s.cluster, Now: s.now}, s.machines)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range machinepool.Remediation(s.machines, held) {
		m := v.Machine.DeepCopy()
		commit := patch.Snapshot(r.Mgmt, m, patch.Locked)
		if v.Condition == nil {
			conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
		} else {
			conditions.Set(m, s.now, *v.Condition)
		}
		if r.Deprecated {
			v1beta1conditions.SetMachine(m, s.now, healthcheck.Deprecated(m)...)
		}
		err := commit(ctx)
		if err == nil && v.Delete {
			err = r.delete(ctx, s, m, v.String())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// deleteHostless deletes a Machine whose infrastructure machine was deleted. The
// cache may lag behind, and a deletion cannot be undone: so the infrastructure
// machine is read again from the API server.
func (r *Reconciler) deleteHostless(ctx context.Context, s *state, kind schema.GroupKind, m *clusterv1.Machine) error {
	k, err := r.Providers.Kind(ctx, kind)
	if err != nil {
		return err
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(k.GroupVersionKind)
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}, obj); !apierrors.IsNotFound(err) {
		return err
	}
	return r.delete(ctx, s, m, fmt.Sprintf("delete %s: its %s has gone", m.Name, kind.Kind))
}

// delete deletes a Machine and emits an event.
func (r *Reconciler) delete(ctx context.Context, s *state, m *clusterv1.Machine, why string) error {
	if err := client.IgnoreNotFound(r.Mgmt.Delete(ctx, m.DeepCopy(), client.Preconditions{UID: new(m.UID)})); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "action", why)
	r.Recorder.Eventf(s.pool, m, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "%s", why)
	return nil
}
