// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
	"github.com/capstan-dev/capstan/manifests"
)

// Knots is the name of the CRD of a kind with everything that makes server-side
// apply difficult. No webhook serves it; v1 is stored.
const Knots = "knots.differ.capstan.dev"

const knotSchema = `{"type":"object","properties":{
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"spec":{"type":"object","properties":{
 "name":{"type":"string"},
 "count":{"type":"integer","default":3},
 "ratio":{"type":"number"},
 "size":{"x-kubernetes-int-or-string":true},
 "flag":{"type":"boolean","default":false},
 "maybe":{"type":"string","nullable":true},
 "maybeD":{"type":"string","nullable":true,"default":"d"},
 "date":{"type":"string","format":"date-time"},
 "blob":{"type":"string","format":"byte"},
 "fixed":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"fixed is fixed"}]},
 "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],"items":{"type":"object","required":["port"],"properties":{
   "port":{"type":"integer"},"protocol":{"type":"string","default":"TCP","enum":["TCP","UDP"]},"name":{"type":"string"},"weight":{"type":"integer","default":1},
   "opts":{"type":"object","default":{"x":9},"properties":{"x":{"type":"integer","default":7},"y":{"type":"string"}}},
   "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
   "inner":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],"items":{"type":"object","required":["id"],"properties":{"id":{"type":"string"},"val":{"type":"integer","default":4}}}}}}},
 "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
 "nums":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"number"}},
 "atoms":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"object","properties":{
   "a":{"type":"string"},"b":{"type":"integer","default":2},"n":{"type":"string","nullable":true},
   "sub":{"type":"object","properties":{"c":{"type":"string","default":"c"},"d":{"type":"integer"}}},
   "auto":{"type":"object","default":{},"properties":{"e":{"type":"integer","default":6},"f":{"type":"string"}}}}}},
 "plain":{"type":"array","items":{"type":"string"}},
 "grid":{"type":"array","items":{"type":"array","items":{"type":"integer"}}},
 "nulls":{"type":"array","items":{"type":"string","nullable":true}},
 "sel":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"op":{"type":"string","default":"In"},"match":{"type":"object","additionalProperties":{"type":"string"}},"n":{"type":"number"}}},
 "labels":{"type":"object","additionalProperties":{"type":"string"}},
 "lmap":{"type":"object","additionalProperties":{"type":"object","properties":{"v":{"type":"integer","default":5},"w":{"type":"string"}}}},
 "smap":{"type":"object","additionalProperties":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}},
 "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "freeP":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"integer","default":1},"other":{"type":"object","properties":{"p":{"type":"string"}}}}},
 "any":{"x-kubernetes-preserve-unknown-fields":true},
 "bare":{"type":"object"},
 "res":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
 "deep":{"type":"object","default":{},"properties":{"mode":{"type":"string","default":"auto"},"inner":{"type":"object","default":{"lvl":2},"properties":{"lvl":{"type":"integer"},"tag":{"type":"string"}}}}}
}}}}`

// subject is a kind whose objects live.
type subject struct {
	kind, plural string
	types        []*ssadiff.Type // by version; the first is stored
	source       source
}

// CRDs are those of all kinds that objects live of.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	knots := &apiextensionsv1.CustomResourceDefinition{}
	version := `{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":` + knotSchema + `}}`
	err := json.Unmarshal([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+Knots+`"},
		"spec":{"group":"differ.capstan.dev","scope":"Namespaced","names":{"plural":"knots","singular":"knot","kind":"Knot","listKind":"KnotList"},
		"versions":[`+fmt.Sprintf(version, "v1", true)+`,`+fmt.Sprintf(version, "v2", false)+`]}}`), knots)
	if err != nil {
		return nil, err
	}
	all, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	out := []*apiextensionsv1.CustomResourceDefinition{knots}
	for _, crd := range all {
		if _, ok := topologyKinds[crd.Spec.Names.Kind]; ok {
			crd.Spec.Versions = slices.DeleteFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return !v.Storage }) // the one that topologies apply
			out = append(out, crd)
		}
	}
	return out, nil
}

// Wanted is the desired state of a topology for an object of one of its kinds.
func Wanted(kind string) map[string]any { return runtime.DeepCopyJSON(topologyKinds[kind].base) }

// subjects are all kinds, the invented one first. owner is the owner reference
// that objects get now and then.
func subjects(owner map[string]any) ([]subject, error) {
	crds, err := CRDs()
	if err != nil {
		return nil, err
	}
	var out []subject
	for _, crd := range crds {
		sub := subject{kind: crd.Spec.Names.Kind, plural: crd.Spec.Names.Plural}
		for _, v := range crd.Spec.Versions {
			text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
			if err != nil {
				return nil, err
			}
			t, err := ssadiff.NewType(schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: sub.kind}, text)
			if err != nil {
				return nil, err
			}
			sub.types = append(sub.types, t)
		}
		if kind, ok := topologyKinds[sub.kind]; ok {
			sub.source = byEdits{kind.base, join(kind.edits, metadataEdits, map[string][]any{"metadata.ownerReferences": {gone{}, []any{owner}}})}
		} else {
			sub.source = bySchema{decode(knotSchema).(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)}
		}
		out = append(out, sub)
	}
	return out, nil
}

func join(all ...map[string][]any) map[string][]any {
	out := map[string][]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// below puts a path before all paths.
func below(path string, edits map[string][]any) map[string][]any {
	out := map[string][]any{}
	for p, values := range edits {
		out[path+"."+p] = values
	}
	return out
}

// edits reads lines of a path and the values, separated by two blanks, that it may
// have; - means none.
func edits(lines string) map[string][]any {
	out := map[string][]any{}
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		words := slices.DeleteFunc(strings.Split(strings.TrimSpace(line), "  "), func(w string) bool { return w == "" })
		for _, w := range words[1:] {
			if w = strings.TrimSpace(w); w == "-" {
				out[words[0]] = append(out[words[0]], gone{})
			} else {
				out[words[0]] = append(out[words[0]], decode(w))
			}
		}
	}
	return out
}
