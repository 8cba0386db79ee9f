// SPDX-License-Identifier: Apache-2.0

package references

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ListKind lists the objects of a kind. They have no managed fields.
func (c Reader) ListKind(ctx context.Context, gvk schema.GroupVersionKind, of ...client.ListOption) ([]unstructured.Unstructured, error) {
	var list shortList
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := Explain(c.Mgmt.List(ctx, &list, of...), gvk.Kind); err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", gvk.Kind, err)
	}
	return list.Items, nil
}

// shortList is a list whose objects have only metadata without managed fields, spec and
// status. Managed fields are half of a list of Machines.
type shortList struct{ unstructured.UnstructuredList }

// UnmarshalJSON implements json.Unmarshaler.
func (l *shortList) UnmarshalJSON(text []byte) error {
	var list struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []struct {
			APIVersion string `json:"apiVersion"` // empty for kinds without a CRD, as is Kind
			Kind       string `json:"kind"`
			Metadata   struct {
				Namespace         any `json:"namespace"`
				Name              any `json:"name"`
				UID               any `json:"uid"`
				CreationTimestamp any `json:"creationTimestamp"`
				DeletionTimestamp any `json:"deletionTimestamp"`
				Labels            any `json:"labels"`
				Annotations       any `json:"annotations"`
				Finalizers        any `json:"finalizers"`
				OwnerReferences   any `json:"ownerReferences"`
			} `json:"metadata"`
			Spec   any `json:"spec"`
			Status any `json:"status"`
		} `json:"items"`
	}
	if err := utiljson.Unmarshal(text, &list); err != nil {
		return err
	}
	l.Items = make([]unstructured.Unstructured, len(list.Items))
	for i, item := range list.Items {
		m := item.Metadata
		l.Items[i].Object = set(
			"apiVersion", cmp.Or(item.APIVersion, list.APIVersion), "kind", cmp.Or(item.Kind, strings.TrimSuffix(list.Kind, "List")), "spec", item.Spec, "status", item.Status, "metadata", set(
				"namespace", m.Namespace, "name", m.Name, "uid", m.UID, "creationTimestamp", m.CreationTimestamp, "deletionTimestamp", m.DeletionTimestamp,
				"labels", m.Labels, "annotations", m.Annotations, "finalizers", m.Finalizers, "ownerReferences", m.OwnerReferences))
	}
	return nil
}

// set returns a map of pairs of a name and a value, without values that are nil.
func set(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != nil {
			out[pairs[i].(string)] = pairs[i+1]
		}
	}
	return out
}
