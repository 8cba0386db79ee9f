// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Become is what an object is to be that was made by manager before, and would be
// made as fresh now. What somebody else has added since stays, such as the
// provider ID that a provider has written; what manager once wrote in the spec and
// is in fresh no more goes. Lists are taken over whole.
func Become(current, fresh *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	owned, err := ownedSpec(current, manager)
	if err != nil {
		return nil, err
	}
	out := current.DeepCopy()
	had, _ := out.Object["spec"].(map[string]any)
	wanted, _ := fresh.Object["spec"].(map[string]any)
	if had != nil || wanted != nil {
		out.Object["spec"] = merge(had, wanted, owned)
	}
	out.SetLabels(joined(out.GetLabels(), fresh.GetLabels()))
	out.SetAnnotations(joined(out.GetAnnotations(), fresh.GetAnnotations()))
	return out, nil
}

func joined(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// merge brings what is wanted to what there is; owned are the fields that may
// go, as managed fields name them.
func merge(had, wanted, owned map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range had {
		mine, isMine := owned["f:"+k].(map[string]any)
		want, isWanted := wanted[k]
		below, isObject := v.(map[string]any)
		wantBelow, wantsObject := want.(map[string]any)
		switch {
		case isObject && (wantsObject || !isWanted):
			if left := merge(below, wantBelow, mine); len(left) > 0 || wantsObject || !isMine {
				out[k] = left
			}
		case isWanted:
			out[k] = runtime.DeepCopyJSONValue(want)
		case !isMine:
			out[k] = v
		}
	}
	for k, v := range wanted {
		if _, ok := had[k]; !ok {
			out[k] = runtime.DeepCopyJSONValue(v)
		}
	}
	return out
}

// ownedSpec are the fields of the spec that a manager wrote last.
func ownedSpec(obj *unstructured.Unstructured, manager string) (map[string]any, error) {
	owned := map[string]any{}
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != manager || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var all struct {
			Spec map[string]any `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.Raw, &all); err != nil {
			return nil, fmt.Errorf("read managed fields of %s %s/%s: %w", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
		join(owned, all.Spec)
	}
	return owned, nil
}

func join(into, from map[string]any) {
	for k, v := range from {
		if !strings.HasPrefix(k, "f:") {
			continue // an element of a list, or the mark of the field itself
		}
		below, _ := v.(map[string]any)
		have, ok := into[k].(map[string]any)
		if !ok {
			have = map[string]any{}
			into[k] = have
		}
		join(have, below)
	}
}
