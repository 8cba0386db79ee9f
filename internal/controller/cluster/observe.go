// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// state has what one reconcile has read. observe and the phases fill it; report
// reads nothing else.
type state struct {
	cluster    *clusterv1.Cluster
	now        time.Time
	specBefore *clusterv1.ClusterSpec // as it was read
	health     workload.Health

	infra, controlPlane provider.Reference
	replicas            contract.Replicas         // of the control plane object
	versions            []clusterv1.StatusVersion // of the control plane object

	guard    *planv1.PlanGuard                   // nil if there is none
	gates    []clusterv1.ClusterAvailabilityGate // of the class
	members  clusterstatus.Members
	deletion clusterstatus.Stage
}

// observe reads the objects of the Cluster from the management cluster's cache.
func (r *Reconciler) observe(ctx context.Context, cluster *clusterv1.Cluster) (*state, error) {
	key := client.ObjectKeyFromObject(cluster)
	s := &state{cluster: cluster, now: r.Clock.Now(), specBefore: cluster.Spec.DeepCopy(), health: r.Workload.Health(key)}
	s.infra = provider.Reference{Ref: cluster.Spec.InfrastructureRef, Role: reference.ClusterInfrastructure, Field: "spec.infrastructureRef"}
	s.controlPlane = provider.Reference{Ref: cluster.Spec.ControlPlaneRef, Role: reference.ControlPlane, Field: "spec.controlPlaneRef"}
	var (
		deployments clusterv1.MachineDeploymentList
		sets        clusterv1.MachineSetList
		pools       clusterv1.MachinePoolList
		machines    clusterv1.MachineList
	)
	// They are only read, and shared with the cache: each change of a Machine
	// triggers a reconcile of its Cluster, which would copy all of them each time.
	for _, list := range []client.ObjectList{&deployments, &sets, &pools, &machines} {
		if err := r.Mgmt.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{index.ClusterName: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list what belongs to Cluster %s: %w", key, err)
		}
	}
	s.members = clusterstatus.Sort(deployments.Items, sets.Items, pools.Items, machines.Items)
	if err := r.readGuard(ctx, s); err != nil {
		return nil, err
	}
	return s, r.readClass(ctx, s)
}

// readClass reads the availability gates in the class of a Cluster. A class that is
// not found adds none. A deletion needs none.
func (r *Reconciler) readClass(ctx context.Context, s *state) error {
	if !s.cluster.Spec.Topology.IsDefined() || !s.cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	class := &clusterv1.ClusterClass{}
	if err := r.Mgmt.Get(ctx, s.cluster.GetClassKey(), class, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ClusterClass %s: %w", s.cluster.GetClassKey(), err)
	}
	s.gates = class.Spec.AvailabilityGates
	return nil
}

func (r *Reconciler) look(ctx context.Context, s *state, ref *provider.Reference) error {
	return r.Providers.Look(ctx, s.cluster.Namespace, ref, provider.Trigger{Controller: name, Watcher: r.watcher, List: &clusterv1.ClusterList{}})
}

// refs returns the references of a Cluster.
func refs(o client.Object) []clusterv1.ContractVersionedObjectReference {
	c := o.(*clusterv1.Cluster)
	return []clusterv1.ContractVersionedObjectReference{c.Spec.InfrastructureRef, c.Spec.ControlPlaneRef}
}

// ofDescendant returns a request for the Cluster of a Machine, or of an owner of
// Machines.
func ofDescendant(_ context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, cluster := range index.Of(obj) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: cluster}})
	}
	return out
}

// ofGuard returns a request for the Cluster of a PlanGuard.
func ofGuard(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

// classMatters passes changes of the fields of a class that a Cluster reads.
func classMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.ClusterClass) []any { return []any{c.Spec.AvailabilityGates} })
}

// ofConnection returns a request for the Cluster whose connection changed.
func ofConnection(_ context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: cluster}}
}
