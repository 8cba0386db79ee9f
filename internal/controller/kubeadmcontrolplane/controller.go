// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

const name = "kubeadmcontrolplane"

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Etcd etcd.Connector
	// CertificateExpiry returns when the certificate of an API server expires.
	CertificateExpiry func(context.Context, podforward.Target) (time.Time, error)
	// Extensions determine what can be updated in place; nil disables updates in
	// place.
	Extensions extensions.InPlaceHooks

	watcher    provider.Watcher              // set by Setup
	inspected  controller.Memory[inspection] // the last answers of etcd
	addonsAt   controller.Memory[string]     // the last applied configuration of the addons
	unreadable controller.Memory[unreadable]
	renewable  controller.Memory[renewal] // when its kubeconfig is renewed
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("kubeadmcontrolplane"); err != nil {
		return err
	}
	if r.Etcd == nil || r.CertificateExpiry == nil {
		return errors.New("kubeadmcontrolplane: Etcd and CertificateExpiry are required")
	}
	if err := provider.Index(ctx, mgr.GetFieldIndexer(), &controlplanev1.KubeadmControlPlane{}, templates); err != nil {
		return err
	}
	r.watcher, err = controller.For(mgr, name, &controlplanev1.KubeadmControlPlane{}).
		Owns(&corev1.Secret{}).
		Watches(&corev1.Secret{}, r.ofWorker, broughtByUsers()).
		Watches(&clusterv1.Cluster{}, ofCluster, clusterMatters()).
		Watches(&clusterv1.Machine{}, r.ofWorker, workerGone()).
		Watches(&clusterv1.MachinePool{}, r.ofWorker, workerGone()).
		WatchesSource(r.machines(mgr)).
		WatchesSource(r.Workload.Source(nil, r.ofWorkload)).
		WatchesSource(r.Workload.Source(&corev1.Pod{}, r.ofWorkload)).
		WatchesSource(r.Workload.Source(&corev1.Node{}, r.ofNode)).
		Concurrency(50).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (ctrl.Result, error) {
	return reconciler.Flow[*controlplanev1.KubeadmControlPlane, state]{
		Clock:   r.Clock,
		Observe: r.observe,
		Snapshot: func(s *state) patch.Commit {
			own := patch.Snapshot(r.Mgmt, kcp, patch.Debounced(r.Debounce))
			return func(ctx context.Context) error { return errors.Join(s.commitMachines(ctx), own(ctx)) }
		},
		Finalizer: controlplanev1.KubeadmControlPlaneFinalizer,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.Cluster },
		Normal:    reconciler.InOrder(r.upkeep()...),
		Delete: func(ctx context.Context, s *state) (ctrl.Result, error) {
			return reconciler.InOrder(r.deletion(s)...)(ctx, s)
		},
		Orphans:    true,
		Suppress:   func(s *state) bool { return s.untaken },
		Report:     (*state).report,
		Deprecated: reconciler.If(r.Deprecated, (*state).reportDeprecated),
		Deadline:   func(s *state) time.Time { return s.due },
	}.Reconcile(ctx, kcp)
}

// Forget drops the cached data of a deleted control plane.
func (r *Reconciler) Forget(key client.ObjectKey) {
	r.inspected.Forget(key)
	r.addonsAt.Forget(key)
	r.unreadable.Forget(key)
	r.renewable.Forget(key)
}

// upkeep returns the phases of a control plane that is not being deleted.
func (r *Reconciler) upkeep() []reconciler.Phase[*state] {
	return []reconciler.Phase[*state]{
		reconciler.Do("wait for the Cluster to take it", waitToBeTaken),
		reconciler.Do("own the infrastructure template", r.ownTemplate),
		reconciler.Do("wait for the cluster's infrastructure", waitForInfrastructure),
		reconciler.Do("observe machines to adopt", r.inspectOrphans),
		reconciler.Do("certificates", r.certificates),
		reconciler.Do("wait for the endpoint", waitForEndpoint),
		reconciler.Do("kubeconfig", r.kubeconfig),
		reconciler.Do("adopt machines", r.adopt),
		reconciler.Do("update machines in place", r.synchronise),
		reconciler.Do("inspect the workload cluster", r.inspect),
		reconciler.Do("remove etcd members without a machine", r.removeOrphans),
		reconciler.Do("prepare machines for termination", r.prepareTermination),
		reconciler.Do("renewed certificates", r.renewals),
		reconciler.Do("remediate", r.remediate),
		reconciler.Do("scale and roll out", r.scale),
		reconciler.Do("addons", r.addons),
		reconciler.Do("ends of certificates", r.expiries),
	}
}

// waitToBeTaken waits until the Cluster refers to the control plane: before, it may
// belong to another Cluster. The change of the Cluster triggers a reconcile.
func waitToBeTaken(_ context.Context, s *state) (reconciler.Next, error) {
	kcp := s.ControlPlane
	s.untaken = !owner.Has(kcp, clusterKind, s.Cluster.Name) || !reference.Names(s.Cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion().WithKind(kind), kcp.Name)
	if s.untaken {
		return reconciler.Wait(0), nil
	}
	return reconciler.Continue(), nil
}

// deletion returns the phases that end a control plane once nothing depends on it.
func (r *Reconciler) deletion(s *state) (all []reconciler.Phase[*state]) {
	if s.Cluster.UID != "" { // otherwise it was deleted
		all = append(all, reconciler.Do("own the infrastructure template", r.ownTemplate))
	}
	return append(all,
		reconciler.Do("wait for workers", r.waitForWorkers),
		reconciler.Do("delete machines", r.deleteMachines),
		reconciler.Do("release", release),
	)
}

// event emits an event for an action.
func (r *Reconciler) event(s *state, about client.Object, kind, reason, action, note string) {
	r.Recorder.Eventf(s.ControlPlane, about, kind, reason, action, "%s", note)
}
