// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// Finder finds the Clusters that the objects of a change decide about. It lists each kind of
// a namespace once, however many objects the change has.
type Finder struct {
	mgmt    client.Client
	read    map[string]error          // what was read, and why it was not
	users   map[Reference][]Reference // Clusters and classes, by what they or their objects refer to
	objects map[string][]client.Object
}

// NewFinder returns a Finder of a management cluster.
func NewFinder(mgmt client.Client) *Finder {
	return &Finder{mgmt, map[string]error{}, map[Reference][]Reference{}, map[string][]client.Object{}}
}

// Reached returns the Clusters that an object decides about: the one that it is or belongs
// to, those of a class, those that refer to a template, and those to which
// ClusterResourceSets apply it. Some can be in it several times.
func (f *Finder) Reached(ctx context.Context, obj client.Object) ([]client.ObjectKey, error) {
	if name := ClusterOf(obj); name != "" {
		return []client.ObjectKey{{Namespace: obj.GetNamespace(), Name: name}}, nil
	}
	gvk, err := apiutil.GVKForObject(obj, f.mgmt.Scheme())
	if err != nil || obj.GetNamespace() == "" { // nothing refers to what belongs to no namespace
		return nil, err
	}
	switch obj.(type) {
	case *addonsv1.ClusterResourceSet, *corev1.Secret, *corev1.ConfigMap:
		return f.selected(ctx, obj, gvk.Kind)
	}
	return f.referring(ctx, Reference{gvk.GroupKind(), obj.GetNamespace(), obj.GetName()})
}

// once lists kinds in a namespace, unless that was done before. What is not served has no
// objects.
func (f *Finder) once(ctx context.Context, what, namespace string, add func(client.Object) error, lists ...client.ObjectList) error {
	what += " in " + namespace
	if err, known := f.read[what]; known {
		return err
	}
	for _, list := range lists {
		f.read[what] = ignoreNotServed(EachPage(ctx, f.mgmt, list, func() error {
			return meta.EachListItem(list, func(item runtime.Object) error { return add(item.(client.Object)) })
		}, client.InNamespace(namespace)))
		if f.read[what] != nil {
			break
		}
	}
	return f.read[what]
}

var clusterKind, classKind = clusterv1.GroupVersion().WithKind("Cluster").GroupKind(), clusterv1.GroupVersion().WithKind("ClusterClass").GroupKind()

// referring returns the Clusters whose objects, or whose class, refer to an object.
func (f *Finder) referring(ctx context.Context, to Reference) (found []client.ObjectKey, err error) {
	namespace, lists := to.Namespace, []client.ObjectList{&clusterv1.ClusterList{}}
	if to.GroupKind == classKind {
		namespace = "" // a Cluster may use a class of another namespace
	} else {
		lists = append(lists, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachinePoolList{}, &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.ClusterClassList{})
	}
	if err := f.once(ctx, "references", namespace, f.use, lists...); err != nil {
		return nil, err
	}
	for _, by := range f.users[to] {
		of := []client.ObjectKey{{Namespace: by.Namespace, Name: by.Name}}
		if by.GroupKind == classKind {
			if of, err = f.referring(ctx, by); err != nil {
				return nil, err
			}
		}
		found = append(found, of...)
	}
	return found, nil
}

// use notes what an object refers to.
func (f *Finder) use(obj client.Object) error {
	by := Reference{clusterKind, obj.GetNamespace(), ClusterOf(obj)}
	if _, is := obj.(*clusterv1.ClusterClass); is {
		by = Reference{classKind, obj.GetNamespace(), obj.GetName()}
	}
	refs, err := References(obj)
	for _, ref := range refs {
		if ref.Namespace == "" {
			ref.Namespace = by.Namespace
		}
		if by.Name != "" && !slices.Contains(f.users[ref], by) {
			f.users[ref] = append(f.users[ref], by)
		}
	}
	return err
}

// selected returns the Clusters that a ClusterResourceSet selects, or to which some apply a
// Secret or ConfigMap.
func (f *Finder) selected(ctx context.Context, obj client.Object, kind string) (found []client.ObjectKey, err error) {
	sets := []client.Object{obj}
	if kind != "ClusterResourceSet" {
		if sets, err = f.listed(ctx, &addonsv1.ClusterResourceSetList{}, obj.GetNamespace()); err != nil {
			return nil, err
		}
		ref := addonsv1.ResourceRef{Kind: addonsv1.ClusterResourceSetResourceKind(kind), Name: obj.GetName()}
		sets = slices.DeleteFunc(slices.Clone(sets), func(set client.Object) bool {
			return !slices.Contains(set.(*addonsv1.ClusterResourceSet).Spec.Resources, ref)
		})
	}
	if len(sets) == 0 {
		return nil, nil
	}
	clusters, err := f.listed(ctx, &clusterv1.ClusterList{}, obj.GetNamespace())
	for _, c := range clusters {
		if slices.ContainsFunc(sets, func(set client.Object) bool {
			return resourceset.Selects(set.(*addonsv1.ClusterResourceSet), c.(*clusterv1.Cluster))
		}) {
			found = append(found, client.ObjectKeyFromObject(c))
		}
	}
	return found, err
}

// listed are the objects of a kind in a namespace.
func (f *Finder) listed(ctx context.Context, list client.ObjectList, namespace string) ([]client.Object, error) {
	kind := fmt.Sprintf("%T", list)
	err := f.once(ctx, kind, namespace, func(obj client.Object) error {
		f.objects[kind+namespace] = append(f.objects[kind+namespace], obj)
		return nil
	}, list)
	return f.objects[kind+namespace], err
}
