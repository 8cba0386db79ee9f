// SPDX-License-Identifier: Apache-2.0

package metadata

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// beforeFirstApply is the manager to which a server assigns all fields of an object
// without managedFields at the first apply.
const beforeFirstApply = "before-first-apply"

// Lost reports whether managedFields do not show, or no longer show, what manager
// has set on obj. A server drops them when it cannot convert them in an update
// (https://github.com/kubernetes/kubernetes/issues/136919), and so does a backup
// that omits them; if a client applies the object then, no apply could ever remove
// anything that it has.
func Lost(obj metav1.Object, manager string) bool {
	known := false
	for _, e := range obj.GetManagedFields() {
		if e.Manager == beforeFirstApply {
			return true
		}
		known = known || e.Manager == manager && e.Subresource == ""
	}
	return !known
}

// Recorded are the managedFields of obj with an entry of manager, an apiVersion of
// its kind, that names those labels and annotations of want which obj has and which
// have no other recorded manager. The label of the Cluster is among them in any
// case, since an entry that names nothing does not last.
func Recorded(obj metav1.Object, manager, apiVersion string, want Want) ([]metav1.ManagedFieldsEntry, error) {
	entries := slices.DeleteFunc(slices.Clone(obj.GetManagedFields()), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == beforeFirstApply })
	for _, e := range entries {
		if e.Manager == manager && e.Subresource == "" {
			return entries, nil
		}
	}
	others, err := ownedIf(entries, func(metav1.ManagedFieldsEntry) bool { return true })
	if err != nil {
		return nil, err
	}
	labels := ours(obj.GetLabels(), want.Labels, others.Metadata.Labels)
	labels["f:"+clusterv1.ClusterNameLabel] = struct{}{}
	raw, err := json.Marshal(map[string]any{"f:metadata": map[string]any{
		"f:labels": labels, "f:annotations": ours(obj.GetAnnotations(), want.Annotations, others.Metadata.Annotations),
	}})
	return append(entries, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: apiVersion, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}), err
}

// ours are the keys that have the desired value and no other manager in
// managedFields.
func ours(have, want map[string]string, others map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range want {
		field := "f:" + key
		if _, theirs := others[field]; !theirs && have[key] == value {
			if _, there := have[key]; there {
				out[field] = struct{}{}
			}
		}
	}
	return out
}

// fields is the part of a managedFields entry that this package reads.
type fields struct {
	Metadata struct {
		Labels      map[string]any `json:"f:labels"`
		Annotations map[string]any `json:"f:annotations"`
	} `json:"f:metadata"`
}

// ownedIf are the fields in the entries about the object itself for which which
// returns true.
func ownedIf(entries []metav1.ManagedFieldsEntry, which func(metav1.ManagedFieldsEntry) bool) (all fields, err error) {
	all.Metadata.Labels, all.Metadata.Annotations = map[string]any{}, map[string]any{}
	for _, entry := range entries {
		if !which(entry) || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var f fields
		if err := json.Unmarshal(entry.FieldsV1.Raw, &f); err != nil {
			return all, err
		}
		maps.Copy(all.Metadata.Labels, f.Metadata.Labels)
		maps.Copy(all.Metadata.Annotations, f.Metadata.Annotations)
	}
	return all, nil
}
