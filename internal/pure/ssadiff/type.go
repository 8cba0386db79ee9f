// SPDX-License-Identifier: Apache-2.0

package ssadiff

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Fields are the fields that a manager owns.
type Fields = fieldpath.Set

// Type holds the data of one version of one kind. It is immutable and safe for
// concurrent use.
type Type struct {
	gvk   schema.GroupVersionKind
	shape *shape
	typed typed.ParseableType
}

// The models of a type: the kind itself, and the metadata of it and of embedded objects.
const (
	rootName = "root"
	metaName = "metadata"
)

// NewType creates a Type from the schema of one version in a CRD, as JSON:
// spec.versions[].schema.openAPIV3Schema. It is structural, since an API server accepts
// no other.
func NewType(gvk schema.GroupVersionKind, openAPIV3Schema []byte) (*Type, error) {
	root, meta := &spec.Schema{}, &spec.Schema{}
	if err := json.Unmarshal(openAPIV3Schema, root); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gvk.Kind, err)
	}
	if err := json.Unmarshal([]byte(metadata), meta); err != nil {
		return nil, fmt.Errorf("read the schema of metadata: %w", err)
	}
	embed(root)
	asObject(root)
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{rootName: root, metaName: meta}, false)
	if err != nil {
		return nil, fmt.Errorf("convert the schema of %s: %w", gvk.Kind, err)
	}
	parser := typed.Parser{Schema: smdschema.Schema{Types: types.Types}}
	return &Type{gvk: gvk, shape: shapeOf(root), typed: parser.Type(rootName)}, nil
}

// GVK returns the kind and version of the type.
func (t *Type) GVK() schema.GroupVersionKind { return t.gvk }

// metadata is the part of ObjectMeta that an intent can contain, with the server's merge
// rules.
const metadata = `{"type":"object","properties":{
	"name":{"type":"string"},"namespace":{"type":"string"},"generateName":{"type":"string"},"uid":{"type":"string"},"resourceVersion":{"type":"string"},
	"generation":{"type":"integer"},"selfLink":{"type":"string"},
	"creationTimestamp":{"type":"string","format":"date-time"},"deletionTimestamp":{"type":"string","format":"date-time"},"deletionGracePeriodSeconds":{"type":"integer"},
	"labels":{"type":"object","additionalProperties":{"type":"string"}},
	"annotations":{"type":"object","additionalProperties":{"type":"string"}},
	"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
	"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],
		"items":{"type":"object","x-kubernetes-map-type":"atomic","properties":{
			"apiVersion":{"type":"string"},"kind":{"type":"string"},"name":{"type":"string"},"uid":{"type":"string"},
			"controller":{"type":"boolean"},"blockOwnerDeletion":{"type":"boolean"}}}}}}`

// embed adds to embedded objects the fields that every object has, and drops the
// validations: combinations of schemas cannot be converted, and this package validates
// no values.
func embed(s *spec.Schema) {
	if s == nil {
		return
	}
	s.AllOf, s.AnyOf, s.OneOf, s.Not, s.Required = nil, nil, nil, nil, nil
	for k, p := range s.Properties {
		embed(&p)
		s.Properties[k] = p
	}
	if s.Items != nil {
		embed(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		embed(s.AdditionalProperties.Schema)
	}
	if is(s, "x-kubernetes-embedded-resource") {
		asObject(s)
	}
}

func asObject(s *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *spec.RefSchema("#/definitions/" + metaName))
}

func is(s *spec.Schema, extension string) bool {
	yes, _ := s.Extensions[extension].(bool)
	return yes
}
