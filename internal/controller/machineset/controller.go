// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

const name = "machineset"

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt      client.Client      // the management cluster
	Live      client.Reader      // the same, past the cache
	Providers *provider.Objects  // templates, bootstrap and infrastructure objects, control planes
	Clock     clock.PassiveClock // of conditions
	Recorder  events.EventRecorder
	// Name makes a name that is not taken: the prefix, a dash and five random letters.
	Name func(prefix string) string

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Live == nil || r.Providers == nil || r.Clock == nil || r.Recorder == nil || r.Name == nil {
		return errors.New("machineset: Mgmt, Live, Providers, Clock, Recorder and Name are required")
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.MachineSet{}, templates); err != nil {
		return err
	}
	c, err := controller.For(mgr, name, &clusterv1.MachineSet{}).
		Owns(&clusterv1.Machine{}).
		Watches(&clusterv1.Machine{}, r.ofOrphan, isOrphan()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Watches(&clusterv1.MachineDeployment{}, r.ofDeployment, specMatters()).
		Concurrency(50).
		Build(r)
	r.watcher = c
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, set *clusterv1.MachineSet) (_ ctrl.Result, err error) {
	s, err := r.observe(ctx, set)
	if err != nil {
		return ctrl.Result{}, err
	}
	commit := patch.Remember(r.Mgmt, set)
	if pause.Requested(s.cluster, set) {
		conditions.Set(set, s.now, pause.Condition(s.cluster, set))
		return ctrl.Result{}, commit(ctx)
	}
	if r.prepare(s) {
		return ctrl.Result{}, commit(ctx) // nothing happens outside before the finalizer is stored
	}
	defer func() {
		report(s, err)
		err = errors.Join(err, commit(ctx))
	}()
	if !set.DeletionTimestamp.IsZero() {
		return phase.InOrder(ctx, s, phase.Do("delete Machines", r.deleteMachines))
	}
	return phase.All(ctx, s,
		phase.Do("preflight", r.preflight),
		phase.Do("adopt", r.adopt),
		phase.Do("remediate", r.remediate),
		phase.Do("synchronise", r.synchronise),
		phase.Do("scale", r.scale))
}
