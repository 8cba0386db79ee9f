// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// This program writes zz_generated.schemas.json: the schemas of all requests
// and responses in api/hooks, and of every type they reach, from the Go types,
// their comments and markers.
//
//	go run -modfile=../../go.tools.mod generate.go
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

const (
	hooks  = "github.com/capstan-dev/capstan/api/hooks/..."
	output = "zz_generated.schemas.json"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "generate the schemas of hooks:", err)
		os.Exit(1)
	}
}

func generate() error {
	roots, err := loader.LoadRoots(hooks)
	if err != nil {
		return err
	}
	g := &generator{parser: newParser(), schemas: map[string]apiextensionsv1.JSONSchemaProps{}, types: map[string]string{}}
	for _, pkg := range roots {
		g.parser.NeedPackage(pkg)
		for id, info := range maps.Clone(g.parser.Types) {
			if id.Package == pkg && isMessage(info) {
				g.add(id)
			}
		}
		// Only what schemas need is type-checked, so type errors can be ignored.
		if loader.PrintErrors([]*loader.Package{pkg}, packages.TypeError) {
			return fmt.Errorf("package %s has errors", pkg.PkgPath)
		}
	}
	if len(g.mistakes) > 0 {
		return fmt.Errorf("%s", strings.Join(g.mistakes, "\n"))
	}
	out := &bytes.Buffer{}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]any{"types": g.types, "schemas": g.schemas}); err != nil {
		return err
	}
	return os.WriteFile(output, out.Bytes(), 0o644)
}

func newParser() *crd.Parser {
	reg := &markers.Registry{}
	if err := (crd.Generator{}).RegisterMarkers(reg); err != nil {
		panic(err)
	}
	p := &crd.Parser{
		Collector:        &markers.Collector{Registry: reg},
		Checker:          &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
		PackageOverrides: maps.Clone(crd.KnownPackages),
	}
	const meta = "k8s.io/apimachinery/pkg/apis/meta/v1"
	known := p.PackageOverrides[meta]
	p.PackageOverrides[meta] = func(p *crd.Parser, pkg *loader.Package) {
		known(p, pkg)
		delete(p.Schemata, crd.TypeIdent{Package: pkg, Name: "ObjectMeta"}) // CRDs leave it to the API server; a message holds it
		p.Schemata[crd.TypeIdent{Package: pkg, Name: "FieldsV1"}] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	}
	return p
}

// isMessage reports whether a type is a request or a response: they embed TypeMeta.
func isMessage(info *markers.TypeInfo) bool {
	return slices.ContainsFunc(info.Fields, func(f markers.FieldInfo) bool {
		s, ok := f.RawField.Type.(*ast.SelectorExpr)
		return ok && f.Name == "" && s.Sel.Name == "TypeMeta"
	})
}

type generator struct {
	parser   *crd.Parser
	schemas  map[string]apiextensionsv1.JSONSchemaProps // by component name
	types    map[string]string                          // Go type to component name
	mistakes []string
}

// add creates a component of a type and of all types that it refers to.
func (g *generator) add(id crd.TypeIdent) string {
	goName, name := loader.NonVendorPath(id.Package.PkgPath)+"."+id.Name, component(id)
	if _, done := g.types[goName]; done {
		return name
	}
	if _, clash := g.schemas[name]; clash {
		g.mistakes = append(g.mistakes, fmt.Sprintf("%s would have the name of another type: %s", goName, name))
	}
	g.types[goName] = name
	g.schemas[name] = apiextensionsv1.JSONSchemaProps{} // while types refer to themselves
	s := g.inlined(id)
	g.resolve(id.Package, &s)
	if info := g.parser.Types[id]; info != nil && isEnum(info) {
		s.Enum = constants(id)
	}
	g.schemas[name] = s
	return name
}

// inlined is the schema of a type with the fields of the structs that it
// embeds.
func (g *generator) inlined(id crd.TypeIdent) apiextensionsv1.JSONSchemaProps {
	g.parser.NeedSchemaFor(id)
	known := g.parser.Schemata[id]
	s := *known.DeepCopy()
	var rest []apiextensionsv1.JSONSchemaProps
	for _, part := range s.AllOf {
		if part.Ref == nil || s.Type != "object" {
			rest = append(rest, part)
			continue
		}
		from := target(id.Package, *part.Ref)
		embedded := g.inlined(from)
		for field, schema := range embedded.Properties {
			g.resolve(from.Package, &schema)
			s.Properties[field] = schema
		}
		s.Required = append(s.Required, embedded.Required...)
	}
	s.AllOf = rest
	slices.Sort(s.Required)
	s.Required = slices.Compact(s.Required)
	return s
}

const componentPrefix = "#/components/schemas/"

// resolve replaces references between Go types by references between components. OpenAPI
// 3.0 ignores fields next to a reference, so the reference then moves into allOf.
func (g *generator) resolve(pkg *loader.Package, s *apiextensionsv1.JSONSchemaProps) {
	s.Description = strings.TrimSpace(s.Description)
	if s.Ref != nil && !strings.HasPrefix(*s.Ref, componentPrefix) {
		ref := componentPrefix + g.add(target(pkg, *s.Ref))
		s.Ref, s.Type, s.Format = nil, "", ""
		if plain, _ := json.Marshal(s); string(plain) == "{}" {
			s.Ref = &ref
		} else {
			s.AllOf = append([]apiextensionsv1.JSONSchemaProps{{Ref: &ref}}, s.AllOf...)
		}
	}
	for field, schema := range s.Properties {
		g.resolve(pkg, &schema)
		s.Properties[field] = schema
	}
	if s.Items != nil && s.Items.Schema != nil {
		g.resolve(pkg, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		g.resolve(pkg, s.AdditionalProperties.Schema)
	}
}

// target returns the type of a reference that controller-tools created:
// #/definitions/Type or #/definitions/path~1of~1package~0Type.
func target(pkg *loader.Package, ref string) crd.TypeIdent {
	name := strings.TrimPrefix(ref, "#/definitions/")
	if at, typ, ok := strings.Cut(name, "~0"); ok {
		return crd.TypeIdent{Package: pkg.Imports()[strings.ReplaceAll(at, "~1", "/")], Name: typ}
	}
	return crd.TypeIdent{Package: pkg, Name: name}
}

var versioned = regexp.MustCompile(`^v[0-9]+`)

// component names a type: core.v1beta2.Cluster, runtime.RawExtension.
func component(id crd.TypeIdent) string {
	p := loader.NonVendorPath(id.Package.PkgPath)
	name := path.Base(p)
	if versioned.MatchString(name) {
		name = path.Base(path.Dir(p)) + "." + name
	}
	return name + "." + id.Name
}

// isEnum checks for the marker of Kubernetes, which controller-tools does not support.
func isEnum(info *markers.TypeInfo) bool {
	for _, doc := range []*ast.CommentGroup{info.RawDecl.Doc, info.RawSpec.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.TrimSpace(c.Text) == "// +enum" }) {
			return true
		}
	}
	return false
}

// constants lists the values of the constants of a type.
func constants(id crd.TypeIdent) (values []apiextensionsv1.JSON) {
	id.Package.NeedTypesInfo()
	scope := id.Package.Types.Scope()
	t := scope.Lookup(id.Name).Type()
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && types.Identical(c.Type(), t) && c.Val().Kind() == constant.String {
			raw, _ := json.Marshal(constant.StringVal(c.Val()))
			values = append(values, apiextensionsv1.JSON{Raw: raw})
		}
	}
	slices.SortFunc(values, func(a, b apiextensionsv1.JSON) int { return bytes.Compare(a.Raw, b.Raw) })
	return values
}
