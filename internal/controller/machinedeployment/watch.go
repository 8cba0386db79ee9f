// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// ofCluster returns requests for the deployments of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &clusterv1.MachineDeploymentList{}, client.InNamespace(cluster.GetNamespace()), client.MatchingFields{index.ClusterName: cluster.GetName()})
}

// ofOrphan returns requests for the deployments that would adopt a MachineSet.
func (r *Reconciler) ofOrphan(ctx context.Context, obj client.Object) []reconcile.Request {
	set := obj.(*clusterv1.MachineSet)
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.MachineDeploymentList{}, func(md *clusterv1.MachineDeployment) bool {
		selector, err := owner.Selector(&md.Spec.Selector)
		return err == nil && selector.Matches(labels.Set(set.Labels))
	}, client.InNamespace(set.Namespace), client.MatchingFields{index.ClusterName: set.Spec.ClusterName})
}

// clusterMatters passes the changes of a Cluster that a deployment reads: its
// existence, and whether it is paused.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any { return []any{ptr.Deref(c.Spec.Paused, false)} })
}
