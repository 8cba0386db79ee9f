// SPDX-License-Identifier: Apache-2.0

package intent

import (
	"cmp"
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Remainder is a field that the intent lets go and that stays nevertheless.
type Remainder struct {
	Path fieldpath.Path
	By   string // who holds it: manager and operation
}

// Remains lists, sorted, which of the fields that the apply of a verdict lets go
// stay in the live object because others hold them.
//
// A field of a struct has no owner of its own, and is held by whoever owns
// anything below. An item of a list or map is held only by whoever owns the item
// itself: otherwise it goes, and with it what others own below. A field with a
// default that goes comes back with it; that is no remainder.
func (in *Intent) Remains(live map[string]any, v Verdict) ([]Remainder, error) {
	if v.Removed == nil || v.Removed.Empty() {
		return nil, nil
	}
	others, held := map[string]*Fields{}, in.widen(in.Fields)
	for _, e := range entries(live) {
		if in.ours(e) {
			continue
		}
		set, err := decode(e)
		if err != nil {
			return nil, fmt.Errorf("read managedFields of %v: %w", e["manager"], err)
		}
		set = in.widen(set)
		others[fmt.Sprintf("%v/%v", e["manager"], e["operation"])] = set
		held = held.Union(set)
	}
	var out []Remainder
	last := in.widen(v.Owned)
	v.Removed.Leaves().Iterate(func(p fieldpath.Path) {
		if replaced(in.object, p) {
			return
		}
		for n := 1; n <= len(p); n++ {
			if q := p[:n]; last.Has(q) && !held.Has(q) {
				return // this level goes, and all that is below
			}
		}
		for by, set := range others {
			if Names(set, p) {
				out = append(out, Remainder{p.Copy(), by})
			}
		}
	})
	slices.SortFunc(out, func(a, b Remainder) int {
		return cmp.Or(a.Path.Compare(b.Path), cmp.Compare(a.By, b.By))
	})
	return out, nil
}

// replaced reports whether a wanted value has another form than a path that
// passes through it, so that all that lies below is replaced, whoever owns it.
func replaced(value any, p fieldpath.Path) bool {
	for _, element := range p {
		if element.FieldName == nil {
			_, list := value.([]any)
			return !list // what becomes of an item is told by who owns it
		}
		fields, ok := value.(map[string]any)
		if !ok {
			return true
		}
		if value, ok = fields[*element.FieldName]; !ok {
			return false
		}
	}
	return false
}

// widen adds to a set the fields of structs that lie on the way to its members.
func (in *Intent) widen(s *Fields) *Fields {
	return s.EnsureNamedFieldsAreMembers(in.of.typed.Schema, in.of.typed.TypeRef)
}

// Names reports whether a set has a field, or anything below it.
func Names(set *Fields, p fieldpath.Path) bool {
	if set.Has(p) {
		return true
	}
	for _, element := range p {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}
