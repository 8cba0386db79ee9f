// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// seed is what an entry names that is there for the sake of being one.
const seed = `{"f:metadata":{"f:name":{}}}`

// withoutUnserved takes the entries away that are of no served version. It is pure.
//
// Of those in which our controllers keep what they have put on an object, the
// labels and annotations stay, at the version at which objects are stored: metadata
// is the same in all versions. If no entry is left, one of the first manager is put
// there, since a server gives all fields of an object without any to a manager of
// its own at the next apply.
func withoutUnserved(entries []metav1.ManagedFieldsEntry, served []string, stored string) (kept []metav1.ManagedFieldsEntry, changed bool, err error) {
	var gone []metav1.ManagedFieldsEntry
	for _, e := range entries {
		if slices.Contains(served, e.APIVersion) {
			kept = append(kept, e)
		} else {
			gone = append(gone, e)
		}
	}
	for _, e := range gone {
		if !metadata.Keeps(e) {
			continue
		}
		if kept, err = join(kept, stored, e); err != nil {
			return nil, false, err
		}
	}
	if len(kept) == 0 && len(gone) > 0 {
		kept = append(kept, metav1.ManagedFieldsEntry{
			Manager: gone[0].Manager, Operation: gone[0].Operation, APIVersion: stored, Time: gone[0].Time,
			FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(seed)},
		})
	}
	return kept, len(gone) > 0, nil
}

// join adds what an entry says of metadata, at the version stored: to the entry
// that its manager has there, or as one of its own.
func join(entries []metav1.ManagedFieldsEntry, stored string, e metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	below := fieldpath.PathElement{FieldName: new("metadata")}
	all, err := decode(e)
	if err != nil {
		return nil, err
	}
	fields := fieldpath.NewSet()
	*fields.Children.Descend(below) = *all.WithPrefix(below)
	if fields.Empty() {
		return entries, nil
	}
	e.APIVersion = stored
	i := slices.IndexFunc(entries, func(o metav1.ManagedFieldsEntry) bool {
		return o.Manager == e.Manager && o.Operation == e.Operation && o.APIVersion == e.APIVersion && o.Subresource == e.Subresource
	})
	if i < 0 {
		e.FieldsV1, err = encode(fields)
		return append(entries, e), err
	}
	have, err := decode(entries[i])
	if err != nil {
		return nil, err
	}
	entries[i].FieldsV1, err = encode(have.Union(fields))
	return entries, err
}

func decode(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return set, nil
	}
	return set, set.FromJSON(bytes.NewReader(e.FieldsV1.Raw))
}

func encode(s *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := s.ToJSON()
	return &metav1.FieldsV1{Raw: raw}, err
}
