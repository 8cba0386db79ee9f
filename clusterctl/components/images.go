// SPDX-License-Identifier: Apache-2.0

package components

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// pods maps kinds to the path of their Pod spec.
var pods = map[schema.GroupKind][]string{
	{Kind: "Pod"}:                        {"spec"},
	{Kind: "PodTemplate"}:                {"template", "spec"},
	{Kind: "ReplicationController"}:      {"spec", "template", "spec"},
	{Group: "apps", Kind: "Deployment"}:  {"spec", "template", "spec"},
	{Group: "apps", Kind: "DaemonSet"}:   {"spec", "template", "spec"},
	{Group: "apps", Kind: "StatefulSet"}: {"spec", "template", "spec"},
	{Group: "apps", Kind: "ReplicaSet"}:  {"spec", "template", "spec"},
	{Group: "batch", Kind: "Job"}:        {"spec", "template", "spec"},
	{Group: "batch", Kind: "CronJob"}:    {"spec", "jobTemplate", "spec", "template", "spec"},
}

// podSpec is that in an object, not a copy; nil if it has none.
func podSpec(obj *unstructured.Unstructured) map[string]any {
	path, ok := pods[groupKind(obj)]
	if !ok {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...) // a value that is not a map has none
	spec, _ := v.(map[string]any)
	return spec
}

// containers are all that a Pod may run.
func containers(spec map[string]any) (all []map[string]any) {
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, objectsIn(spec[field])...)
	}
	return all
}

// ReplaceImages replaces the images in the objects of a component, and returns all,
// sorted. image nil keeps them.
func ReplaceImages(objects []*unstructured.Unstructured, component string, image func(component, image string) (string, error)) ([]string, error) {
	used := map[string]bool{}
	replace := func(obj *unstructured.Unstructured, holder map[string]any, field string) error {
		old, _ := holder[field].(string)
		if old == "" {
			return nil
		}
		if image != nil {
			use, err := image(component, old)
			if err != nil {
				return fmt.Errorf("%s: %w", describe(obj), err)
			}
			holder[field] = use
		}
		used[holder[field].(string)] = true
		return nil
	}
	for _, obj := range objects {
		spec := podSpec(obj)
		for _, container := range containers(spec) {
			if err := replace(obj, container, "image"); err != nil {
				return nil, err
			}
		}
		for _, volume := range objectsIn(spec["volumes"]) {
			source, _ := volume["image"].(map[string]any)
			if err := replace(obj, source, "reference"); err != nil {
				return nil, err
			}
		}
	}
	return sorted(used), nil
}

// objectsIn returns the objects of a list.
func objectsIn(list any) (all []map[string]any) {
	items, _ := list.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}
