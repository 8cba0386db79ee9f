// SPDX-License-Identifier: Apache-2.0

// Package owner reads and sets owner references, and the label that names the
// Cluster.
package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Cluster returns the Cluster that obj belongs to by its cluster-name label.
// Without the label, or when the Cluster does not exist, it returns nil, nil.
func Cluster(ctx context.Context, c client.Reader, obj client.Object) (*clusterv1.Cluster, error) {
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil, nil
	}
	return ClusterByName(ctx, c, obj.GetNamespace(), name)
}

// ClusterByName returns the named Cluster, or nil, nil when it does not exist.
func ClusterByName(ctx context.Context, c client.Reader, namespace, name string) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Cluster %s/%s: %w", namespace, name, err)
	}
	if err != nil {
		return nil, nil
	}
	return cluster, nil
}

// Reference returns a reference to owner without the controller mark. The kind
// of a typed owner is looked up in the scheme.
func Reference(owner client.Object, scheme schemer) (metav1.OwnerReference, error) {
	gvk, err := apiutil.GVKForObject(owner, scheme.Scheme())
	if err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("kind of owner %s: %w", client.ObjectKeyFromObject(owner), err)
	}
	return metav1.OwnerReference{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Name:       owner.GetName(),
		UID:        owner.GetUID(),
	}, nil
}

// Controller returns a reference to owner as the controller, blocking its
// foreground deletion.
func Controller(owner client.Object, scheme schemer) (metav1.OwnerReference, error) {
	ref, err := Reference(owner, scheme)
	ref.Controller, ref.BlockOwnerDeletion = new(true), new(true)
	return ref, err
}

// Set adds or refreshes a reference on obj and reports whether it changed
// anything. References are matched by group, kind and name, so that an owner
// created again (or moved to another management cluster) replaces its old self.
func Set(obj metav1.Object, ref metav1.OwnerReference) bool {
	refs := obj.GetOwnerReferences()
	i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return Same(r, ref) })
	if i < 0 {
		obj.SetOwnerReferences(append(slices.Clone(refs), ref))
		return true
	}
	if equal(refs[i], ref) {
		return false
	}
	refs = slices.Clone(refs)
	refs[i] = ref
	obj.SetOwnerReferences(refs)
	return true
}

// Heal sets the version and the UID of obj's reference to an owner to those of the
// owner now, and reports whether it had others.
func Heal(obj metav1.Object, now metav1.OwnerReference) bool {
	i := slices.IndexFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return Same(r, now) })
	if i < 0 {
		return false
	}
	healed := obj.GetOwnerReferences()[i]
	healed.APIVersion, healed.UID = now.APIVersion, now.UID
	return Set(obj, healed)
}

// HealAll is Heal for objects, which stay as they are here, at the API server.
func HealAll[T client.Object](ctx context.Context, c client.Client, objs []T, now metav1.OwnerReference) error {
	var errs []error
	for _, obj := range objs {
		// Most references are current: the check does not copy the object.
		if !Heal(&metav1.ObjectMeta{OwnerReferences: obj.GetOwnerReferences()}, now) {
			continue
		}
		healed := obj.DeepCopyObject().(T)
		Heal(healed, now)
		if err := c.Patch(ctx, healed, client.MergeFromWithOptions(obj, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("update the reference of %s to its owner %s %s: %w", client.ObjectKeyFromObject(obj), now.Kind, now.Name, err))
		}
	}
	return errors.Join(errs...)
}

// RemoveFunc removes the references that match and reports whether there was one.
func RemoveFunc(obj metav1.Object, match func(metav1.OwnerReference) bool) bool {
	refs := obj.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(refs), match)
	if len(kept) == len(refs) {
		return false
	}
	obj.SetOwnerReferences(kept)
	return true
}

// Has reports whether obj has a reference to an owner of that group, kind and name,
// with any version and UID.
func Has(obj metav1.Object, gk schema.GroupKind, name string) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.Name == name && groupKind(r) == gk
	})
}

// Name returns the name of the owner of obj of that group and kind, with any
// version and UID, or nothing.
func Name(obj metav1.Object, gk schema.GroupKind) string {
	for _, r := range obj.GetOwnerReferences() {
		if groupKind(r) == gk {
			return r.Name
		}
	}
	return ""
}

// OfCluster returns a reference to a Cluster without the controller mark.
func OfCluster(c *clusterv1.Cluster) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion().String(), Kind: clusterv1.ClusterKind, Name: c.Name, UID: c.UID}
}

// Label sets the cluster-name label of obj and reports whether it was another.
func Label(obj metav1.Object, cluster string) bool {
	if obj.GetLabels()[clusterv1.ClusterNameLabel] == cluster {
		return false
	}
	labels := map[string]string{}
	maps.Copy(labels, obj.GetLabels())
	labels[clusterv1.ClusterNameLabel] = cluster
	obj.SetLabels(labels)
	return true
}

// Selector returns what selects the objects that an owner adopts. An empty one
// would adopt all there are, and so selects nothing.
func Selector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("read spec.selector: %w", err)
	}
	if selector.Empty() {
		return labels.Nothing(), nil
	}
	return selector, nil
}

// Divide returns the items that the owner with that UID controls, and those without
// a controller that are not being deleted.
func Divide[T any, P interface {
	*T
	metav1.Object
}](items []T, uid types.UID) (mine, orphans []P) {
	for i := range items {
		obj := P(&items[i])
		switch by := metav1.GetControllerOfNoCopy(obj); {
		case by != nil && by.UID == uid:
			mine = append(mine, obj)
		case by == nil && obj.GetDeletionTimestamp().IsZero():
			orphans = append(orphans, obj)
		}
	}
	return mine, orphans
}

// schemer has the kinds of typed objects; a client.Client is one.
type schemer interface{ Scheme() *runtime.Scheme }

// Same reports whether two references are to one owner by group, kind and name,
// with any version and UID.
func Same(a, b metav1.OwnerReference) bool {
	return a.Name == b.Name && groupKind(a) == groupKind(b)
}

func equal(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.UID == b.UID && ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false) &&
		ptr.Deref(a.BlockOwnerDeletion, false) == ptr.Deref(b.BlockOwnerDeletion, false)
}

func groupKind(r metav1.OwnerReference) schema.GroupKind {
	gv, _ := schema.ParseGroupVersion(r.APIVersion) // a broken version matches nothing
	return schema.GroupKind{Group: gv.Group, Kind: r.Kind}
}
