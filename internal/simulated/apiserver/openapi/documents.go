// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Document is an OpenAPI v3 document and the tag that identifies its version.
type Document struct {
	JSON []byte
	Tag  string
}

// Index lists where the document of each group and version is.
func Index(served *kinds.Set) any {
	paths := doc{}
	for _, gv := range served.GroupVersions() {
		paths[root(gv)] = doc{"serverRelativeURL": "/openapi/v3/" + root(gv)}
	}
	return doc{"paths": paths}
}

// Of returns the document of a group and version, named as in a path: api/v1,
// apis/apps/v1. It is nil if that is not served.
func Of(served *kinds.Set, path string) (*Document, error) {
	for _, gv := range served.GroupVersions() {
		if root(gv) != path {
			continue
		}
		if kinds.Everywhere().Resources(gv) != nil {
			build, _ := built.LoadOrStore(gv, sync.OnceValues(func() (*Document, error) { return ofTypes(gv) }))
			return build.(func() (*Document, error))()
		}
		return latest.get(subject{served, path}, func() (*Document, error) { return defined(served, gv) })
	}
	return nil, nil
}

// defined describes a group and version of definitions.
func defined(served *kinds.Set, gv schema.GroupVersion) (*Document, error) {
	var versions []*crds.Version
	for _, k := range served.All() {
		if k.GroupVersion() == gv {
			versions = append(versions, k.Custom)
		}
	}
	raw, err := crds.OpenAPIV3(versions)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	return newDocument(raw), nil
}

func newDocument(raw []byte) *Document {
	return &Document{JSON: raw, Tag: fmt.Sprintf("%X", sha256.Sum256(raw))}
}

// built has a function for each group and version that every cluster serves, which builds
// its document once.
var built sync.Map

func ofTypes(gv schema.GroupVersion) (*Document, error) {
	content, err := describe(gv)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", gv, err)
	}
	return newDocument(raw), nil
}

func describe(gv schema.GroupVersion) (doc, error) {
	definitions, paths := schemas{}, doc{}
	for _, k := range kinds.Everywhere().All() {
		if k.GroupVersion() != gv {
			continue
		}
		obj, err := k.New()
		if err != nil {
			return nil, err
		}
		t := reflect.TypeOf(obj).Elem()
		ref := definitions.of(t)
		if d, ok := definitions[modelName(t)].(doc); ok {
			d["x-kubernetes-group-version-kind"] = []any{gvkOf(k)}
		}
		collection := "/" + root(gv) + "/" + k.Resource
		if k.Namespaced {
			collection = "/" + root(gv) + "/namespaces/{namespace}/" + k.Resource
		}
		paths[collection] = doc{"post": operation(k, "post", ref)}
		if k.Virtual {
			continue
		}
		paths[collection+"/{name}"] = doc{
			"get": operation(k, "get", ref), "put": operation(k, "put", ref),
			"patch": operation(k, "patch", ref), "delete": operation(k, "delete", ref),
		}
	}
	return doc{
		"openapi":    "3.0.0",
		"info":       doc{"title": "Kubernetes", "version": gv.Version},
		"paths":      paths,
		"components": doc{"schemas": definitions},
	}, nil
}

// operation describes one method, with the parameters that clients check before
// they use them.
func operation(k *kinds.Kind, method string, ref doc) doc {
	var names []string
	switch method {
	case "post", "put":
		names = []string{"dryRun", "fieldManager", "fieldValidation"}
	case "patch":
		names = []string{"dryRun", "fieldManager", "fieldValidation", "force"}
	case "delete":
		names = []string{"dryRun", "gracePeriodSeconds", "propagationPolicy"}
	}
	parameters := []any{}
	for _, name := range names {
		parameters = append(parameters, doc{"name": name, "in": "query", "schema": doc{"type": "string", "uniqueItems": true}})
	}
	return doc{
		"parameters":                      parameters,
		"responses":                       doc{"200": doc{"description": "OK", "content": doc{"application/json": doc{"schema": ref}}}},
		"x-kubernetes-action":             method,
		"x-kubernetes-group-version-kind": gvkOf(k),
	}
}

func gvkOf(k *kinds.Kind) doc { return doc{"group": k.Group, "version": k.Version, "kind": k.Kind} }

func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}
