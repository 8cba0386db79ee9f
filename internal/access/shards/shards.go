// SPDX-License-Identifier: Apache-2.0

// Package shards reads the part of a management cluster that decides what happens to
// one Cluster: the Cluster with all that belongs to it, and what it refers to.
package shards

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/index"
)

// PageSize is the number of objects that one request lists.
const PageSize = 500

// Reader reads a management cluster, past any cache. Its scheme has the kinds of
// Cluster API, of the local provider and of core/v1.
type Reader struct {
	Mgmt client.Client
}

// Shard is what decides about a Cluster.
type Shard struct {
	Cluster client.ObjectKey
	Objects []client.Object
	// Definitions are those of kinds that the scheme does not have, with the version
	// of Objects marked as the stored one.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// OfOthers is true if the management cluster serves no PlanGuards: its controllers
	// are not Capstan's.
	OfOthers bool
	// NoQuotas is true if the ResourceQuotas of the namespace may not be read.
	NoQuotas bool
}

// shardReader collects one shard.
type shardReader struct {
	Reader
	Shard
	names    map[string]bool // of the objects that were read
	missing  map[string]bool
	versions map[schema.GroupKind]schema.GroupVersionKind // of kinds that the scheme does not have
	listed   map[schema.GroupKind]bool
}

// owned are the kinds whose objects have the label of their Cluster.
func owned() []client.ObjectList {
	return []client.ObjectList{
		&clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{},
		&clusterv1.MachineHealthCheckList{}, &bootstrapv1.KubeadmConfigList{}, &bootstrapv1.KubeadmConfigTemplateList{}, &controlplanev1.KubeadmControlPlaneList{},
		&corev1.SecretList{},
	}
}

// Read reads the shard of a Cluster. It also has what with refers to, but not with
// itself: these are objects that a change writes.
func (r Reader) Read(ctx context.Context, cluster client.ObjectKey, with []client.Object) (*Shard, error) {
	s := &shardReader{
		Reader: r, Shard: Shard{Cluster: cluster}, names: map[string]bool{}, missing: map[string]bool{},
		versions: map[schema.GroupKind]schema.GroupVersionKind{}, listed: map[schema.GroupKind]bool{},
	}
	if err := s.read(ctx, with); err != nil {
		return nil, fmt.Errorf("read Cluster %s with all that belongs to it: %w", cluster, err)
	}
	return &s.Shard, nil
}

func (s *shardReader) read(ctx context.Context, with []client.Object) error {
	if err := s.get(ctx, &corev1.Namespace{}, client.ObjectKey{Name: s.Cluster.Namespace}); err != nil {
		return err
	}
	if err := s.get(ctx, &clusterv1.Cluster{}, s.Cluster); err != nil {
		return err
	}
	if err := s.list(ctx, &corev1.ResourceQuotaList{}); apierrors.IsForbidden(err) {
		s.NoQuotas = true
	} else if err != nil {
		return err
	}
	// A copy that lacks the guard of a Cluster that requires plans would create it.
	guard := &planv1.PlanGuard{}
	switch err := s.Mgmt.Get(ctx, s.Cluster, guard); {
	case meta.IsNoMatchError(err):
		s.OfOthers = true
	case err == nil:
		s.add(guard)
	case !apierrors.IsNotFound(err):
		return err
	}
	for _, list := range owned() {
		if err := s.list(ctx, list, client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster.Name}); err != nil {
			return err
		}
	}
	for _, purpose := range []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount, certs.Kubeconfig} {
		if err := s.get(ctx, &corev1.Secret{}, client.ObjectKey{Namespace: s.Cluster.Namespace, Name: certs.SecretName(s.Cluster.Name, purpose)}); err != nil {
			return err
		}
	}
	if err := s.extensions(ctx); err != nil {
		return err
	}
	for _, obj := range with {
		if err := s.follow(ctx, obj); err != nil {
			return err
		}
	}
	for i := 0; i < len(s.Objects); i++ { // which grows meanwhile
		if err := s.follow(ctx, s.Objects[i]); err != nil {
			return err
		}
	}
	return nil
}

// extensions reads the ExtensionConfigs that were discovered. Others are not called.
func (s *shardReader) extensions(ctx context.Context) error {
	var configs runtimev1.ExtensionConfigList
	if err := s.Mgmt.List(ctx, &configs); err != nil {
		return ignoreNotServed(err)
	}
	for i := range configs.Items {
		if len(configs.Items[i].Status.Handlers) > 0 {
			s.add(&configs.Items[i])
		}
	}
	return nil
}

// ignoreNotServed returns nil for a kind that the management cluster does not serve.
func ignoreNotServed(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// list adds the objects of a kind.
func (s *shardReader) list(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return ignoreNotServed(EachPage(ctx, s.Mgmt, list, func() error {
		items, err := meta.ExtractList(list)
		for _, item := range items {
			s.add(item.(client.Object))
		}
		return err
	}, append(opts, client.InNamespace(s.Cluster.Namespace))...))
}

// EachPage lists objects page by page, and calls add with each page in list. The items of
// a page stay valid: without new memory, JSON is decoded into that of the page before.
func EachPage(ctx context.Context, c client.Reader, list client.ObjectList, add func() error, opts ...client.ListOption) error {
	opts = append(opts, client.Limit(PageSize))
	for next := ""; ; {
		if err := meta.SetList(list, nil); err != nil {
			return err
		}
		if err := c.List(ctx, list, append(opts, client.Continue(next))...); err != nil {
			return err
		}
		if err := add(); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// get adds an object, unless it does not exist.
func (s *shardReader) get(ctx context.Context, obj client.Object, key client.ObjectKey) error {
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
	if id := s.id(obj); s.names[id] || s.missing[id] {
		return nil
	}
	if err := s.Mgmt.Get(ctx, key, obj); err != nil {
		s.missing[s.id(obj)] = true
		return ignoreNotServed(err)
	}
	s.add(obj)
	return nil
}

func (s *shardReader) add(obj client.Object) {
	if id := s.id(obj); !s.names[id] {
		s.names[id] = true
		s.Objects = append(s.Objects, obj)
	}
}

// id identifies an object among all.
func (s *shardReader) id(obj client.Object) string {
	gvk, _ := apiutil.GVKForObject(obj, s.Mgmt.Scheme())
	return gvk.GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
}

// follow reads what an object refers to, and for a kind of another provider all its
// objects of the Cluster.
func (s *shardReader) follow(ctx context.Context, obj client.Object) error {
	switch obj.(type) {
	case *corev1.Secret, *corev1.Namespace, *runtimev1.ExtensionConfig, *bootstrapv1.KubeadmConfig, *infrav1.LocalMachine:
		return nil // they refer to nothing that decides
	}
	refs, err := References(obj)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if ref.Namespace == "" {
			ref.Namespace = cmp.Or(obj.GetNamespace(), s.Cluster.Namespace)
		}
		if err := s.reference(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// Reference names an object that another one refers to.
type Reference struct {
	schema.GroupKind
	Namespace string // empty: that of the object that refers
	Name      string
}

// References returns what the spec of an object refers to: each part with a kind, a
// name and an API group, and the class of a topology.
func References(obj client.Object) (all []Reference, err error) {
	if c, is := obj.(*clusterv1.Cluster); is && c.Spec.Topology.IsDefined() {
		ref := c.Spec.Topology.ClassRef
		all = append(all, Reference{clusterv1.GroupVersion().WithKind("ClusterClass").GroupKind(), ref.Namespace, ref.Name})
	}
	of, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	walk(of["spec"], func(group, kind, name, namespace string) {
		all = append(all, Reference{schema.GroupKind{Group: group, Kind: kind}, namespace, name})
	})
	return all, nil
}

func walk(part any, found func(group, kind, name, namespace string)) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			walk(item, found)
		}
	case map[string]any:
		kind, _ := part["kind"].(string)
		name, _ := part["name"].(string)
		namespace, _ := part["namespace"].(string)
		group, _ := part["apiGroup"].(string)
		if version, _ := part["apiVersion"].(string); group == "" {
			group, _, _ = strings.Cut(version, "/")
		}
		if kind != "" && name != "" && strings.Contains(group, ".") {
			found(group, kind, name, namespace)
		}
		for _, value := range part {
			walk(value, found)
		}
	}
}

// reference adds the object of a reference.
func (s *shardReader) reference(ctx context.Context, ref Reference) error {
	gvk, err := s.kind(ctx, ref.GroupKind)
	if err != nil || gvk.Empty() {
		return err
	}
	// Infrastructure machines and the like are read by the label of their Cluster, all
	// at once.
	if !s.listed[ref.GroupKind] && !strings.HasSuffix(ref.Kind, "Class") {
		s.listed[ref.GroupKind] = true
		list, err := s.newList(gvk)
		if err != nil {
			return err
		}
		if err := s.list(ctx, list, client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster.Name}); err != nil {
			return err
		}
	}
	obj, err := s.newObject(gvk)
	if err != nil {
		return err
	}
	return s.get(ctx, obj, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
}

// kind returns the version of a kind in which its objects are read; empty if the kind
// is not served, or none of a provider.
func (s *shardReader) kind(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	for _, gvk := range s.Mgmt.Scheme().VersionsForGroupKind(gk) {
		if known := gvk.WithKind(gk.Kind); s.Mgmt.Scheme().Recognizes(known) {
			return known, nil
		}
	}
	if gvk, known := s.versions[gk]; known {
		return gvk, nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := s.Mgmt.Get(ctx, client.ObjectKey{Name: contract.CRDName(gk.Group, gk.Kind)}, crd)
	if apierrors.IsNotFound(err) {
		s.versions[gk] = schema.GroupVersionKind{}
		return schema.GroupVersionKind{}, nil
	}
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	_, version, err := contract.Choose(crd.Labels)
	if err != nil {
		s.versions[gk] = schema.GroupVersionKind{}
		return schema.GroupVersionKind{}, nil // of no provider
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
	}
	s.Definitions = append(s.Definitions, crd)
	s.versions[gk] = gk.WithVersion(version)
	return s.versions[gk], nil
}

func (s *shardReader) newObject(gvk schema.GroupVersionKind) (client.Object, error) {
	if !s.Mgmt.Scheme().Recognizes(gvk) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	obj, err := s.Mgmt.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return obj.(client.Object), nil
}

func (s *shardReader) newList(gvk schema.GroupVersionKind) (client.ObjectList, error) {
	gvk.Kind += "List"
	if !s.Mgmt.Scheme().Recognizes(gvk) {
		u := &unstructured.UnstructuredList{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	list, err := s.Mgmt.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}

// Reached returns the Clusters that objects decide about: those that they are or belong
// to, those of a class, and those that refer to a template.
func (r Reader) Reached(ctx context.Context, obj client.Object) ([]client.ObjectKey, error) {
	if name := ClusterOf(obj); name != "" {
		return []client.ObjectKey{{Namespace: obj.GetNamespace(), Name: name}}, nil
	}
	gvk, err := apiutil.GVKForObject(obj, r.Mgmt.Scheme())
	if err != nil {
		return nil, err
	}
	return r.referring(ctx, gvk.GroupKind(), client.ObjectKeyFromObject(obj))
}

// ClusterOf names the Cluster that an object is or belongs to; "" for what is shared.
func ClusterOf(obj client.Object) string {
	if c, is := obj.(*clusterv1.Cluster); is {
		return c.Name
	}
	if names := index.Of(obj); len(names) > 0 {
		return names[0]
	}
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return name
	}
	for _, ref := range obj.GetOwnerReferences() {
		if ref.Kind == "Cluster" && strings.HasPrefix(ref.APIVersion, clusterv1.GroupVersion().Group+"/") {
			return ref.Name
		}
	}
	return ""
}

// referring returns the Clusters whose objects, or whose class, refer to an object.
func (r Reader) referring(ctx context.Context, kind schema.GroupKind, key client.ObjectKey) (found []client.ObjectKey, err error) {
	seen := map[client.ObjectKey]bool{}
	add := func(keys ...client.ObjectKey) {
		for _, k := range keys {
			if !seen[k] {
				seen[k] = true
				found = append(found, k)
			}
		}
	}
	class := clusterv1.GroupVersion().WithKind("ClusterClass").GroupKind()
	var namespace []client.ListOption
	if kind != class { // a Cluster may use a class of another namespace
		namespace = append(namespace, client.InNamespace(key.Namespace))
	}
	lists := []client.ObjectList{&clusterv1.ClusterList{}}
	if kind != class {
		lists = append(lists, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachinePoolList{}, &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.ClusterClassList{})
	}
	for _, list := range lists {
		if err := r.Mgmt.List(ctx, list, namespace...); err != nil {
			if ignoreNotServed(err) == nil {
				continue
			}
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			refs, err := References(obj)
			for _, ref := range refs {
				if ref.Namespace == "" {
					ref.Namespace = obj.GetNamespace()
				}
				if ref.GroupKind != kind || ref.Namespace != key.Namespace || ref.Name != key.Name {
					continue
				}
				if name := ClusterOf(obj); name != "" {
					add(client.ObjectKey{Namespace: obj.GetNamespace(), Name: name})
				} else if _, is := obj.(*clusterv1.ClusterClass); is {
					of, err := r.referring(ctx, class, client.ObjectKeyFromObject(obj))
					if err != nil {
						return err
					}
					add(of...)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Kubeconfig returns the kubeconfig of the Cluster of a shard; nil if it has none.
func (s *Shard) Kubeconfig() *corev1.Secret {
	for _, obj := range s.Objects {
		if secret, is := obj.(*corev1.Secret); is && secret.Name == certs.SecretName(s.Cluster.Name, certs.Kubeconfig) {
			return secret
		}
	}
	return nil
}
