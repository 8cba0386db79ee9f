// SPDX-License-Identifier: Apache-2.0

// Package template fills variables into cluster templates and splits the
// result into objects.
package template

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/drone/envsubst/v2"
	"github.com/drone/envsubst/v2/parse"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Processor is a language of templates.
type Processor interface {
	// Variables returns the variables of a template with their defaults; the
	// default is nil for a variable that must be given.
	Variables(raw []byte) (map[string]*string, error)
	// Process fills the variables in. lookup returns false for a variable that
	// has no value; all of those without a default are named in one error.
	Process(raw []byte, lookup func(name string) (string, bool)) ([]byte, error)
}

// MissingError names the variables that have neither a value nor a default.
type MissingError struct{ Names []string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("no value for the variables [%s]: set them in the environment, or with --var NAME=VALUE", strings.Join(e.Names, ", "))
}

// Envsubst is the language of upstream's templates: ${VAR}, ${VAR:=default} and
// the other forms of the shell's parameter expansion. A default is used when
// the variable is unset or empty, and may itself be a variable.
type Envsubst struct{}

// spaced finds the old form with blanks inside the braces: ${ VAR }.
var spaced = regexp.MustCompile(`\$\{\s+([a-zA-Z0-9_]+)\s*\}|\$\{([a-zA-Z0-9_]+)\s+\}`)

func normalise(raw []byte) string { return spaced.ReplaceAllString(string(raw), "$${$1$2}") }

// Variables implements Processor.
func (Envsubst) Variables(raw []byte) (map[string]*string, error) {
	tree, err := parse.Parse(normalise(raw))
	if err != nil {
		return nil, fmt.Errorf("parse template: %w", err)
	}
	found := map[string]*string{}
	collect(tree.Root, found)
	return found, nil
}

// Process implements Processor.
func (e Envsubst) Process(raw []byte, lookup func(string) (string, bool)) ([]byte, error) {
	vars, err := e.Variables(raw)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if _, ok := lookup(name); !ok && vars[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, &MissingError{missing}
	}
	out, err := envsubst.Eval(normalise(raw), func(name string) string {
		v, _ := lookup(name)
		return v
	})
	if err != nil {
		return nil, fmt.Errorf("fill variables into template: %w", err)
	}
	return []byte(out), nil
}

// collect notes the variables below a node. One that occurs with a default and
// without must be given.
func collect(n parse.Node, found map[string]*string) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			collect(child, found)
		}
	case *parse.FuncNode:
		var def *string
		switch n.Name {
		case "=", ":=", "-", ":-":
			def = new(text(n.Args))
		}
		if before, seen := found[n.Param]; !seen || (before != nil && def == nil) {
			found[n.Param] = def
		}
		for _, arg := range n.Args {
			collect(arg, found)
		}
	}
}

// text writes a default as it stands in the template.
func text(nodes []parse.Node) string {
	var s strings.Builder
	for _, n := range nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			s.WriteString(n.Value)
		case *parse.FuncNode:
			s.WriteString("${" + n.Param + "}")
		case *parse.ListNode:
			s.WriteString(text(n.Nodes))
		}
	}
	return s.String()
}

// Objects splits a document of one or more YAML or JSON objects; lists are
// taken apart.
func Objects(doc []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(doc)))
	for n := 1; ; n++ {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read document %d: %w", n, err)
		}
		obj := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(part, &obj.Object); err != nil {
			return nil, fmt.Errorf("document %d is not valid YAML: %w", n, err)
		}
		if len(obj.Object) == 0 {
			continue // only comments
		}
		if obj.GetKind() == "" || obj.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion and kind", n)
		}
		if !obj.IsList() {
			objects = append(objects, obj)
			continue
		}
		if err := obj.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
}
