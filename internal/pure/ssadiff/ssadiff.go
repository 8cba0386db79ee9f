// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Intent is the desired state of an object according to a manager: some of its fields,
// in the form in which they are sent.
type Intent struct {
	// Fields are the fields that the manager owns after an apply.
	Fields *Fields

	of      *Type
	manager string
	object  map[string]any
	typed   *typed.TypedValue
	coded   map[string]any // Fields in the encoding of managedFields
}

// unowned are the fields that the server does not track in managedFields.
var unowned = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"), fieldpath.MakePathOrDie("metadata"),
	fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "namespace"),
	fieldpath.MakePathOrDie("metadata", "uid"), fieldpath.MakePathOrDie("metadata", "resourceVersion"),
)

// Intend creates the intent of a manager, and completes object for it. An error says
// that the schema refuses the object, as the server would.
func (t *Type) Intend(manager string, object map[string]any) (*Intent, error) {
	t.shape.complete(object, false)
	of, err := t.typed.FromUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("the desired object does not match the schema of %s: %w", t.gvk.Kind, err)
	}
	set, err := of.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("name the fields wanted of %s: %w", t.gvk.Kind, err)
	}
	in := &Intent{of: t, manager: manager, object: object, typed: of, Fields: set.Difference(unowned)}
	coded, err := in.Fields.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encode the fields wanted of %s: %w", t.gvk.Kind, err)
	}
	if err := json.Unmarshal(coded, &in.coded); err != nil {
		return nil, fmt.Errorf("decode the fields wanted of %s: %w", t.gvk.Kind, err)
	}
	return in, nil
}

// Object returns the object to send. It must not be modified.
func (in *Intent) Object() map[string]any { return in.object }

// Seed returns managedFields for an object whose own were lost: the entry of the intent
// as if it had just been applied, unless it exists again, and those of other managers
// since then. If the intent were applied to the object as it is, the server would assign
// every field of it to a manager before-first-apply, as it has done if another client
// applied first, and fields that are no longer in the intent could never be removed.
func (in *Intent) Seed(live map[string]any) []any {
	out, applied := []any{}, false
	for _, e := range entries(live) {
		if !unknown(e) {
			out, applied = append(out, e), applied || in.ours(e)
		}
	}
	if applied {
		return out
	}
	return append(out, map[string]any{
		"manager": in.manager, "operation": "Apply", "apiVersion": in.of.gvk.GroupVersion().String(),
		"fieldsType": "FieldsV1", "fieldsV1": in.coded,
	})
}

// unknown reports whether an entry is the one to which the server assigned all fields
// without a known manager.
func unknown(entry map[string]any) bool { return entry["manager"] == "before-first-apply" }

// entries returns the managedFields of an object.
func entries(live map[string]any) []map[string]any {
	meta, _ := live["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if e, ok := e.(map[string]any); ok {
			out = append(out, e)
		}
	}
	return out
}

// ours reports whether an entry is for applies by the intent's manager.
func (in *Intent) ours(entry map[string]any) bool {
	return entry["manager"] == in.manager && entry["operation"] == "Apply" && (entry["subresource"] == nil || entry["subresource"] == "")
}

func decode(entry map[string]any) (*Fields, error) {
	coded, err := json.Marshal(entry["fieldsV1"])
	if err != nil {
		return nil, err
	}
	set := fieldpath.NewSet()
	return set, set.FromJSON(bytes.NewReader(coded))
}
