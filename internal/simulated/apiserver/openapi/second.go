// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// V2 describes all that is served in one OpenAPI v2 document, as JSON or as
// the protobuf that clients prefer.
func V2(served *kinds.Set, protobuf bool) (*Document, error) {
	var versions []*crds.Version
	for _, k := range served.All() {
		if k.Custom != nil {
			versions = append(versions, k.Custom)
		}
	}
	what := "v2"
	if protobuf {
		what = "v2 in protobuf"
	}
	if len(versions) == 0 {
		return always[protobuf]()
	}
	return latest.get(subject{served, what}, func() (*Document, error) { return secondOf(versions, protobuf) })
}

// always are the documents of clusters without definitions.
var always = map[bool]func() (*Document, error){
	false: sync.OnceValues(func() (*Document, error) { return secondOf(nil, false) }),
	true:  sync.OnceValues(func() (*Document, error) { return secondOf(nil, true) }),
}

func secondOf(versions []*crds.Version, protobuf bool) (*Document, error) {
	raw, err := everything()
	if err == nil && len(versions) > 0 {
		var static spec.Swagger
		if err = json.Unmarshal(raw, &static); err == nil {
			raw, err = crds.OpenAPIV2(&static, versions)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("describe what is served: %w", err)
	}
	d := newDocument(raw)
	if protobuf {
		if d.JSON, err = handler.ToProtoBinary(raw); err != nil {
			return nil, fmt.Errorf("describe what is served: %w", err)
		}
	}
	return d, nil
}

// everything describes what every cluster serves.
var everything = sync.OnceValues(func() ([]byte, error) {
	definitions, paths := doc{}, doc{}
	for _, gv := range kinds.Everywhere().GroupVersions() {
		described, err := describe(gv)
		if err != nil {
			return nil, err
		}
		maps.Copy(definitions, described["components"].(doc)["schemas"].(schemas))
		maps.Copy(paths, described["paths"].(doc))
	}
	return json.Marshal(doc{
		"swagger": "2.0", "info": doc{"title": "Kubernetes", "version": "unversioned"},
		"paths": second(paths), "definitions": second(definitions),
	})
})

// second converts a part of a v3 document to one of a v2 document.
func second(v any) any {
	switch v := v.(type) {
	case doc:
		return secondObject(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = second(v[i])
		}
		return out
	case string:
		if name, ok := strings.CutPrefix(v, refPrefix); ok {
			return "#/definitions/" + name
		}
	}
	return v
}

func secondObject(v doc) doc {
	out := doc{}
	for key, value := range v {
		out[key] = second(value)
	}
	if parts, ok := out["allOf"].([]any); ok && len(parts) == 1 { // a reference with siblings
		delete(out, "allOf")
		maps.Copy(out, parts[0].(doc))
	}
	if content, ok := out["content"].(doc); ok { // a response
		delete(out, "content")
		out["schema"] = content["application/json"].(doc)["schema"]
	}
	if _, isParameter := out["in"]; isParameter {
		schema := out["schema"].(doc)
		delete(out, "schema")
		maps.Copy(out, schema)
	}
	return out
}
