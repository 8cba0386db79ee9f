// SPDX-License-Identifier: Apache-2.0

// Package kinds says which resources a simulated API server serves: their
// names, scopes and subresources, and the discovery documents that follow
// from them. It is the same for every cluster, and never changes.
package kinds

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Kind is one served resource. Its fields are never changed.
type Kind struct {
	schema.GroupVersionKind
	Resource   string // plural, as in paths
	Namespaced bool
	Short      []string
	Categories []string
	Status     bool // has a status subresource
	Scale      bool // has a scale subresource
	Generation bool // metadata.generation counts changes of the spec
	Virtual    bool // answers a question when posted; nothing is stored
	Subs       []Subresource
}

// Subresource is served below an object, beside status and scale.
type Subresource struct {
	Name  string
	GVK   schema.GroupVersionKind
	Verbs []string
}

// GVR names the resource with its group and version.
func (k *Kind) GVR() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// GroupResource names the resource without its version, as errors do.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// Singular is the name kubectl accepts for one object.
func (k *Kind) Singular() string { return strings.ToLower(k.Kind) }

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
func (k *Kind) New() (runtime.Object, error) { return scheme.Scheme.New(k.GroupVersionKind) }

// ByResource finds a kind by the resource in a path; nil if it is not served.
func ByResource(gvr schema.GroupVersionResource) *Kind { return byResource[gvr] }

// ByGroupResource finds a kind whatever its version; nil if it is not served.
func ByGroupResource(gr schema.GroupResource) *Kind { return byGroupResource[gr] }

// ByKind finds a kind by the apiVersion and kind of an object; nil if it is
// not served.
func ByKind(gvk schema.GroupVersionKind) *Kind { return byKind[gvk] }

// All lists every kind, in the order of discovery.
func All() []*Kind { return all }

var (
	all             = build()
	byResource      = index(all, (*Kind).GVR)
	byGroupResource = index(all, (*Kind).GroupResource)
	byKind          = index(all, func(k *Kind) schema.GroupVersionKind { return k.GroupVersionKind })
)

func index[K comparable](kinds []*Kind, key func(*Kind) K) map[K]*Kind {
	m := make(map[K]*Kind, len(kinds))
	for _, k := range kinds {
		m[key(k)] = k
	}
	return m
}

// ByType finds the kind of a typed object; nil if it is not served.
func ByType(obj runtime.Object) *Kind {
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil || len(gvks) == 0 {
		return nil
	}
	return byKind[gvks[0]]
}
