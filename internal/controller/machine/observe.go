// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	machine    *clusterv1.Machine
	cluster    *clusterv1.Cluster              // nil: not found
	set        *clusterv1.MachineSet           // nil: the Machine is not of one
	deployment *clusterv1.MachineDeployment    // nil: the set is not of one
	pool       *clusterv1.MachinePool          // nil: the Machine is not of one
	checks     []*clusterv1.MachineHealthCheck // of its Cluster, if any has evaluated it
	now        time.Time
	specBefore *clusterv1.MachineSpec // as it was read

	bootstrapConfig, infraMachine provider.Reference
	dataLacks, hostLacks          string // the awaited field of the object that reports completion

	seen     machinestatus.Node
	nodeErr  error         // why the Node could not be read
	untried  time.Duration // how much longer this process may need to determine whether the cluster answers
	deletion deletion
	update   inplace.Progress
}

// observe reads the objects that every Machine needs from the management cluster's
// cache.
func (r *Reconciler) observe(ctx context.Context, m *clusterv1.Machine) (*state, error) {
	s := &state{machine: m, now: r.Clock.Now(), specBefore: m.Spec.DeepCopy()}
	var err error
	if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, m.Namespace, m.Spec.ClusterName); err != nil {
		return nil, err
	}
	s.bootstrapConfig = provider.Reference{Ref: m.Spec.Bootstrap.ConfigRef, Role: reference.Bootstrap, Field: "spec.bootstrap.configRef"}
	s.infraMachine = provider.Reference{Ref: m.Spec.InfrastructureRef, Role: reference.MachineInfrastructure, Field: "spec.infrastructureRef"}
	if healthcheck.Checked(m) {
		if s.checks, err = machines.HealthChecks(ctx, r.Mgmt, m.Namespace, m.Spec.ClusterName); err != nil {
			return nil, err
		}
	}
	pool := &clusterv1.MachinePool{}
	if ok, err := r.controllerOf(ctx, m, "MachinePool", pool); err != nil {
		return nil, err
	} else if ok {
		s.pool = pool
	}
	set := &clusterv1.MachineSet{}
	if ok, err := r.controllerOf(ctx, m, "MachineSet", set); err != nil || !ok {
		return s, err
	}
	s.set = set
	deployment := &clusterv1.MachineDeployment{}
	if ok, err := r.controllerOf(ctx, set, "MachineDeployment", deployment); err != nil || !ok {
		return s, err
	}
	s.deployment = deployment
	return s, nil
}

// controllerOf reads the controlling owner of obj into into, if the owner has that
// kind and still exists.
func (r *Reconciler) controllerOf(ctx context.Context, obj client.Object, kind string, into client.Object) (bool, error) {
	ref := metav1.GetControllerOfNoCopy(obj)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	key := client.ObjectKey{Namespace: obj.GetNamespace(), Name: ref.Name}
	err := r.Mgmt.Get(ctx, key, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %s %s: %w", kind, key, err)
	}
	return err == nil, nil
}

func (r *Reconciler) look(ctx context.Context, s *state, ref *provider.Reference) error {
	return r.Providers.Look(ctx, s.machine.Namespace, ref, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.MachineList{}})
}

// take makes the Machine the controller of an object, instead of the controller
// that created the object for the Machine, unless the object has another owner.
func (r *Reconciler) take(ctx context.Context, s *state, ref *provider.Reference) error {
	mine := reference.ByMachine(s.machine)
	return r.Providers.Take(ctx, ref, provider.Adoption{
		Claim: mine,
		Drop: func(o metav1.OwnerReference) bool {
			return o.Kind == "MachineSet" || (mine.Maker != nil && o.Kind == mine.Maker.Kind && o.Name == mine.Maker.Name)
		},
	})
}

// adoptStandalone makes the Cluster the owner of a Machine without a controller,
// and sets the label of every Machine. It reports whether the Machine must be
// stored.
func (r *Reconciler) adoptStandalone(s *state) bool {
	m := s.machine
	changed := owner.Label(m, m.Spec.ClusterName)
	if !standalone(m) || s.cluster == nil {
		return changed
	}
	return owner.Set(m, owner.OfCluster(s.cluster)) || changed
}

// standalone reports whether the Machine has no controller, and will not get one.
func standalone(m *clusterv1.Machine) bool {
	if metav1.GetControllerOfNoCopy(m) != nil {
		return false
	}
	for _, l := range []string{clusterv1.MachineSetNameLabel, clusterv1.MachinePoolNameLabel, clusterv1.MachineControlPlaneNameLabel} {
		if _, ok := m.Labels[l]; ok {
			return false
		}
	}
	return true
}
