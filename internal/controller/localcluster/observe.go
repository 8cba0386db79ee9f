// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
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

// ownerKind is what owns a LocalCluster, localKind what it refers to.
var (
	ownerKind = clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind).GroupKind()
	localKind = infrav1.GroupVersion().WithKind("LocalCluster")
)

// Identity is the field by which LocalClusters can be listed that stand for the
// same infrastructure.
const Identity = "spec.identity"

// OfIdentity returns the identity of a LocalCluster that has one.
func OfIdentity(obj client.Object) []string {
	if id := obj.(*infrav1.LocalCluster).Spec.Identity; id != "" {
		return []string{id}
	}
	return nil
}

// state is what one reconcile knows.
type state struct {
	local   *infrav1.LocalCluster
	cluster *clusterv1.Cluster // that owns it; nil if none does, or if it has gone
	now     time.Time
	before  *infrav1.LocalClusterSpec // as it was read
	first   string                    // the LocalCluster that has its identity; empty if that is this one
	waiting string                    // what has to change first; empty if nothing has
	refused error                     // why the endpoint that the spec asks for cannot be
}

// observe reads which Cluster owns the LocalCluster. One that lives waits for a
// Cluster to take it, and one that is managed externally is nothing to us: they
// have no state.
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

// first names the LocalCluster that has the identity of one that is a copy; empty
// if it is none.
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

// copies names the LocalClusters that have the identity of one.
func (r *Reconciler) copies(ctx context.Context, obj client.Object) []reconcile.Request {
	id := obj.(*infrav1.LocalCluster).Spec.Identity
	if id == "" {
		return nil
	}
	return controller.Listed(ctx, r.Mgmt, &infrav1.LocalClusterList{}, client.MatchingFields{Identity: id})
}

// gone passes what is not there any more.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// key names the cluster to the infrastructure: as the Cluster that owns it, or
// that its label still names.
func (s *state) key() types.NamespacedName {
	name := owner.Name(s.local, ownerKind)
	if name == "" {
		name = s.local.Labels[clusterv1.ClusterNameLabel]
	}
	return types.NamespacedName{Namespace: s.local.Namespace, Name: name}
}

// ofCluster names the LocalCluster that a Cluster refers to.
func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	return controller.Referred(obj.GetNamespace(), obj.(*clusterv1.Cluster).Spec.InfrastructureRef, localKind)
}

// clusterMatters drops the changes of a Cluster that its LocalCluster does not
// care for.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{ptr.Deref(c.Spec.Paused, false), c.Spec.InfrastructureRef}
	})
}
