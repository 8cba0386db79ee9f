// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/updates"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const (
	name = "machinedeployment"

	// grace is how long after its creation a MachineDeployment does not report a
	// Cluster or a template that is not found: objects of the same manifest are
	// created a moment later. Creation timestamps are truncated to whole seconds,
	// hence two.
	grace = 2 * time.Second
)

// Reconciler has what the controller needs from outside. All fields but Extensions,
// Debounce and Deprecated are required; Setup checks them.
type Reconciler struct {
	Mgmt      client.Client      // the management cluster
	Live      client.Reader      // the same, past the cache
	Providers *provider.Objects  // templates
	Clock     clock.PassiveClock // of conditions and spec.rollout.after
	Recorder  events.EventRecorder
	// Extensions determine what can be updated in place; nil disables updates in
	// place.
	Extensions updates.Extensions
	// Debounce joins status writes that follow each other closely; nil writes each
	// immediately.
	Debounce *patch.StatusDebounce
	// Deprecated has status.deprecated.v1beta1 filled.
	Deprecated bool
	// Name returns an unused name: the prefix, a dash and five random letters.
	Name func(prefix string) string

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Live == nil || r.Providers == nil || r.Clock == nil || r.Recorder == nil || r.Name == nil {
		return errors.New("machinedeployment: Mgmt, Live, Providers, Clock, Recorder and Name are required")
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.MachineDeployment{}, templates); err != nil {
		return err
	}
	c, err := controller.For(mgr, name, &clusterv1.MachineDeployment{}).
		Owns(&clusterv1.MachineSet{}).
		Watches(&clusterv1.MachineSet{}, r.ofOrphan, controller.Orphan()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Concurrency(50).
		Build(r)
	r.watcher = c
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, md *clusterv1.MachineDeployment) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.MachineDeployment, state]{
		Clock:     r.Clock,
		Observe:   r.observe,
		Remember:  func(*state) patch.Commit { return patch.Remember(r.Mgmt, md, patch.Debounced(r.Debounce)) },
		Finalizer: clusterv1.MachineDeploymentFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Quiet:     func(s *state) bool { return !s.quietUntil.IsZero() },
		Prepare:   r.prepare,
		Live: phase.InOrder(
			phase.Do("own the templates", r.ownTemplates),
			phase.Do("adopt MachineSets", r.adopt),
			phase.Do("roll out", r.rollOut)),
		End: phase.InOrder(
			phase.Do("own the templates", r.ownTemplates), // the deployment may be deleted before its first reconcile
			phase.Do("delete MachineSets", r.deleteSets)),
		Report:     report,
		Deprecated: reconciler.If(r.Deprecated, reportDeprecated),
		Deadline:   func(s *state) time.Time { return s.quietUntil },
	}.Reconcile(ctx, md)
}
