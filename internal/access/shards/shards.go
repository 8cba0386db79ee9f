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

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
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
	// Unread are sentences about what may not be read.
	Unread []string
}

// shardReader collects one shard.
type shardReader struct {
	Reader
	Shard
	seen     map[string]bool                              // names of objects that were read, or that do not exist
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
		Reader: r, Shard: Shard{Cluster: cluster}, seen: map[string]bool{},
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
		s.Unread = append(s.Unread, "ResourceQuotas may not be read: none is assumed to limit what is created")
	} else if err != nil {
		return err
	}
	// A copy that lacks the guard of a Cluster that requires plans would create it.
	guard := &planv1.PlanGuard{}
	switch err := s.Mgmt.Get(ctx, s.Cluster, guard); {
	case meta.IsNoMatchError(err):
		s.OfOthers = true
	case err == nil:
		s.Objects = append(s.Objects, guard)
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
	if err := s.resourceSets(ctx, with); err != nil {
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
	err := s.Mgmt.List(ctx, &configs)
	for i := range configs.Items {
		if len(configs.Items[i].Status.Handlers) > 0 {
			s.Objects = append(s.Objects, &configs.Items[i])
		}
	}
	return ignoreNotServed(err)
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
			if obj := item.(client.Object); s.isNew(obj) {
				s.Objects = append(s.Objects, obj)
			}
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
	if !s.isNew(obj) {
		return nil
	}
	if err := s.Mgmt.Get(ctx, key, obj); err != nil {
		return ignoreNotServed(err)
	}
	s.Objects = append(s.Objects, obj)
	return nil
}

// isNew reports whether an object was not seen before.
func (s *shardReader) isNew(obj client.Object) bool {
	gvk, _ := apiutil.GVKForObject(obj, s.Mgmt.Scheme())
	id := gvk.GroupKind().String() + " " + obj.GetNamespace() + "/" + obj.GetName()
	seen := s.seen[id]
	s.seen[id] = true
	return !seen
}

// follow reads what an object refers to, and for a kind of another provider all its
// objects of the Cluster.
func (s *shardReader) follow(ctx context.Context, obj client.Object) error {
	switch obj.(type) {
	case *corev1.Secret, *corev1.ConfigMap, *corev1.Namespace, *runtimev1.ExtensionConfig, *bootstrapv1.KubeadmConfig, *infrav1.LocalMachine:
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
	return append(all, references(of["spec"])...), nil
}

func references(part any) (all []Reference) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			all = append(all, references(item)...)
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
			all = append(all, Reference{schema.GroupKind{Group: group, Kind: kind}, namespace, name})
		}
		for _, value := range part {
			all = append(all, references(value)...)
		}
	}
	return all
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
		list := s.create(gvk.GroupVersion().WithKind(gvk.Kind + "List")).(client.ObjectList)
		if err := s.list(ctx, list, client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster.Name}); err != nil {
			return err
		}
	}
	return s.get(ctx, s.create(gvk).(client.Object), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
}

// kind returns the version of a kind in which its objects are read; empty if the kind
// is not served, or none of a provider.
func (s *shardReader) kind(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error) {
	if known := s.Mgmt.Scheme().VersionsForGroupKind(gk); len(known) > 0 {
		return known[0].WithKind(gk.Kind), nil
	}
	if gvk, known := s.versions[gk]; known {
		return gvk, nil
	}
	s.versions[gk] = schema.GroupVersionKind{}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := s.Mgmt.Get(ctx, client.ObjectKey{Name: contract.CRDName(gk.Group, gk.Kind)}, crd); err != nil {
		return schema.GroupVersionKind{}, client.IgnoreNotFound(err)
	}
	_, version, err := contract.Choose(crd.Labels)
	if err != nil {
		return schema.GroupVersionKind{}, nil // of no provider
	}
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == version
	}
	s.Definitions = append(s.Definitions, crd)
	s.versions[gk] = gk.WithVersion(version)
	return s.versions[gk], nil
}

// create returns an empty object or list of a kind.
func (s *shardReader) create(gvk schema.GroupVersionKind) runtime.Object {
	if obj, err := s.Mgmt.Scheme().New(gvk); err == nil {
		return obj
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if strings.HasSuffix(gvk.Kind, "List") {
		return &unstructured.UnstructuredList{Object: u.Object}
	}
	return u
}

// ClusterOf names the Cluster that an object is or belongs to; "" for what is shared.
func ClusterOf(obj client.Object) string {
	switch o := obj.(type) {
	case *clusterv1.Cluster:
		return o.Name
	case *addonsv1.ClusterResourceSetBinding:
		return o.Spec.ClusterName
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

// Kubeconfig returns the kubeconfig of the Cluster of a shard; nil if it has none.
func (s *Shard) Kubeconfig() *corev1.Secret {
	for _, obj := range s.Objects {
		if secret, is := obj.(*corev1.Secret); is && secret.Name == certs.SecretName(s.Cluster.Name, certs.Kubeconfig) {
			return secret
		}
	}
	return nil
}
