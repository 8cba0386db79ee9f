// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// state is what one reconcile knows. observe and the phases fill it; report
// reads nothing else.
type state struct {
	cluster    *clusterv1.Cluster
	now        time.Time
	specBefore *clusterv1.ClusterSpec // as it was read
	health     workload.Health

	infra, controlPlane reference
	counters            contract.Replicas         // of the control plane object
	versions            []clusterv1.StatusVersion // of the control plane object

	deployments []*clusterv1.MachineDeployment
	sets        []*clusterv1.MachineSet // standalone ones
	pools       []*clusterv1.MachinePool
	controllers []*clusterv1.Machine // of the control plane
	workers     []*clusterv1.Machine
	allSets     int // standalone or not

	stage stage // of the deletion
}

// reference is an object that the Cluster refers to.
type reference struct {
	ref     clusterv1.ContractVersionedObjectReference
	obj     *provider.Object // nil: not there, or not looked for
	missing bool             // looked for, and not there
	err     error            // why it could not be read
}

// String names the object for messages.
func (r reference) String() string { return r.ref.Kind + " " + r.ref.Name }

// failed keeps why the object cannot be used, for the report. nil is kept too.
func (r *reference) failed(err error) error {
	r.err = err
	return err
}

// observe reads what belongs to the Cluster from the management cluster's cache.
func (r *Reconciler) observe(ctx context.Context, cluster *clusterv1.Cluster) (*state, error) {
	key := client.ObjectKeyFromObject(cluster)
	s := &state{cluster: cluster, now: r.Clock.Now(), specBefore: cluster.Spec.DeepCopy(), health: r.Workload.Health(key)}
	s.infra.ref, s.controlPlane.ref = cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef
	var (
		deployments clusterv1.MachineDeploymentList
		sets        clusterv1.MachineSetList
		pools       clusterv1.MachinePoolList
		machines    clusterv1.MachineList
	)
	for _, list := range []client.ObjectList{&deployments, &sets, &pools, &machines} {
		if err := r.Mgmt.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{index.ClusterName: key.Name}); err != nil {
			return nil, fmt.Errorf("list what belongs to Cluster %s: %w", key, err)
		}
	}
	for i := range deployments.Items {
		s.deployments = append(s.deployments, &deployments.Items[i])
	}
	s.allSets = len(sets.Items)
	for i := range sets.Items {
		if metav1.GetControllerOfNoCopy(&sets.Items[i]) == nil {
			s.sets = append(s.sets, &sets.Items[i])
		}
	}
	for i := range pools.Items {
		s.pools = append(s.pools, &pools.Items[i])
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; ok {
			s.controllers = append(s.controllers, m)
		} else {
			s.workers = append(s.workers, m)
		}
	}
	return s, nil
}

// look reads the object that a reference names and starts to watch its kind.
// That it is not there, or that its kind cannot be used, is kept in the
// reference; only the latter is an error too.
func (r *Reconciler) look(ctx context.Context, s *state, ref *reference, field string) error {
	err := r.Providers.Watch(ctx, ref.ref, provider.Wake{Controller: name, Watcher: r.watcher, List: &clusterv1.ClusterList{}})
	if err == nil {
		ref.obj, err = r.Providers.Get(ctx, s.cluster.Namespace, ref.ref)
	}
	if apierrors.IsNotFound(err) {
		ref.missing, ref.obj = true, nil
		return nil
	}
	if err != nil {
		ref.err = fmt.Errorf("%s: %w", field, err)
	}
	return ref.err
}

// refs lists what a Cluster refers to.
func refs(o client.Object) []clusterv1.ContractVersionedObjectReference {
	c := o.(*clusterv1.Cluster)
	return []clusterv1.ContractVersionedObjectReference{c.Spec.InfrastructureRef, c.Spec.ControlPlaneRef}
}

// ofDescendant names the Cluster of a Machine, or of what holds Machines.
func ofDescendant(_ context.Context, obj client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, cluster := range index.Of(obj) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: cluster}})
	}
	return out
}

// ofConnection names the Cluster whose connection changed.
func ofConnection(_ context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: cluster}}
}
