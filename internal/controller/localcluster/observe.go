// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// ownerKind is what owns a LocalCluster, localKind what it refers to.
var (
	ownerKind = clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind).GroupKind()
	localKind = infrav1.GroupVersion().WithKind("LocalCluster")
)

// state is what one reconcile knows.
type state struct {
	local   *infrav1.LocalCluster
	cluster *clusterv1.Cluster // that owns it; nil if none does, or if it has gone
	now     time.Time
	waiting string // what has to change first; empty if nothing has
	failed  error  // what the reconcile ended with
}

func (r *Reconciler) observe(ctx context.Context, lc *infrav1.LocalCluster) (*state, error) {
	s := &state{local: lc, now: r.Clock.Now()}
	var err error
	if name := owner.Name(lc, ownerKind); name != "" {
		s.cluster, err = owner.ClusterByName(ctx, r.Mgmt, lc.Namespace, name)
	}
	return s, err
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
