// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// ofMachine returns a request for the config of a Machine. A deleted control plane
// Machine may leave the init lock behind, for which others wait.
func (r *Reconciler) ofMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	m := obj.(*clusterv1.Machine)
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	if controlPlane && !m.DeletionTimestamp.IsZero() {
		return r.unfinished(ctx, m.Namespace, m.Spec.ClusterName)
	}
	return controller.Referred(m.Namespace, m.Spec.Bootstrap.ConfigRef, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
}

func ofMachinePool(_ context.Context, obj client.Object) []reconcile.Request {
	return controller.Referred(obj.GetNamespace(), obj.(*clusterv1.MachinePool).Spec.Template.Spec.Bootstrap.ConfigRef, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
}

// ofCluster returns requests for all configs of a Cluster, because a pause affects
// all of them, and their conditions report it.
func (r *Reconciler) ofCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	return controller.Listed(ctx, r.Mgmt, &bootstrapv1.KubeadmConfigList{}, client.InNamespace(obj.GetNamespace()), client.MatchingFields{index.ClusterLabel: obj.GetName()})
}

func (r *Reconciler) ofCertificates(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.unfinished(ctx, obj.GetNamespace(), obj.GetLabels()[clusterv1.ClusterNameLabel])
}

func (r *Reconciler) ofLock(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.unfinished(ctx, obj.GetNamespace(), obj.GetLabels()[clusterv1.ClusterNameLabel])
}

func (r *Reconciler) ofConnection(ctx context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return r.unfinished(ctx, cluster.Namespace, cluster.Name)
}

// unfinished returns requests for the configs of a Cluster that have no data yet.
func (r *Reconciler) unfinished(ctx context.Context, namespace, cluster string) []reconcile.Request {
	return controller.ListedIf(ctx, r.Mgmt, &bootstrapv1.KubeadmConfigList{}, func(c *bootstrapv1.KubeadmConfig) bool {
		return !ptr.Deref(c.Status.Initialization.DataSecretCreated, false)
	}, client.InNamespace(namespace), client.MatchingFields{index.ClusterLabel: cluster})
}

// machineMatters passes changes of the fields of a Machine that its config reads.
func machineMatters() predicate.Predicate {
	return controller.Matters(func(m *clusterv1.Machine) []any { return []any{m.Status.NodeRef, m.Spec.Version, m.Spec.Bootstrap} })
}

func poolMatters() predicate.Predicate {
	return controller.Matters(func(p *clusterv1.MachinePool) []any { return []any{len(p.Status.NodeRefs), p.Spec.Template} })
}

// clusterMatters passes the changes of a Cluster for which configs wait.
func clusterMatters() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*clusterv1.Cluster), e.ObjectNew.(*clusterv1.Cluster)
			return ptr.Deref(was.Spec.Paused, false) != ptr.Deref(is.Spec.Paused, false) ||
				was.Spec.ControlPlaneEndpoint != is.Spec.ControlPlaneEndpoint ||
				ptr.Deref(was.Status.Initialization.InfrastructureProvisioned, false) != ptr.Deref(is.Status.Initialization.InfrastructureProvisioned, false) ||
				ptr.Deref(was.Status.Initialization.ControlPlaneInitialized, false) != ptr.Deref(is.Status.Initialization.ControlPlaneInitialized, false)
		},
	}
}

// certificatesMatter passes Secrets with certificates of a Cluster.
func certificatesMatter() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]
		all := []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount, certs.APIServerEtcdClient}
		return slices.ContainsFunc(all, func(p certs.Purpose) bool { return obj.GetName() == certs.SecretName(cluster, p) })
	})
}

// lockMatters passes the end of an init lock.
func lockMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(e event.DeleteEvent) bool { return bootstrapdata.IsLock(e.Object.GetName()) },
	}
}
