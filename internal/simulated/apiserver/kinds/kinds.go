// SPDX-License-Identifier: Apache-2.0

// Package kinds defines the resources that a simulated API server serves: their
// names, scopes and subresources, and the discovery documents that follow from
// them. Most are the same for every cluster; a Set adds those that one cluster's
// CustomResourceDefinitions define.
//
// Convert converts objects between the kinds as which they are served.
package kinds

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
)

// Scheme holds the Go types of the kinds that every cluster serves. It is filled at
// the first call: most programs that link this package never use it.
var Scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
})

// Kind is one served resource. Its fields are never changed.
type Kind struct {
	schema.GroupVersionKind
	Resource    string // plural, as in paths
	List        string // the kind of a list of it
	Namespaced  bool
	Short       []string
	Categories  []string
	Verbs       []string
	Status      bool // has a status subresource
	Scale       bool // has a scale subresource
	Generation  bool // metadata.generation counts changes of the spec
	Virtual     bool // answers a question when posted; nothing is stored
	Terminating bool // its definition is being deleted: nothing new is taken
	Subs        []Subresource
	StoredAs    schema.GroupVersionKind // what objects are kept as
	Custom      *crds.Version           // what defines it; nil if every cluster has it

	singular string
	stored   schema.GroupResource
}

// Subresource is served below an object, in addition to status and scale.
type Subresource struct {
	Name  string
	GVK   schema.GroupVersionKind
	Verbs []string
}

// versioned are the kinds, in addition to all that are defined, of which a
// replacement must name the version that it replaces.
var versioned = []string{
	"customresourcedefinitions", "apiservices", "leases", "poddisruptionbudgets", "runtimeclasses", "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
}

// Versioned reports whether a replacement must name the version it replaces.
func (k *Kind) Versioned() bool { return k.Custom != nil || slices.Contains(versioned, k.Resource) }

// GVR names the resource with its group and version.
func (k *Kind) GVR() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// GroupResource names the resource without its version, as errors do.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// Stored names the resource under which objects are kept: another one than
// its own if they are served as both.
func (k *Kind) Stored() schema.GroupResource { return k.stored }

// Singular is the name kubectl accepts for one object.
func (k *Kind) Singular() string { return k.singular }

// HasSub reports whether name is served below objects of this kind.
func (k *Kind) HasSub(name string) bool {
	switch name {
	case "":
		return true
	case "status":
		return k.Status
	case "scale":
		return k.Scale
	}
	for _, s := range k.Subs {
		if s.Name == name {
			return true
		}
	}
	return false
}

// New returns an empty typed object of the kind.
func (k *Kind) New() (runtime.Object, error) { return Scheme().New(k.GroupVersionKind) }

// ofVersion is the kind that a version of a definition defines.
func ofVersion(d Defined, v *crds.Version, stored string) *Kind {
	k := &Kind{
		GroupVersionKind: v.GVK(), Resource: d.Names.Plural, List: d.Names.ListKind, Namespaced: d.Namespaced,
		Short: d.Names.ShortNames, Categories: d.Names.Categories, Status: v.Status, Scale: v.Scale != nil,
		Generation: true, Terminating: d.Terminating, Custom: v, singular: d.Names.Singular, Verbs: definedVerbs,
	}
	if k.Terminating {
		k.Verbs = []string{"delete", "deletecollection", "get", "list", "watch"}
	}
	k.StoredAs = schema.GroupVersionKind{Group: d.Group, Version: stored, Kind: d.Names.Kind}
	k.stored = k.GroupResource()
	return k
}

var everywhere = NewSet(build(), nil)

// ByType finds the kind of a typed object; nil if it is not served.
func ByType(obj runtime.Object) *Kind {
	gvks, _, err := Scheme().ObjectKinds(obj)
	if err != nil || len(gvks) == 0 {
		return nil
	}
	return everywhere.byKind[gvks[0]]
}
