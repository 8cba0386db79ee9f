// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const (
	name = "kubeadmconfig"

	// DefaultTokenTTL is how long a token is valid unless it is extended.
	DefaultTokenTTL = 15 * time.Minute
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps

	TokenTTL time.Duration                                              // 0 means DefaultTokenTTL
	NewToken func() (token bootstrapv1.BootstrapTokenString, err error) // nil means a random one

	// upkeep is when the token of a config must be checked next, so that other
	// events cause no request to the workload cluster. After a start every token is
	// checked.
	upkeep controller.Memory[time.Time]
	// rendered is the spec and version from which the data of a pool was rendered.
	// After a start each is rendered again, and written if it differs.
	rendered controller.Memory[string]
}

// Forget drops the cached data of a deleted config.
func (r *Reconciler) Forget(key client.ObjectKey) {
	r.upkeep.Forget(key)
	r.rendered.Forget(key)
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := r.Check("kubeadmconfig"); err != nil {
		return err
	}
	if err := index.ByLabel(ctx, mgr.GetFieldIndexer(), &bootstrapv1.KubeadmConfig{}); err != nil {
		return err
	}
	return controller.For(mgr, name, &bootstrapv1.KubeadmConfig{}).
		Watches(&clusterv1.Machine{}, r.ofMachine, machineMatters()).
		Watches(&clusterv1.MachinePool{}, ofMachinePool, poolMatters()).
		Watches(&clusterv1.Cluster{}, r.ofCluster, clusterMatters()).
		Watches(&corev1.Secret{}, r.ofCertificates, certificatesMatter()).
		Watches(&corev1.ConfigMap{}, r.ofLock, lockMatters()).
		WatchesSource(r.Workload.Source(nil, r.ofConnection)).
		Concurrency(50).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler. There is no finalizer: the
// objects of a config are deleted with it.
func (r *Reconciler) Reconcile(ctx context.Context, config *bootstrapv1.KubeadmConfig) (ctrl.Result, error) {
	return reconciler.Flow[*bootstrapv1.KubeadmConfig, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(s *state) patch.Commit {
			s.commit = patch.Snapshot(r.Mgmt, config)
			return func(ctx context.Context) error { return s.commit(ctx) } // discovery may have been written before
		},
		Cluster: func(s *state) *clusterv1.Cluster { return s.cluster },
		Normal: reconciler.InOrder(
			reconciler.Do("bootstrap data that is there", r.keep),
			reconciler.Do("bootstrap data", r.carryOut)),
		Report:     report,
		Deprecated: reconciler.If(r.Deprecated, reportDeprecated),
	}.Reconcile(ctx, config)
}
