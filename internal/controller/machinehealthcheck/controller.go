// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
)

const name = "machinehealthcheck"

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps

	watcher provider.Watcher // set by Setup

	mu   sync.Mutex                  // guards told
	told map[client.ObjectKey]string // the event of a check, until its status reports the same
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("machinehealthcheck"); err != nil {
		return err
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.MachineHealthCheck{}, templates); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.MachineHealthCheck{}).
		Watches(&clusterv1.MachineHealthCheck{}, r.ofSibling, controller.Matters(healthcheck.Reach)).
		Watches(&clusterv1.Machine{}, r.ofMachine, machineMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		WatchesSource(r.Workload.Source(nil, r.ofConnection)).
		WatchesSource(r.Workload.Source(&corev1.Node{}, r.ofNode)).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, check *clusterv1.MachineHealthCheck) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.MachineHealthCheck, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(*state) patch.Commit {
			return patch.Snapshot(r.Mgmt, check, patch.Debounced(r.Debounce, "expectedMachines", "currentHealthy", "remediationsAllowed"))
		},
		Cluster: func(s *state) *clusterv1.Cluster { return s.Cluster },
		Prepare: prepare,
		Normal: reconciler.InOrder(
			reconciler.Do("nodes", r.nodes),
			reconciler.Do("template", r.template),
			reconciler.Do("remediate", r.remediate)),
		Delete:     reconciler.InOrder[*state](),
		Report:     report,
		Deprecated: reconciler.If(r.Deprecated, func(s *state, _ error) { healthcheck.ReportDeprecated(s.Check, s.Now) }),
		Deadline:   func(s *state) time.Time { return s.decision.RequeueAt },
	}.Reconcile(ctx, check)
}

// prepare sets the Cluster label and owner of a MachineHealthCheck, and reports
// whether that must be stored.
func prepare(s *state) bool {
	changed := owner.Label(s.Check, s.Check.Spec.ClusterName)
	if s.Cluster == nil {
		return changed
	}
	return owner.Set(s.Check, owner.OfCluster(s.Cluster)) || changed
}

// Forget drops the cached event of a check.
func (r *Reconciler) Forget(key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, key)
}

// mustEmit reports whether an event of a check must still be emitted; what is "" if
// there is none.
func (r *Reconciler) mustEmit(key client.ObjectKey, what string) bool {
	if what == "" {
		r.Forget(key)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[key] == what {
		return false
	}
	if r.told == nil {
		r.told = map[client.ObjectKey]string{}
	}
	r.told[key] = what
	return true
}
