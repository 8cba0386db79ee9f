// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

const kind = "KubeadmControlPlane"

// soon is how long a change that only the messages of this status repeat is
// delayed, to be joined with others: a machine that is starting changes its
// messages often.
const soon = 2 * time.Second

// templates returns the references of a control plane.
func templates(obj client.Object) []clusterv1.ContractVersionedObjectReference {
	kcp, ok := obj.(*controlplanev1.KubeadmControlPlane)
	if !ok {
		return nil
	}
	return []clusterv1.ContractVersionedObjectReference{kcp.Spec.MachineTemplate.Spec.InfrastructureRef}
}

// ofCluster returns a request for the control plane to which a Cluster refers.
func ofCluster(_ context.Context, obj client.Object) []reconcile.Request {
	cluster, ok := obj.(*clusterv1.Cluster)
	if !ok {
		return nil
	}
	return requestFor(cluster)
}

func requestFor(cluster *clusterv1.Cluster) []reconcile.Request {
	return controller.Referred(cluster.Namespace, cluster.Spec.ControlPlaneRef, controlplanev1.GroupVersion().WithKind(kind))
}

// clusterMatters passes changes of the fields of a Cluster that a control plane
// reads.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{c.Spec.Paused, c.Spec.ControlPlaneEndpoint, c.Spec.ControlPlaneRef, c.Spec.Topology.Version, c.Annotations[clusterv1.ClusterTopologyUpgradeStepAnnotation],
			c.Status.Initialization.InfrastructureProvisioned, c.Status.FailureDomains, c.DeletionTimestamp.IsZero()}
	})
}

// ofWorker returns a request for the control plane of the cluster of a Secret, or of a
// worker, for which its deletion waits, and which may outlive the Cluster that refers
// to it.
func (r *Reconciler) ofWorker(ctx context.Context, obj client.Object) []reconcile.Request {
	cluster, err := owner.Cluster(ctx, r.Mgmt, obj)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the control plane to reconcile")
	}
	if cluster == nil {
		label := client.MatchingLabels{clusterv1.ClusterNameLabel: obj.GetLabels()[clusterv1.ClusterNameLabel]}
		return controller.Listed(ctx, r.Mgmt, &controlplanev1.KubeadmControlPlaneList{}, client.InNamespace(obj.GetNamespace()), label)
	}
	return requestFor(cluster)
}

// broughtByUsers passes objects without a controlling owner: users may have provided,
// repaired or removed certificates or the kubeconfig.
func broughtByUsers() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return metav1.GetControllerOfNoCopy(obj) == nil })
}

// workerGone passes deletions of MachinePools, and of Machines of which no owner is
// notified, because they have none.
func workerGone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return isControlPlane(e.Object) && metav1.GetControllerOfNoCopy(e.Object) == nil
		},
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		DeleteFunc:  func(e event.DeleteEvent) bool { return !isControlPlane(e.Object) },
	}
}

func isControlPlane(obj client.Object) bool {
	_, ok := obj.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}

// machines triggers a reconcile of the owner of a machine: immediately for fields
// that decisions depend on, a little later for those that only messages repeat.
func (r *Reconciler) machines(mgr ctrl.Manager) source.Source {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(m *clusterv1.Machine, add func(reconcile.Request)) {
		for _, request := range controller.Controlled(m, controlplanev1.GroupVersion().WithKind(kind).GroupKind()) {
			add(request)
		}
	}
	return source.Kind(mgr.GetCache(), &clusterv1.Machine{}, handler.TypedFuncs[*clusterv1.Machine, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*clusterv1.Machine], q queue) { wake(e.Object, q.Add) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*clusterv1.Machine], q queue) { wake(e.Object, q.Add) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*clusterv1.Machine], q queue) {
			switch {
			case e.ObjectOld.ResourceVersion == e.ObjectNew.ResourceVersion:
			case equality.Semantic.DeepEqual(decisive(e.ObjectOld), decisive(e.ObjectNew)):
				wake(e.ObjectNew, func(req reconcile.Request) { q.AddAfter(req, soon) })
			default:
				wake(e.ObjectNew, q.Add)
			}
		},
	})
}

// decisive returns the fields of a machine that decisions depend on.
func decisive(m *clusterv1.Machine) []any {
	spec := m.Spec
	spec.ProviderID, spec.Bootstrap = "", clusterv1.Bootstrap{}
	return []any{
		m.Labels, m.Annotations, m.OwnerReferences, m.DeletionTimestamp.IsZero(), spec,
		m.Status.NodeRef, m.Status.CertificatesExpiryDate, m.Status.NodeInfo != nil,
		conditions.IsTrue(m, clusterv1.MachineReadyCondition),
		conditions.IsTrue(m, clusterv1.MachineAvailableCondition),
		conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition),
		conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition),
		conditions.Reason(m, clusterv1.MachineDeletingCondition),
		conditions.Reason(m, clusterv1.MachineUpdatingCondition),
	}
}

// ofWorkload returns a request for the control plane of a workload cluster that had
// an event, or whose connection changed.
func (r *Reconciler) ofWorkload(ctx context.Context, key client.ObjectKey, _ client.Object) []reconcile.Request {
	cluster, err := owner.ClusterByName(ctx, r.Mgmt, key.Namespace, key.Name)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Finding the control plane to reconcile")
	}
	if cluster == nil {
		return nil
	}
	return requestFor(cluster)
}

// ofNode drops the Nodes of workers, which other controllers handle.
func (r *Reconciler) ofNode(ctx context.Context, key client.ObjectKey, obj client.Object) []reconcile.Request {
	if _, ok := obj.GetLabels()["node-role.kubernetes.io/control-plane"]; !ok {
		return nil
	}
	return r.ofWorkload(ctx, key, obj)
}

var _ workload.ToRequests = (*Reconciler)(nil).ofNode
