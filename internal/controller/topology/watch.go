// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
)

// clusterMatters passes changes of the fields of a Cluster that are read. Its
// status changes all the time.
func clusterMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.Cluster) []any {
		return []any{
			c.Generation, c.Labels, c.Annotations, controllerutil.ContainsFinalizer(c, clusterv1.ClusterFinalizer), c.DeletionTimestamp.IsZero(),
			conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition), c.Status.Initialization,
		}
	})
}

// notJustCreated drops a Cluster that has just been created: it has no finalizer yet, and
// there is nothing to do before it has one.
func notJustCreated() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool {
		return controllerutil.ContainsFinalizer(e.Object, clusterv1.ClusterFinalizer)
	}}
}

// classMatters waits for the controller of classes: a spec that it has not
// reconciled cannot be used yet, and each of the Clusters would report that for a
// moment.
func classMatters() predicate.Predicate {
	return controller.Matters(func(c *clusterv1.ClusterClass) []any {
		return []any{
			c.Status.ObservedGeneration, c.Status.Variables, classes.Problems(c),
			conditions.IsTrue(c, clusterv1.ClusterClassVariablesReadyCondition), conditions.IsTrue(c, clusterv1.ClusterClassRefVersionsUpToDateCondition),
		}
	})
}

// ofOwned returns a request for the Cluster to whose topology an object belongs.
func ofOwned(_ context.Context, obj client.Object) []reconcile.Request {
	labels := obj.GetLabels()
	_, owned := labels[clusterv1.ClusterTopologyOwnedLabel]
	name := labels[clusterv1.ClusterNameLabel]
	if !owned || name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}}}
}

// written returns the fields of an object that the controller may revert.
func written(obj client.Object) []any {
	return []any{obj.GetGeneration(), obj.GetLabels(), obj.GetAnnotations(), obj.GetOwnerReferences(), obj.GetDeletionTimestamp().IsZero()}
}

func ownedMatters() predicate.Predicate { return controller.Matters(written) }

// poolMatters also passes changes of the Nodes of a pool, which have its versions.
func poolMatters() predicate.Predicate {
	return controller.Matters(func(p *clusterv1.MachinePool) []any { return append(written(p), p.Status.NodeRefs) })
}

// gone passes only the start and the end of a deletion.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofMachine returns a request for the Cluster of a Machine during an upgrade.
func (r *Reconciler) ofMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.duringUpgrade(ctx, client.ObjectKey{Namespace: obj.GetNamespace(), Name: obj.(*clusterv1.Machine).Spec.ClusterName})
}

func machineMatters() predicate.Predicate {
	return controller.Matters(func(m *clusterv1.Machine) []any {
		kubelet := ""
		if m.Status.NodeInfo != nil {
			kubelet = m.Status.NodeInfo.KubeletVersion
		}
		return []any{m.Spec.Version, kubelet}
	})
}

// ofNode returns a request for the Cluster of a Node, or of a connection, during an
// upgrade.
func (r *Reconciler) ofNode(ctx context.Context, cluster client.ObjectKey, _ client.Object) []reconcile.Request {
	return r.duringUpgrade(ctx, cluster)
}

func (r *Reconciler) duringUpgrade(ctx context.Context, key client.ObjectKey) []reconcile.Request {
	c := &clusterv1.Cluster{}
	if err := r.Mgmt.Get(ctx, key, c, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Finding the Cluster to reconcile")
		}
		return nil
	}
	if !c.Spec.Topology.IsDefined() || !underWay(c) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// ofExtension returns requests for the Clusters for which an extension may have
// another answer: those whose class uses it, and those that wait for a hook.
func (r *Reconciler) ofExtension(ctx context.Context, config string) []reconcile.Request {
	ours := func(handler string) bool { return strings.HasSuffix(handler, "."+config) }
	classes := map[client.ObjectKey]bool{}
	var list clusterv1.ClusterClassList
	if err := r.Mgmt.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the objects to reconcile")
	}
	for i := range list.Items {
		class := &list.Items[i]
		classes[client.ObjectKeyFromObject(class)] = ours(class.Spec.Upgrade.External.GenerateUpgradePlanExtension) ||
			slices.ContainsFunc(class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool {
				return p.External != nil && (ours(p.External.GeneratePatchesExtension) || ours(p.External.ValidateTopologyExtension))
			})
	}
	return controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterList{}, func(c *clusterv1.Cluster) bool {
		return c.Spec.Topology.IsDefined() && (classes[c.GetClassKey()] || !conditions.IsTrue(c, clusterv1.ClusterTopologyReconciledCondition))
	})
}

// watch starts a watch of a provider's kind: events map to the Clusters that refer
// to the object or, for templates and objects of a pool, to the Clusters for which
// they are sources or copies.
func (r *Reconciler) watch(ctx context.Context, kind schema.GroupVersionKind, s *state) error {
	w := provider.Trigger{Controller: Name, Watcher: r.watcher}
	gk := kind.GroupKind()
	switch {
	case gk == provider.CopyKind(s.blueprint.ControlPlane.Template.GroupVersionKind().GroupKind()):
		w.List, w.Matters = &clusterv1.ClusterList{}, planeMatters(s.contract)
	case gk == provider.CopyKind(s.blueprint.Infrastructure.GroupVersionKind().GroupKind()):
		w.List, w.Matters = &clusterv1.ClusterList{}, func(u *unstructured.Unstructured) []any { return written(u) }
	default:
		w.To, w.Matters = r.ofTemplate, func(u *unstructured.Unstructured) []any {
			return []any{u.GetGeneration(), u.GetLabels(), u.GetAnnotations(), u.GetDeletionTimestamp().IsZero()}
		}
	}
	return r.Providers.WatchAs(ctx, kind, w)
}

// planeMatters returns the fields of a control plane that are read: its versions,
// and the progress of their rollout.
func planeMatters(version string) func(*unstructured.Unstructured) []any {
	of, err := contract.ControlPlaneFor(version)
	return func(u *unstructured.Unstructured) []any {
		all := written(u)
		if err != nil {
			return append(all, u.GetResourceVersion()) // the reader reports the error
		}
		provisioning, _ := of.IsProvisioning(u)
		upgrading, _ := of.IsUpgrading(u)
		running, _, _ := of.StatusVersion.Get(u)
		return append(all, provisioning, upgrading, running)
	}
}

// ofTemplate returns requests for the Clusters of the classes that name a template,
// or for the one that created the copy.
func (r *Reconciler) ofTemplate(ctx context.Context, template client.Object) []reconcile.Request {
	if _, owned := template.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; owned {
		_, pool := template.GetLabels()[clusterv1.ClusterTopologyMachinePoolNameLabel]
		kind := template.GetObjectKind().GroupVersionKind().Kind
		if pool || strings.HasSuffix(kind, clusterv1.TemplateSuffix) {
			return ofOwned(ctx, template)
		}
		return nil
	}
	gk := template.GetObjectKind().GroupVersionKind().GroupKind()
	var out []reconcile.Request
	for _, found := range controller.ListedIf(ctx, r.Mgmt, &clusterv1.ClusterClassList{}, func(class *clusterv1.ClusterClass) bool {
		return slices.ContainsFunc(classrefs.All(class), func(t classrefs.Template) bool {
			return t.Ref.Name == template.GetName() && t.Ref.GroupVersionKind().GroupKind() == gk
		})
	}, client.InNamespace(template.GetNamespace())) {
		class := &clusterv1.ClusterClass{}
		class.Namespace, class.Name = found.Namespace, found.Name
		out = append(out, controller.OfClass(r.Mgmt)(ctx, class)...)
	}
	return out
}
