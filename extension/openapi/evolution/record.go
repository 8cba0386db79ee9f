// SPDX-License-Identifier: Apache-2.0

package evolution

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
)

// Record is the part of a document that is stored when a version is published:
// its hooks and the types that they reach, without descriptions.
func Record(doc *spec3.OpenAPI, gv schema.GroupVersion) (*spec3.OpenAPI, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	paths, _ := tree["paths"].(map[string]any)
	for path := range paths {
		if !strings.HasPrefix(path, "/"+gv.Group+"/"+gv.Version+"/") {
			delete(paths, path)
		}
	}
	components, _ := tree["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	reached := map[string]bool{}
	reach(paths, schemas, reached)
	for name := range schemas {
		if !reached[name] {
			delete(schemas, name)
		}
	}
	silence(tree)
	if data, err = json.Marshal(tree); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	out := &spec3.OpenAPI{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("record the hooks of %s: %w", gv, err)
	}
	return out, nil
}

// reach marks the schemas that a part of a document refers to.
func reach(part any, schemas map[string]any, reached map[string]bool) {
	switch part := part.(type) {
	case map[string]any:
		if ref, ok := part["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			if !reached[name] {
				reached[name] = true
				reach(schemas[name], schemas, reached)
			}
		}
		for _, v := range part {
			reach(v, schemas, reached)
		}
	case []any:
		for _, v := range part {
			reach(v, schemas, reached)
		}
	}
}

// silence removes texts for people, and extensions that only Kubernetes reads. A
// field of a message may have such a name too; its schema is not a string.
func silence(part any) {
	switch part := part.(type) {
	case map[string]any:
		for key, v := range part {
			_, text := v.(string)
			if text && (key == "description" || key == "summary") || strings.HasPrefix(key, "x-kubernetes-") {
				delete(part, key)
				continue
			}
			silence(v)
		}
	case []any:
		for _, v := range part {
			silence(v)
		}
	}
}
