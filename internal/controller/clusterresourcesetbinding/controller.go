// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

const (
	name = "clusterresourcesetbinding"

	// workers is the number of clusters that are handled concurrently. A worker
	// mostly waits for an API server, which may be slow.
	workers = 64
)

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Payloads *resourcesets.Store

	controller.Memory[*progress]

	defined sync.Map // keys of Clusters in which kinds were defined since the last pass
}

// Setup registers the controller and its watches.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if err := r.Check("clusterresourcesetbinding"); err != nil {
		return err
	}
	if r.Payloads == nil {
		return errors.New("clusterresourcesetbinding: Payloads are required")
	}
	b := controller.For(mgr, name, &addonsv1.ClusterResourceSetBinding{}).
		Watches(&clusterv1.Cluster{}, ofCluster, clusterMatters()).
		Watches(&addonsv1.ClusterResourceSet{}, r.ofSet, setMatters()).
		WatchesSource(r.Workload.Source(nil, ofConnection)).
		WatchesSource(r.Workload.Source(&metav1.PartialObjectMetadata{}, r.ofKinds)).
		Concurrency(workers)
	for _, src := range r.Payloads.Sources(r.ofPayload) {
		b.WatchesSource(src)
	}
	return b.Complete(r)
}

// Forget drops the cached data of a deleted binding.
func (r *Reconciler) Forget(key client.ObjectKey) {
	r.defined.Delete(key)
	r.Memory.Forget(key)
}

// state has what one reconcile has read.
type state struct {
	binding  *addonsv1.ClusterResourceSetBinding
	cluster  *clusterv1.Cluster
	sets     []addonsv1.ClusterResourceSet // of the namespace; of the cache, not to be changed
	workload client.Client                 // nil while nothing can be applied
	waiting  string                        // why
	progress *progress

	began    time.Time
	down     bool                         // the workload cluster has ceased to answer
	retry    time.Time                    // when to connect again
	more     bool                         // the time limit ended the pass
	applied  []string                     // what was applied in this pass and not before
	failures []resourceset.Failure        // what was not applied
	fresh    []string                     // of these, what is not reported yet
	errs     []error                      // of the management cluster
	before   map[resourceset.Failure]bool // failures that are already reported
}

// Reconcile implements reconcile.ObjectReconciler. A binding has no conditions, and
// needs no work on deletion: hence no Flow.
func (r *Reconciler) Reconcile(ctx context.Context, b *addonsv1.ClusterResourceSetBinding) (ctrl.Result, error) {
	if !b.DeletionTimestamp.IsZero() || pause.Requested(nil, b) {
		return ctrl.Result{}, nil
	}
	cluster, err := owner.ClusterByName(ctx, r.Mgmt, b.Namespace, b.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if cluster == nil || !cluster.DeletionTimestamp.IsZero() || b.Spec.ClusterName != cluster.Name {
		return ctrl.Result{}, r.delete(ctx, b)
	}
	s := &state{binding: b, cluster: cluster, began: r.Clock.Now(), before: map[resourceset.Failure]bool{}}
	var sets addonsv1.ClusterResourceSetList
	if err := r.Mgmt.List(ctx, &sets, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list ClusterResourceSets: %w", err)
	}
	s.sets = sets.Items
	if pause.Requested(cluster, b) {
		return ctrl.Result{}, r.release(ctx, s)
	}
	entries := resourceset.Entries(cluster, s.sets, b.Spec.Bindings)
	if len(entries) == 0 {
		return ctrl.Result{}, r.delete(ctx, b)
	}
	for _, f := range resourceset.Failures(b) {
		s.before[f] = true
	}
	commit := patch.Snapshot(r.Mgmt, b)
	b.Spec.Bindings = entries
	s.errs = append(s.errs, r.setOwners(s), r.connect(ctx, s))
	r.applyAll(ctx, s)
	resourceset.SetFailures(b, s.failures)
	if s.workload != nil && s.progress.awaits() {
		r.Workload.AwaitKinds(client.ObjectKeyFromObject(cluster))
	}
	res := ctrl.Result{RequeueAfter: s.progress.next(s, r.Clock.Now())}
	r.recordEvents(s)
	return res, errors.Join(append(s.errs, commit(ctx))...)
}

// release drops the entries of ClusterResourceSets that are being deleted. That is
// the only change to the binding of a paused Cluster, which may be in a move: the
// target has a copy.
func (r *Reconciler) release(ctx context.Context, s *state) error {
	commit, before := patch.Snapshot(r.Mgmt, s.binding), len(s.binding.Spec.Bindings)
	s.binding.Spec.Bindings = slices.DeleteFunc(s.binding.Spec.Bindings, func(e addonsv1.ResourceSetBinding) bool {
		i := slices.IndexFunc(s.sets, func(set addonsv1.ClusterResourceSet) bool { return set.Name == e.ClusterResourceSetName })
		return i >= 0 && !s.sets[i].DeletionTimestamp.IsZero()
	})
	switch len(s.binding.Spec.Bindings) {
	case before:
		return nil
	case 0:
		return r.delete(ctx, s.binding)
	}
	return commit(ctx)
}

// delete deletes a binding that is no longer needed, unless it has changed
// meanwhile.
func (r *Reconciler) delete(ctx context.Context, b *addonsv1.ClusterResourceSetBinding) error {
	ctrl.LoggerFrom(ctx).Info("Deleting ClusterResourceSetBinding", "reason", "no ClusterResourceSet selects its Cluster")
	err := r.Mgmt.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterResourceSetBinding: %w", err)
	}
	return nil
}

// setOwners makes exactly those ClusterResourceSets owners of the binding that have
// an entry in it.
func (r *Reconciler) setOwners(s *state) error {
	kind := addonsv1.GroupVersion().WithKind("ClusterResourceSet").GroupKind()
	owner.RemoveFunc(s.binding, func(ref metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		return err == nil && gv.WithKind(ref.Kind).GroupKind() == kind && resourceset.Entry(s.binding.Spec.Bindings, ref.Name) == nil
	})
	for i := range s.sets {
		if resourceset.Entry(s.binding.Spec.Bindings, s.sets[i].Name) == nil {
			continue
		}
		ref, err := owner.Reference(&s.sets[i], r.Mgmt)
		if err != nil {
			return err
		}
		owner.Set(s.binding, ref)
	}
	return nil
}

// connect determines whether anything can be applied, and gets the client for it.
func (r *Reconciler) connect(ctx context.Context, s *state) error {
	if s.progress = r.Get(s.binding); s.progress == nil {
		s.progress = &progress{}
		r.Set(s.binding, s.progress)
	}
	var err error
	s.workload, err = r.Workload.Client(ctx, client.ObjectKeyFromObject(s.cluster))
	if errors.Is(err, workload.ErrNotConnected) {
		s.waiting = "the Cluster is not connected"
		return nil // the connection triggers a reconcile
	}
	if err == nil {
		_, defined := r.defined.LoadAndDelete(client.ObjectKeyFromObject(s.cluster))
		s.progress.begin(defined)
	}
	return err
}
