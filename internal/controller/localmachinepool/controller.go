// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// Reconciler has what the controller needs from outside. All fields are
// required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Live     client.Reader // the same, past the cache
	Backends localinfra.Backends
	Clock    clock.PassiveClock // of conditions
	Recorder events.EventRecorder
	// Debounce joins status writes that follow each other closely; nil writes each
	// immediately.
	Debounce *patch.StatusDebounce
	// Name returns an unused name: the prefix, a dash and five random letters.
	Name func(prefix string) string
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Live == nil || len(r.Backends.All()) == 0 || r.Clock == nil || r.Recorder == nil || r.Name == nil {
		return errors.New("localmachinepool: Mgmt, Live, Backends, Clock, Recorder and Name are required")
	}
	if err := index.ByLabel(ctx, mgr.GetFieldIndexer(), &infrav1.LocalMachinePool{}); err != nil {
		return err
	}
	return controller.For(mgr, "localmachinepool", &infrav1.LocalMachinePool{}).
		Watches(&infrav1.LocalMachine{}, r.ofLocalMachine, localMachineMatters()).
		Watches(&clusterv1.Machine{}, r.ofMachine, machineMatters()).
		Watches(&clusterv1.MachinePool{}, ofMachinePool, machinePoolMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Concurrency(10).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, pool *infrav1.LocalMachinePool) (ctrl.Result, error) {
	return reconciler.Flow[*infrav1.LocalMachinePool, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Remember: func(*state) patch.Commit {
			return patch.Remember(r.Mgmt, pool, patch.Debounced(r.Debounce, "instances"))
		},
		Finalizer: infrav1.LocalMachinePoolFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Live: phase.InOrder(
			phase.Do("wait", r.waitForOthers),
			phase.Do("hold machines", r.hold),
			phase.Do("scale", r.scale)),
		End:    phase.InOrder(phase.Do("delete machines", r.deleteAll)),
		Report: report,
	}.Reconcile(ctx, pool)
}
