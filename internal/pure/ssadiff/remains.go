// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// After returns the result of applying the intent to a live object: the parts that the
// intent can change, with defaults. Only the effects of webhooks are not included. The
// entries of other managers are read as if they had the intent's version.
func (in *Intent) After(live map[string]any, v Comparison) (map[string]any, error) {
	after, err := in.after(live, v)
	if err != nil {
		return nil, fmt.Errorf("apply the intent to a live %s: %w", in.of.gvk.Kind, err)
	}
	out, _ := after.AsValue().Unstructured().(map[string]any)
	in.of.shape.fillIn(out)
	return out, nil
}

// SpecUnchanged reports whether an apply of the intent leaves the spec of a live object
// unchanged. A default that the object does not have yet is not a difference.
func (in *Intent) SpecUnchanged(live map[string]any) (bool, error) {
	v := in.Against(live, nil)
	if !v.Changed() {
		return true, nil
	}
	after, err := in.After(live, v)
	if err != nil {
		return false, err
	}
	have := runtime.DeepCopyJSON(in.shared(live))
	in.of.shape.fillIn(have)
	return value.Equals(value.NewValueInterface(after["spec"]), value.NewValueInterface(have["spec"])), nil
}

// after merges the intent and removes fields that were only in its previous entry, as
// the server does: fields that any manager owns are restored, and fields that no manager
// owned stay.
func (in *Intent) after(live map[string]any, v Comparison) (*typed.TypedValue, error) {
	have, err := in.read(live)
	if err != nil {
		return nil, err
	}
	merged, err := have.Merge(in.typed)
	if err != nil || v.Owned == nil || v.Owned.Empty() {
		return merged, err
	}
	held := in.widen(in.Fields)
	for _, e := range entries(live) {
		if in.ours(e) {
			continue
		}
		set, err := decode(e)
		if err != nil {
			return nil, fmt.Errorf("managedFields of %v: %w", e["manager"], err)
		}
		held = held.Union(in.widen(set))
	}
	all, err := merged.ToFieldSet()
	if err != nil {
		return nil, err
	}
	all = in.widen(all)
	last := in.widen(v.Owned)
	left, err := in.fields(merged.RemoveItems(last))
	if err != nil {
		return nil, err
	}
	if left, err = in.fields(merged.RemoveItems(all.Difference(left.Union(held)))); err != nil {
		return nil, err
	}
	return merged.RemoveItems(all.Difference(left).Intersection(last)), nil
}

func (in *Intent) fields(of *typed.TypedValue) (*Fields, error) {
	set, err := of.ToFieldSet()
	if err != nil {
		return nil, err
	}
	return in.widen(set), nil
}

// widen adds to a set the struct fields on the path to its members.
func (in *Intent) widen(s *Fields) *Fields {
	return s.EnsureNamedFieldsAreMembers(in.of.typed.Schema, in.of.typed.TypeRef)
}

// Remainder is a field that the intent releases and that stays nevertheless.
type Remainder struct {
	Path fieldpath.Path
	By   string // its other owner: manager and operation
}

// Remains lists, sorted, the fields released by the apply for v that stay in the
// live object because other managers own them. A field of a struct is owned by the owner
// of anything below it; an item of a list or map only by the owner of the item itself. A
// field that is restored by its default is not included.
func (in *Intent) Remains(live map[string]any, v Comparison) ([]Remainder, error) {
	if v.Removed == nil || v.Removed.Empty() {
		return nil, nil
	}
	after, err := in.after(live, v)
	if err != nil {
		return nil, fmt.Errorf("apply the intent to a live %s: %w", in.of.gvk.Kind, err)
	}
	left, err := in.fields(after)
	if err != nil {
		return nil, err
	}
	var out []Remainder
	for _, e := range entries(live) {
		if in.ours(e) {
			continue
		}
		set, err := decode(e)
		if err != nil {
			return nil, fmt.Errorf("read managedFields of %v: %w", e["manager"], err)
		}
		by := fmt.Sprintf("%v/%v", e["manager"], e["operation"])
		v.Removed.Leaves().Iterate(func(p fieldpath.Path) {
			if names(left, p) && names(set, p) {
				out = append(out, Remainder{p.Copy(), by})
			}
		})
	}
	slices.SortFunc(out, func(a, b Remainder) int {
		return cmp.Or(a.Path.Compare(b.Path), cmp.Compare(a.By, b.By))
	})
	return out, nil
}

// names reports whether a set contains a field, or anything below it.
func names(set *Fields, p fieldpath.Path) bool {
	if set.Has(p) {
		return true
	}
	for _, element := range p {
		set = set.WithPrefix(element)
	}
	return !set.Empty()
}
