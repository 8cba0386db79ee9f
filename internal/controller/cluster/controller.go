// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
)

const name = "cluster"

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps

	watcher provider.Watcher // set by Setup
}

// Setup registers the controller, its index and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("cluster"); err != nil {
		return err
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &clusterv1.Cluster{}, refs); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.Cluster{}).
		Watches(&clusterv1.MachineDeployment{}, ofDescendant).
		Watches(&clusterv1.MachineSet{}, ofDescendant).
		Watches(&clusterv1.MachinePool{}, ofDescendant).
		Watches(&clusterv1.Machine{}, ofDescendant).
		Watches(&planv1.PlanGuard{}, ofGuard).
		Watches(&clusterv1.ClusterClass{}, controller.OfClass(r.Mgmt), classMatters()).
		WatchesSource(r.Workload.Source(nil, ofConnection)).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.Cluster, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(*state) patch.Commit {
			return patch.Snapshot(r.Mgmt, cluster, patch.Locked, patch.Debounced(r.Debounce))
		},
		Finalizer: clusterv1.ClusterFinalizer,
		Cluster:   func(*state) *clusterv1.Cluster { return cluster },
		Normal: reconciler.All(
			reconciler.Do("plan guard", r.planGuard),
			reconciler.Do("infrastructure", r.infrastructure),
			reconciler.Do("control plane", r.controlPlane),
			reconciler.Do("kubeconfig", r.kubeconfig)),
		WhilePaused: reconciler.InOrder(reconciler.Do("plan guard", r.endPlan)),
		Delete:      reconciler.InOrder(reconciler.Do("delete", r.delete)),
		Orphans:     true,
		Report:      func(s *state, failed error) { clusterstatus.Report(s.facts(failed)) },
		Deprecated:  reconciler.If(r.Deprecated, func(s *state, failed error) { clusterstatus.ReportDeprecated(s.facts(failed)) }),
		Deadline:    func(s *state) time.Time { return clusterstatus.Deadline(s.facts(nil)) },
	}.Reconcile(ctx, cluster)
}

// event emits an event for an action.
func (r *Reconciler) event(s *state, reason, action, note string, args ...any) {
	r.Recorder.Eventf(s.cluster, nil, corev1.EventTypeNormal, reason, action, "%s", fmt.Sprintf(note, args...))
}
