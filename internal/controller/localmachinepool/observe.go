// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"cmp"
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// ownerKind is what owns a LocalMachinePool.
var ownerKind = clusterv1.GroupVersion().WithKind("MachinePool").GroupKind()

// state has what one reconcile has read.
type state struct {
	localpool.Pool
	cluster     *clusterv1.Cluster     // nil if it is not determined or was deleted
	machinePool *clusterv1.MachinePool // that owns it; nil if none does, or if it was deleted
	members     []localpool.Member
	now         time.Time
	before      *infrav1.LocalMachinePoolSpec // as it was read

	// What the phases found.
	backend localinfra.Backend // that it requests; nil if this process does not have it
	waiting string             // why the machines are left as they are; empty if there is nothing
	blocked string             // why none can be created
	facts   localpool.Facts    // that were acted on
}

// observe reads the objects of the pool, and its machines. A pool that waits for
// its MachinePool to own it has no state yet.
func (r *Reconciler) observe(ctx context.Context, pool *infrav1.LocalMachinePool) (*state, error) {
	s := &state{now: r.Clock.Now(), before: pool.Spec.DeepCopy()}
	s.Pool = localpool.Pool{Local: pool, MachinePool: owner.Name(pool, ownerKind), Cluster: pool.Labels[clusterv1.ClusterNameLabel]}
	if s.MachinePool != "" {
		mp := &clusterv1.MachinePool{}
		err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: s.MachinePool}, mp)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get MachinePool %s/%s: %w", pool.Namespace, s.MachinePool, err)
		}
		if err == nil {
			s.machinePool = mp
			s.Cluster = cmp.Or(s.Cluster, mp.Spec.ClusterName)
		}
	}
	if s.Cluster != "" {
		var err error
		if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, pool.Namespace, s.Cluster); err != nil {
			return nil, err
		}
	}
	if pool.DeletionTimestamp.IsZero() && (s.machinePool == nil || s.cluster == nil) {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the MachinePool controller to set the owner of the LocalMachinePool")
		return nil, nil
	}
	return s, r.observeMembers(ctx, s)
}

// observeMembers reads the machines of the pool, which must not be changed.
func (r *Reconciler) observeMembers(ctx context.Context, s *state) error {
	var locals infrav1.LocalMachineList
	var machines clusterv1.MachineList
	in := client.InNamespace(s.Local.Namespace)
	if err := r.Mgmt.List(ctx, &locals, in, client.MatchingFields{index.ClusterLabel: s.Cluster}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list LocalMachines: %w", err)
	}
	if err := r.Mgmt.List(ctx, &machines, in, client.MatchingFields{index.ClusterName: s.Cluster}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Machines: %w", err)
	}
	s.members = s.Members(locals.Items, machines.Items)
	return nil
}
