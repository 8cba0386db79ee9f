// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// found is the content of a source.
type found struct {
	kinds   map[schema.GroupKind]plan.Kind
	objects []*unstructured.Unstructured
	byUID   map[types.UID]*unstructured.Unstructured
	// clusters are those of all namespaces, if there are classes.
	clusters []*unstructured.Unstructured
}

// readKinds reads which kinds may move: those of definitions that clusterctl has
// installed, at the version in which they are stored, ConfigMaps and Secrets.
func readKinds(ctx context.Context, p Plane) (map[schema.GroupKind]plan.Kind, error) {
	crds, err := p.List(ctx, definitions, "", clusterctlv1.ClusterctlLabel)
	if err != nil {
		return nil, err
	}
	all := map[schema.GroupKind]plan.Kind{configMaps.GroupKind(): configMaps, secrets.GroupKind(): secrets}
	for _, crd := range crds {
		k := plan.KindOf(crd)
		all[k.GroupKind()] = k
	}
	return all, nil
}

// place is a kind in a namespace, or in the whole cluster.
type place struct {
	kind      plan.Kind
	namespace string
}

// readPlaces lists the objects of some places concurrently. It leaves out objects that a
// move itself created, and duplicates.
func readPlaces(ctx context.Context, p Plane, places []place, parallel int) ([]*unstructured.Unstructured, error) {
	lists := make([][]*unstructured.Unstructured, len(places))
	err := each(ctx, parallel, len(places), func(ctx context.Context, n int) (err error) {
		lists[n], err = p.List(ctx, places[n].kind, places[n].namespace)
		if missing(err) {
			return &missingKindError{p.String(), places[n].kind}
		}
		return err
	})
	all := slices.Concat(lists...)
	return slices.DeleteFunc(all, func(obj *unstructured.Unstructured) bool {
		kind := obj.GroupVersionKind().GroupKind()
		return kind == configMaps.GroupKind() && obj.GetName() == JournalName || kind == secrets.GroupKind() && obj.GetName() == replacedName
	}), err
}

// missing reports whether a server does not serve a kind.
func missing(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// missingKindError means that a server does not serve a kind.
type missingKindError struct {
	plane string
	kind  plan.Kind
}

func (e *missingKindError) Error() string {
	return fmt.Sprintf("%s does not know %s at version %s of %s: install the provider whose kind that is there", e.plane, e.kind.Kind, e.kind.Version, e.kind.Group)
}

// discover reads everything that may move.
func discover(ctx context.Context, p Plane, namespace string, parallel int) (*found, error) {
	kinds, err := readKinds(ctx, p)
	if err != nil {
		return nil, err
	}
	if _, ok := kinds[plan.Clusters()]; !ok {
		return nil, fmt.Errorf("%s has no CustomResourceDefinition of Clusters with the label %s: is this a management cluster, and is it installed by clusterctl or Capstan?", p, clusterctlv1.ClusterctlLabel)
	}
	f := &found{kinds: kinds, byUID: map[types.UID]*unstructured.Unstructured{}}
	var places []place
	for _, k := range slices.SortedFunc(maps.Values(kinds), func(a, b plan.Kind) int { return strings.Compare(a.String(), b.String()) }) {
		in := namespace
		if !k.Namespaced {
			in = ""
		}
		places = append(places, place{k, in})
	}
	installed, err := p.List(ctx, providers, "")
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, in := range infrastructure(installed, namespace) {
		places = append(places, place{secrets, in})
	}
	if f.objects, err = readPlaces(ctx, p, places, parallel); err != nil {
		return nil, err
	}
	if err := f.readClasses(ctx, p, namespace, parallel); err != nil {
		return nil, err
	}
	for _, obj := range f.objects {
		f.byUID[obj.GetUID()] = obj
	}
	return f, nil
}

// infrastructure returns the namespaces of infrastructure providers, except the given
// one.
func infrastructure(installed []*unstructured.Unstructured, but string) (all []string) {
	for _, p := range installed {
		if p.Object["type"] == string(clusterctlv1.InfrastructureProviderType) && p.GetNamespace() != but {
			all = append(all, p.GetNamespace())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readClasses reads the classes that Clusters use in other namespaces, with their
// templates, and the Clusters that use the classes of this one.
func (f *found) readClasses(ctx context.Context, p Plane, namespace string, parallel int) error {
	wanted, used := map[types.NamespacedName]bool{}, false
	for _, obj := range f.objects {
		kind := obj.GroupVersionKind().GroupKind()
		if class := plan.ClassOf(obj); kind == plan.Clusters() && class.Name != "" {
			used = true
			wanted[class] = class.Namespace != namespace
		}
		used = used || kind == plan.ClusterClasses()
	}
	if !used {
		return nil
	}
	var places []place
	for _, in := range slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for class, elsewhere := range wanted {
			if elsewhere && !yield(class.Namespace) {
				return
			}
		}
	})) {
		for _, k := range f.kinds {
			if k.Namespaced && (k.GroupKind() == plan.ClusterClasses() || strings.HasSuffix(k.Kind, "Template")) {
				places = append(places, place{k, in})
			}
		}
	}
	others, err := readPlaces(ctx, p, places, parallel)
	if err != nil {
		return err
	}
	classes := map[types.UID]bool{}
	for _, obj := range others {
		if obj.GroupVersionKind().GroupKind() == plan.ClusterClasses() && wanted[types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}] {
			classes[obj.GetUID()] = true
			f.objects = append(f.objects, obj)
		}
	}
	for _, obj := range others {
		for _, ref := range obj.GetOwnerReferences() {
			if classes[ref.UID] {
				f.objects = append(f.objects, obj)
				break
			}
		}
	}
	f.clusters, err = p.List(ctx, f.kinds[plan.Clusters()], "")
	return err
}

// plan decides which of the objects move.
func (f *found) plan(namespace string) (*plan.Plan, error) {
	return plan.Make(plan.Input{Namespace: namespace, Kinds: f.kinds, Objects: f.objects, Clusters: f.clusters, CertificateOf: certs.IsOf})
}

// readProviders reads the inventory of a management cluster.
func readProviders(ctx context.Context, p Plane) (all []plan.Provider, err error) {
	list, err := p.List(ctx, providers, "")
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, obj := range list {
		text := func(field string) string { s, _ := obj.Object[field].(string); return s }
		all = append(all, plan.Provider{Name: text("providerName"), Type: text("type"), Version: text("version")})
	}
	return all, nil
}

// each calls f for the numbers below n, with the given parallelism. It returns the first
// error, after which no further calls start.
func each(ctx context.Context, parallel, n int, f func(context.Context, int) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := 0; i < n && running.Err() == nil; i++ {
		group.Go(func() error { return f(running, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
