// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	pool       *clusterv1.MachinePool
	cluster    *clusterv1.Cluster // nil: not found
	now        time.Time
	specBefore *clusterv1.MachinePoolSpec // as it was read

	bootstrapConfig, infra provider.Reference
	dataLacks              string // the awaited field of a config that reports completion
	infraReport            machinepool.Report

	machines []*clusterv1.Machine // of the pool; shared with the cache
	orphans  []*clusterv1.Machine // that have the label of the pool, and no controller
	standIns []*clusterv1.Machine // of a pool without Machines
	problems []string

	remote  remote
	leaving string // what a deletion waits for
}

// remote is the view of the workload cluster.
type remote struct {
	seen   bool      // Nodes were read
	unseen string    // why they cannot be read yet
	until  time.Time // until when the last observed state is still reported
}

// observe reads the objects that every pool needs from the management cluster's
// cache.
func (r *Reconciler) observe(ctx context.Context, p *clusterv1.MachinePool) (*state, error) {
	s := &state{pool: p, now: r.Clock.Now(), specBefore: p.Spec.DeepCopy()}
	var err error
	if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, p.Namespace, p.Spec.ClusterName); err != nil {
		return nil, err
	}
	spec := p.Spec.Template.Spec
	s.bootstrapConfig = provider.Reference{Ref: spec.Bootstrap.ConfigRef, Role: reference.Bootstrap, Field: "spec.template.spec.bootstrap.configRef"}
	s.infra = provider.Reference{Ref: spec.InfrastructureRef, Role: reference.MachineInfrastructure, Field: "spec.template.spec.infrastructureRef"}
	var list clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{index.ClusterName: p.Spec.ClusterName},
		client.MatchingLabels{clusterv1.MachinePoolNameLabel: machinepool.NameLabel(p)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Machines: %w", err)
	}
	s.machines, s.orphans = owner.Divide(list.Items, p.UID)
	return s, nil
}

// prepare sets what every pool has in addition to its finalizer, and reports
// whether that must be stored first.
func prepare(s *state) bool {
	if s.cluster == nil || !s.pool.DeletionTimestamp.IsZero() {
		return false
	}
	changed := owner.Label(s.pool, s.pool.Spec.ClusterName)
	if metav1.GetControllerOfNoCopy(s.pool) == nil {
		changed = owner.Set(s.pool, owner.OfCluster(s.cluster)) || changed
	}
	return changed
}

func (r *Reconciler) look(ctx context.Context, s *state, ref *provider.Reference) error {
	return r.Providers.Look(ctx, s.pool.Namespace, ref, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.MachinePoolList{}})
}
