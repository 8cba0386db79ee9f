// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"fmt"
	"maps"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Applied returns the fields that a manager has applied of a live object, with their
// current values: applying them again changes nothing. It is nil if the manager has
// applied nothing, or has applied another version of the kind.
func (t *Type) Applied(manager string, live map[string]any) (map[string]any, error) {
	in := &Intent{manager: manager}
	for _, entry := range entries(live) {
		if !in.ours(entry) || entry["apiVersion"] != t.gvk.GroupVersion().String() {
			continue
		}
		owned, err := decode(entry)
		if err != nil {
			return nil, fmt.Errorf("managedFields of %s: %w", manager, err)
		}
		meta, _ := live["metadata"].(map[string]any)
		have, err := t.typed.FromUnstructured(map[string]any{
			"metadata": some(meta, "labels", "annotations", "finalizers", "ownerReferences"), "spec": live["spec"],
		}, typed.AllowDuplicates)
		if err != nil {
			return nil, fmt.Errorf("read %s by its schema: %w", t.gvk.Kind, err)
		}
		values, _ := have.ExtractItems(owned).AsValue().Unstructured().(map[string]any)
		out := some(live, "apiVersion", "kind")
		maps.Copy(out, values)
		name := some(meta, "name", "namespace")
		applied, _ := values["metadata"].(map[string]any)
		maps.Copy(name, applied)
		out["metadata"] = name
		return out, nil
	}
	return nil, nil
}

// some are those of several fields that an object has.
func some(object map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if value, ok := object[name]; ok {
			out[name] = value
		}
	}
	return out
}
