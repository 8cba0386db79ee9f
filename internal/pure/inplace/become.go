// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// ErrLost means that it is unknown which fields of an object are from its template.
var ErrLost = errors.New("its managed fields are lost, and the template from which it was created was deleted: the fields of the template are unknown")

// Become is the desired state of an object that manager created before and would now
// create as fresh. Fields that others have added since stay, such as a provider ID;
// fields that manager wrote to the spec and that are no longer in fresh are removed.
// Lists are replaced as a whole.
//
// The managed fields record what manager wrote. They can be lost, for example when an
// object was moved or restored. So the fields in former count too: the spec of the
// template that the object was created from; nil if the template was deleted.
func Become(current, fresh *unstructured.Unstructured, former map[string]any, manager string) (*unstructured.Unstructured, error) {
	owned, err := ownedSpec(current, manager)
	if err != nil {
		return nil, err
	}
	if _, cloned := current.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]; cloned && len(owned) == 0 && former == nil {
		return nil, fmt.Errorf("%s %s/%s: %w", current.GetKind(), current.GetNamespace(), current.GetName(), ErrLost)
	}
	join(owned, asManaged(former))
	out := current.DeepCopy()
	had, _ := out.Object["spec"].(map[string]any)
	wanted, _ := fresh.Object["spec"].(map[string]any)
	if had != nil || wanted != nil {
		out.Object["spec"] = merge(had, wanted, owned)
	}
	out.SetLabels(metadata.Union(out.GetLabels(), fresh.GetLabels()))
	out.SetAnnotations(metadata.Union(out.GetAnnotations(), fresh.GetAnnotations()))
	return out, nil
}

// merge combines the desired fields with the current ones; owned are the fields that can
// be removed, named as in managed fields.
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

// asManaged converts the fields of a spec to the form of managed fields.
func asManaged(spec map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range spec {
		below, _ := v.(map[string]any)
		out["f:"+k] = asManaged(below)
	}
	return out
}

func join(into, from map[string]any) {
	for k, v := range from {
		if !strings.HasPrefix(k, "f:") {
			continue // an element of a list, or the entry of the field itself
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
