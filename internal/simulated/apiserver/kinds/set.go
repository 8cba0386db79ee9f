// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
)

// Set is what one cluster serves. It never changes.
type Set struct {
	every           *Set // what is served in addition; nil for that itself
	all             []*Kind
	byResource      map[schema.GroupVersionResource]*Kind
	byGroupResource map[schema.GroupResource]*Kind
	byKind          map[schema.GroupVersionKind]*Kind
}

// Everywhere is what every cluster serves.
func Everywhere() *Set { return everywhere }

// NewSet returns the set of all and of every, if that is not nil.
func NewSet(all []*Kind, every *Set) *Set {
	return &Set{
		every: every, all: all,
		byResource:      index(all, (*Kind).GVR),
		byGroupResource: index(all, (*Kind).GroupResource),
		byKind:          index(all, func(k *Kind) schema.GroupVersionKind { return k.GroupVersionKind }),
	}
}

// index finds the first of those that have the same key.
func index[K comparable](kinds []*Kind, key func(*Kind) K) map[K]*Kind {
	m := make(map[K]*Kind, len(kinds))
	for _, k := range kinds {
		if m[key(k)] == nil {
			m[key(k)] = k
		}
	}
	return m
}

// Defined is a definition that a cluster has.
type Defined struct {
	*crds.Definition
	crds.State
}

// With returns what a cluster serves that has a number of definitions.
func (s *Set) With(definitions []Defined) *Set {
	stored := map[schema.GroupResource]*Kind{}
	var served []*Kind
	for _, d := range definitions {
		if !d.Established {
			continue
		}
		at := slices.IndexFunc(d.Versions, func(v *crds.Version) bool { return v.Storage })
		if at < 0 {
			continue // not reached: it would not have been stored
		}
		for _, v := range d.Versions {
			k := ofVersion(d, v, d.Versions[at].Name)
			if v.Storage {
				stored[k.GroupResource()] = k
			}
			if v.Served {
				served = append(served, k)
			}
		}
	}
	slices.SortStableFunc(served, func(a, b *Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	made := NewSet(served, s)
	made.byGroupResource = stored
	return made
}

// ByResource finds a kind by the resource in a path; nil if it is not served.
func (s *Set) ByResource(gvr schema.GroupVersionResource) *Kind {
	if k := s.byResource[gvr]; k != nil || s.every == nil {
		return k
	}
	return s.every.ByResource(gvr)
}

// ByGroupResource finds the kind that objects of a resource are kept as; nil
// if there is none.
func (s *Set) ByGroupResource(gr schema.GroupResource) *Kind {
	if k := s.byGroupResource[gr]; k != nil || s.every == nil {
		return k
	}
	return s.every.ByGroupResource(gr)
}

// ByKind finds a kind by the apiVersion and kind of an object; nil if it is
// not served.
func (s *Set) ByKind(gvk schema.GroupVersionKind) *Kind {
	if k := s.byKind[gvk]; k != nil || s.every == nil {
		return k
	}
	return s.every.ByKind(gvk)
}

// All lists every kind, in the order of discovery.
func (s *Set) All() []*Kind {
	if s.every == nil {
		return s.all
	}
	return append(slices.Clone(s.every.All()), s.all...)
}
