// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Kinds that own a LocalMachine, and kinds to which it refers.
var (
	machineKind      = clusterv1.GroupVersion().WithKind("Machine").GroupKind()
	machinePoolKind  = clusterv1.GroupVersion().WithKind("MachinePool").GroupKind()
	localKind        = infrav1.GroupVersion().WithKind("LocalMachine")
	localClusterKind = infrav1.GroupVersion().WithKind("LocalCluster")
	localPoolKind    = infrav1.GroupVersion().WithKind("LocalMachinePool")
)

// state has what one reconcile has read.
type state struct {
	local   *infrav1.LocalMachine
	order   *localstatus.Order // of its owner that refers to it; nil if there is none, or it was deleted
	cluster *clusterv1.Cluster // nil if it is not determined or was deleted
	// clusterID identifies the infrastructure of its cluster on this host; "" if
	// not determined.
	clusterID localinfra.ID
	now       time.Time
	before    *infrav1.LocalMachineSpec // as it was read

	// Results of the phases.
	backend localinfra.Backend // that it requests; nil if this process does not have it
	waiting localstatus.Wait   // why the machine is not handled yet; zero if it is
	data    bootstrapData      // with which it starts
	seen    *localstatus.Seen  // its progress; nil if not read
	stopped error              // why it does not run, though it once did; nil if not read
}

// bootstrapData is never logged, nor included in an error.
type bootstrapData struct {
	value  []byte
	format string
}

// observe reads the objects of the machine. A LocalMachine that waits for its
// Machine to own it has no state yet, unless it belongs to a pool.
func (r *Reconciler) observe(ctx context.Context, lm *infrav1.LocalMachine) (*state, error) {
	s := &state{local: lm, now: r.Clock.Now(), before: lm.Spec.DeepCopy()}
	var err error
	if s.order, err = r.orderOf(ctx, lm); err != nil {
		return nil, err
	}
	if err := r.observeCluster(ctx, s); err != nil {
		return nil, err
	}
	if lm.DeletionTimestamp.IsZero() && (s.order == nil || s.cluster == nil) {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Machine controller to set the owner of the LocalMachine")
		return nil, nil
	}
	return s, nil
}

// observeCluster reads the cluster of the machine, and its infrastructure on this
// host.
func (r *Reconciler) observeCluster(ctx context.Context, s *state) (err error) {
	key := s.clusterKey()
	if key.Name == "" {
		return nil
	}
	if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, key.Namespace, key.Name); err != nil || s.cluster == nil {
		return err
	}
	ref := s.cluster.Spec.InfrastructureRef
	if ref.GroupKind() != localClusterKind.GroupKind() {
		return nil
	}
	lc := &infrav1.LocalCluster{}
	err = r.Mgmt.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: ref.Name}, lc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get LocalCluster %s/%s: %w", key.Namespace, ref.Name, err)
	}
	if err == nil {
		s.clusterID = localinfra.ClusterID(lc)
	}
	return nil
}

// orderOf reads the desired state of the machine: from the MachinePool of its pool
// or, without a pool, from its Machine.
func (r *Reconciler) orderOf(ctx context.Context, lm *infrav1.LocalMachine) (*localstatus.Order, error) {
	pool, machinePool, machine := &infrav1.LocalMachinePool{}, &clusterv1.MachinePool{}, &clusterv1.Machine{}
	there, err := r.owner(ctx, lm, localPoolKind.GroupKind(), pool)
	if there && err == nil {
		there, err = r.owner(ctx, pool, machinePoolKind, machinePool)
	}
	switch {
	case err != nil:
		return nil, err
	case there && reference.Names(machinePool.Spec.Template.Spec.InfrastructureRef, localPoolKind, pool.Name):
		order := new(localstatus.ByPool(machinePool, lm))
		_, err := r.owner(ctx, lm, machineKind, machine)
		order.Spec.ProviderID = machine.Spec.ProviderID
		return order, err
	}
	there, err = r.owner(ctx, lm, machineKind, machine)
	if err != nil || !there || !reference.Names(machine.Spec.InfrastructureRef, localKind, lm.Name) {
		return nil, err
	}
	return new(localstatus.ByMachine(machine)), nil
}

// owner reads the owner of a kind, and reports whether there is one and it exists.
func (r *Reconciler) owner(ctx context.Context, of client.Object, kind schema.GroupKind, into client.Object) (bool, error) {
	name := owner.Name(of, kind)
	if name == "" {
		return false, nil
	}
	err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %s %s/%s: %w", kind.Kind, of.GetNamespace(), name, err)
	}
	return err == nil, nil
}

// clusterKey returns the key of the cluster of the machine, from its owner or its
// label.
func (s *state) clusterKey() types.NamespacedName {
	name := s.local.Labels[clusterv1.ClusterNameLabel]
	if s.order != nil {
		name = s.order.Spec.ClusterName
	}
	return types.NamespacedName{Namespace: s.local.Namespace, Name: name}
}

// provisioned reports whether the machine has ever run its bootstrap data:
// according to its status or, after a move without status, to its Machine.
func (s *state) provisioned() bool {
	return localstatus.Provisioned(s.local) || s.order != nil && s.order.Spec.ProviderID != ""
}
