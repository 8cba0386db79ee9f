// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Live     client.Reader // the same, past the cache
	Backends host.Backends
	Clock    clock.PassiveClock // of conditions
	Recorder events.EventRecorder
	// Debounce joins status writes that come close together; nil writes each at once.
	Debounce *patch.StatusDebounce

	following sync.WaitGroup // of the backends
}

// formerFinalizer is what the finalizer was called while its name had no path,
// of which API servers warn.
const formerFinalizer = "localmachine.infrastructure.capstan.dev"

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Live == nil || len(r.Backends.All()) == 0 || r.Clock == nil || r.Recorder == nil {
		return errors.New("localmachine: Mgmt, Live, Backends, Clock and Recorder are required")
	}
	if err := mgr.Add(ctrlmanager.RunnableFunc(r.unfollow)); err != nil {
		return err
	}
	return controller.For(mgr, "localmachine", &infrav1.LocalMachine{}).
		WatchesSource(controller.Removed(mgr.GetCache(), &infrav1.LocalMachine{}, r.removed)).
		Watches(&clusterv1.Machine{}, ofMachine, machineMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		WatchesSource(source.Func(r.followBackends)).
		Concurrency(20).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, lm *infrav1.LocalMachine) (_ ctrl.Result, err error) {
	s, err := r.observe(ctx, lm)
	if err != nil {
		return ctrl.Result{}, err
	}
	deleting := !lm.DeletionTimestamp.IsZero()
	if !deleting && (s.machine == nil || s.cluster == nil) {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Machine controller to set the owner of the LocalMachine")
		return ctrl.Result{}, nil
	}
	commit := patch.Remember(r.Mgmt, lm, patch.Debounced(r.Debounce))
	added := finalizer.Ensure(lm, infrav1.LocalMachineFinalizer, formerFinalizer)
	if pause.Requested(s.cluster, lm) {
		// It has its finalizer all the same: deleted before the pause ends, it
		// would leave behind what a copy of it that was moved here stands for.
		conditions.Set(lm, s.now, pause.Condition(s.cluster, lm))
		return ctrl.Result{}, commit(ctx)
	}
	if added {
		return ctrl.Result{}, commit(ctx) // nothing happens outside before the finalizer is stored
	}
	defer func() {
		s.failed = err
		report(s)
		err = errors.Join(err, commit(ctx))
	}()
	if deleting {
		return phase.InOrder(phase.Do("delete machine", r.remove))(ctx, s)
	}
	return phase.InOrder(
		phase.Do("wait", r.waitForOthers),
		phase.Do("bootstrap data", r.readBootstrapData),
		phase.Do("machine", r.run))(ctx, s)
}
