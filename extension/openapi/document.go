// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/capstan-dev/capstan/extension/catalog"
)

// FormatVersion is the version of OpenAPI that documents follow.
const FormatVersion = "3.0.3"

const (
	componentPrefix = "#/components/schemas/"
	jsonContent     = "application/json"
)

//go:embed zz_generated.schemas.json
var generated []byte

//go:embed openapi.json
var document []byte

// Version is the version in the committed document: that of the newest hooks in
// it.
const Version = "v1alpha1"

// JSON is a copy of the document of all published hooks, as committed.
func JSON() []byte { return bytes.Clone(document) }

// schemas are those of all types in api/hooks and what they reach.
type schemas struct {
	Types   map[string]string      `json:"types"` // Go type to name in Schemas
	Schemas map[string]spec.Schema `json:"schemas"`
}

var known = sync.OnceValues(func() (*schemas, error) {
	s := &schemas{}
	if err := json.Unmarshal(generated, s); err != nil {
		return nil, fmt.Errorf("read the generated schemas: %w", err)
	}
	return s, nil
})

// Document describes the hooks of a catalog. version is that of the document,
// which readers see in info.version. A hook whose messages are not in api/hooks
// has no schema, and is an error.
func Document(c *catalog.Catalog, version string) (*spec3.OpenAPI, error) {
	s, err := known()
	if err != nil {
		return nil, err
	}
	b := &builder{known: s, components: map[string]*spec.Schema{}, operations: map[string]catalog.GroupVersionHook{}}
	doc := &spec3.OpenAPI{
		Version: FormatVersion,
		Info: &spec.Info{InfoProps: spec.InfoProps{
			Title:       "Runtime hooks",
			Description: "What a runtime extension can be asked. Each operation is a hook in one version; an extension answers those that its answer to Discovery names. Calls are made over HTTPS, below the URL in the ExtensionConfig.",
			Version:     version,
			License:     &spec.License{Name: "Apache 2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0.html"},
		}},
		Paths: &spec3.Paths{Paths: map[string]*spec3.Path{}},
	}
	var errs []error
	for _, d := range c.Hooks() {
		op, err := b.operation(d)
		if err != nil {
			errs = append(errs, fmt.Errorf("describe hook %s: %w", d, err))
			continue
		}
		doc.Paths.Paths[documentPath(d)] = &spec3.Path{PathProps: spec3.PathProps{Post: op}}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	doc.Components = &spec3.Components{Schemas: b.components}
	return doc, nil
}

// Render is Document as text with a line for each value, so that two of them
// can be compared.
func Render(c *catalog.Catalog, version string) ([]byte, error) {
	doc, err := Document(c, version)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("render the document of hooks: %w", err)
	}
	out := &bytes.Buffer{}
	if err := json.Indent(out, data, "", "  "); err != nil {
		return nil, fmt.Errorf("render the document of hooks: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func documentPath(d catalog.Descriptor) string {
	if d.Singleton {
		return d.Path("")
	}
	return d.Path("{name}")
}

type builder struct {
	known      *schemas
	components map[string]*spec.Schema
	operations map[string]catalog.GroupVersionHook
}

func (b *builder) operation(d catalog.Descriptor) (*spec3.Operation, error) {
	request, err := b.message(d.RequestType, d.Request)
	if err != nil {
		return nil, err
	}
	response, err := b.message(d.ResponseType, d.Response)
	if err != nil {
		return nil, err
	}
	id := operationID(d.GroupVersionHook)
	if other, clash := b.operations[id]; clash {
		return nil, fmt.Errorf("its operation would be called %s, as that of %s is", id, other)
	}
	b.operations[id] = d.GroupVersionHook
	return &spec3.Operation{OperationProps: spec3.OperationProps{
		Tags:        d.Tags,
		Summary:     d.Summary,
		Description: description(d),
		OperationId: id,
		Parameters:  parameters(d),
		Deprecated:  d.Deprecated != nil,
		RequestBody: &spec3.RequestBody{RequestBodyProps: spec3.RequestBodyProps{Required: true, Content: content(request)}},
		Responses: &spec3.Responses{ResponsesProps: spec3.ResponsesProps{StatusCodeResponses: map[int]*spec3.Response{
			200: {ResponseProps: spec3.ResponseProps{
				Description: "The answer of the extension, be it Success or Failure. Any other code means that the extension could not be asked.",
				Content:     content(response),
			}},
		}}},
	}}, nil
}

func description(d catalog.Descriptor) string {
	if d.Deprecated == nil {
		return d.Description
	}
	return strings.TrimSpace(fmt.Sprintf("Deprecated since %s (%s): use %s. %s", d.Deprecated.Since, d.Deprecated.Date, d.Deprecated.Use, d.Description))
}

func parameters(d catalog.Descriptor) []*spec3.Parameter {
	var ps []*spec3.Parameter
	if !d.Singleton {
		ps = append(ps, &spec3.Parameter{ParameterProps: spec3.ParameterProps{
			Name: "name", In: "path", Required: true,
			Description: "The name of the handler, as the extension gave it in Discovery.",
			Schema:      spec.StringProperty().WithMaxLength(63).WithPattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
		}})
	}
	return append(ps, &spec3.Parameter{ParameterProps: spec3.ParameterProps{
		Name: "timeout", In: "query",
		Description: "How long the caller waits for the answer, as a Go duration.",
		Schema:      spec.StringProperty(),
		Example:     "10s",
	}})
}

func content(component string) map[string]*spec3.MediaType {
	return map[string]*spec3.MediaType{
		jsonContent: {MediaTypeProps: spec3.MediaTypeProps{Schema: spec.RefSchema(componentPrefix + component)}},
	}
}

// operationID is unique and fit for the name of a function:
// hooksRuntimeClusterXK8sIoV1alpha1Discovery.
func operationID(h catalog.GroupVersionHook) string {
	var id strings.Builder
	words := strings.FieldsFunc(h.Group+"."+h.Version+"."+h.Hook, func(r rune) bool { return r == '.' || r == '-' })
	for i, w := range words {
		if i > 0 {
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		id.WriteString(w)
	}
	return id.String()
}

// message adds the component of a request or response, and those it reaches.
// Its group, version and kind are fixed: a message of another kind is not this
// one.
func (b *builder) message(t reflect.Type, gvk schema.GroupVersionKind) (string, error) {
	name, ok := b.known.Types[t.PkgPath()+"."+t.Name()]
	if !ok {
		return "", fmt.Errorf("there is no schema of %s.%s: only the types in api/hooks have one", t.PkgPath(), t.Name())
	}
	b.add(name)
	s := *b.components[name]
	properties := make(map[string]spec.Schema, len(s.Properties))
	for field, p := range s.Properties {
		switch field {
		case "apiVersion":
			p = *fixed("The group and version of the hook.", gvk.GroupVersion().String())
		case "kind":
			p = *fixed("What this message is.", gvk.Kind)
		}
		properties[field] = p
	}
	s.Properties = properties
	b.components[name] = &s
	return name, nil
}

func fixed(description, value string) *spec.Schema {
	return spec.StringProperty().WithDescription(description).WithEnum(value)
}

func (b *builder) add(name string) {
	if b.components[name] != nil {
		return
	}
	s := b.known.Schemas[name]
	b.components[name] = &s
	for _, ref := range references(&s) {
		b.add(ref)
	}
}

// references lists the components that a schema refers to.
func references(s *spec.Schema) []string {
	var refs []string
	if ref, ok := strings.CutPrefix(s.Ref.String(), componentPrefix); ok {
		refs = append(refs, ref)
	}
	for _, p := range s.Properties {
		refs = append(refs, references(&p)...)
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		refs = append(refs, references(&part)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		refs = append(refs, references(s.Items.Schema)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		refs = append(refs, references(s.AdditionalProperties.Schema)...)
	}
	return refs
}
