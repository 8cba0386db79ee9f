// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
)

// ownerKind is the kind that owns a LocalCluster, localKind the kind of a
// LocalCluster.
var (
	ownerKind = clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind).GroupKind()
	localKind = infrav1.GroupVersion().WithKind("LocalCluster")
)

// Identity is the index field by which LocalClusters that represent the same
// infrastructure can be listed.
const Identity = "spec.identity"

// OfIdentity returns the identity of a LocalCluster that has one.
func OfIdentity(obj client.Object) []string {
	if id := obj.(*infrav1.LocalCluster).Spec.Identity; id != "" {
		return []string{id}
	}
	return nil
}

// state has what one reconcile has read.
type state struct {
	local   *infrav1.LocalCluster
	cluster *clusterv1.Cluster // that owns it; nil if none does, or if it was deleted
	now     time.Time
	before  *infrav1.LocalClusterSpec // as it was read
	first   string                    // the LocalCluster that has its identity; empty if that is this one
	waiting string                    // the change that the reconcile waits for; empty if none
	refused error                     // why the endpoint in the spec is not available
}

// observe reads the Cluster that owns the LocalCluster. It returns no state for a
// LocalCluster that waits for a Cluster to own it, or that is externally managed.
func (r *Reconciler) observe(ctx context.Context, lc *infrav1.LocalCluster) (*state, error) {
	if _, external := lc.Annotations[clusterv1.ManagedByAnnotation]; external {
		return nil, nil
	}
	s := &state{local: lc, now: r.Clock.Now(), before: lc.Spec.DeepCopy()}
	if name := owner.Name(lc, ownerKind); name != "" {
		var err error
		if s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, lc.Namespace, name); err != nil {
			return nil, err
		}
	}
	if s.cluster == nil && lc.DeletionTimestamp.IsZero() {
		ctrl.LoggerFrom(ctx).V(2).Info("Waiting for the Cluster controller to set the owner of the LocalCluster")
		return nil, nil
	}
	var err error
	s.first, err = r.first(ctx, lc)
	return s, err
}

// first returns the name of the LocalCluster of which this one is a copy with the
// same identity; empty if this one is not a copy.
func (r *Reconciler) first(ctx context.Context, lc *infrav1.LocalCluster) (string, error) {
	if lc.Spec.Identity == "" {
		return "", nil
	}
	var same infrav1.LocalClusterList
	if err := r.Mgmt.List(ctx, &same, client.MatchingFields{Identity: lc.Spec.Identity}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list LocalClusters of identity %s: %w", lc.Spec.Identity, err)
	}
	return localstatus.First(lc, same.Items), nil
}

// copies returns requests for the LocalClusters that have the same identity.
func (r *Reconciler) copies(ctx context.Context, obj client.Object) []reconcile.Request {
	id := obj.(*infrav1.LocalCluster).Spec.Identity
	if id == "" {
		return nil
	}
	return controller.Listed(ctx, r.Mgmt, &infrav1.LocalClusterList{}, client.MatchingFields{Identity: id})
}

// gone passes only deletions.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// key returns the name of the cluster for the backend: that of the Cluster that
// owns it, or that its label still names.
func (s *state) key() types.NamespacedName {
	name := cmp.Or(owner.Name(s.local, ownerKind), s.local.Labels[clusterv1.ClusterNameLabel])
	return types.NamespacedName{Namespace: s.local.Namespace, Name: name}
}

// ofCluster returns a request for the LocalCluster to which a Cluster refers.
func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	return controller.Referred(obj.GetNamespace(), obj.(*clusterv1.Cluster).Spec.InfrastructureRef, localKind)
}

// clusterMatters drops the changes of a Cluster that do not affect its
// LocalCluster.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{ptr.Deref(c.Spec.Paused, false), c.Spec.InfrastructureRef}
	})
}
