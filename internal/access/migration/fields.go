// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// seed is the content of an entry that exists only so that there is an entry.
const seed = `{"f:metadata":{"f:name":{}}}`

// withoutUnserved removes the entries whose version is not served. It is pure.
//
// If such an entry belongs to one of our controllers, its labels and annotations
// remain, at the storage version: metadata is the same in all versions. If no entry
// remains, an entry of the first manager is added, since for an object without
// entries a server assigns all fields to a separate manager at the next apply.
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
		if !metadata.IsOurs(e) {
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

// join adds the metadata of an entry at the storage version: to the entry that its
// manager has there, or as a new one.
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
