// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

const (
	name = "machine"

	// remoteGrace is how long the last observed state of a Node is reported after
	// the connection to its cluster was lost.
	remoteGrace = 5 * time.Minute
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	// Extensions update Machines in place; nil disables updates in place.
	Extensions extensions.InPlaceHooks
	// RemoteGrace is how long after the last answer of a workload cluster the last
	// observed state of its Nodes is reported. Zero means five minutes.
	RemoteGrace time.Duration
	// Sync selects what is copied from Machines to their Nodes in addition to the default.
	Sync nodesync.Additional

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("machine"); err != nil {
		return err
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.Machine{}, refs); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.Machine{}).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Watches(&clusterv1.MachineSet{}, r.ofLabel(clusterv1.MachineSetNameLabel), setMatters()).
		Watches(&clusterv1.MachineDeployment{}, r.ofLabel(clusterv1.MachineDeploymentNameLabel), templateMatters()).
		Watches(&clusterv1.MachinePool{}, r.ofLabel(clusterv1.MachinePoolNameLabel), versionMatters()).
		Watches(&clusterv1.MachineHealthCheck{}, r.ofHealthCheck, controller.Matters(healthcheck.Reach)).
		WatchesSource(r.Workload.Source(nil, r.ofConnection)).
		WatchesSource(r.Workload.Source(&corev1.Node{}, r.ofNode)).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, m *clusterv1.Machine) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.Machine, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(*state) patch.Commit {
			// Conditions of a Machine have several writers. The status fields about
			// the infrastructure machine are for users: controllers act on the
			// spec, which is written first.
			return patch.Snapshot(r.Mgmt, m, patch.Locked, patch.Debounced(r.Debounce, "initialization", "addresses", "certificatesExpiryDate"))
		},
		Finalizer: clusterv1.MachineFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Prepare:   func(s *state) bool { return s.machine.DeletionTimestamp.IsZero() && r.adoptStandalone(s) },
		Normal: reconciler.All(
			reconciler.Do("bootstrap", r.bootstrap),
			reconciler.Do("infrastructure", r.infrastructure),
			reconciler.Do("node", r.node),
			reconciler.Do("update in place", r.update),
			reconciler.Do("certificates", r.certificates)),
		Delete:     r.delete,
		Report:     report,
		Deprecated: reconciler.If(r.Deprecated, func(s *state, failed error) { machinestatus.ReportDeprecated(s.facts(failed)) }),
		Deadline:   func(s *state) time.Time { return machinestatus.Deadline(s.facts(nil)) },
	}.Reconcile(ctx, m)
}

// event emits an event for an action.
func (r *Reconciler) event(s *state, kind, reason, action, note string, args ...any) {
	r.Recorder.Eventf(s.machine, nil, kind, reason, action, "%s", fmt.Sprintf(note, args...))
}
