// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
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
	return fmt.Sprintf("no value for the variables [%s]: set them in the environment, in the configuration file or, for a cluster, with --var NAME=VALUE", strings.Join(e.Names, ", "))
}

// Envsubst is the language of upstream's templates: ${VAR}, ${VAR:=default} and
// the other forms of the shell's parameter expansion. A default is used when
// the variable is unset or empty, and may itself be a variable. $VAR without
// braces is text, and so is ${VAR} after another dollar: $${VAR}.
type Envsubst struct{}

// Variables implements Processor.
func (Envsubst) Variables(raw []byte) (map[string]*string, error) {
	parts, err := split(string(raw))
	if err != nil {
		return nil, err
	}
	found := map[string]*string{}
	for _, p := range parts {
		if p.tree != nil {
			collect(p.tree.Root, found)
		}
	}
	return found, nil
}

// Process implements Processor.
func (Envsubst) Process(raw []byte, lookup func(string) (string, bool)) ([]byte, error) {
	parts, err := split(string(raw))
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	for _, p := range parts {
		if p.tree != nil {
			lacking(p.tree.Root, lookup, missing)
		}
	}
	if len(missing) > 0 {
		return nil, &MissingError{slices.Sorted(maps.Keys(missing))}
	}
	var out bytes.Buffer
	for _, p := range parts {
		if p.tree == nil {
			out.WriteString(strings.ReplaceAll(p.text, "$$", "$"))
			continue
		}
		filled, err := envsubst.Eval(p.text, func(name string) (string, bool) {
			v, _ := lookup(name)
			return v, true // missing values are reported by now
		})
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", p.line, p.text, err)
		}
		out.WriteString(filled)
	}
	return out.Bytes(), nil
}

// part is text, or an expression with its tree.
type part struct {
	text string
	line int
	tree *parse.Tree
}

// maxDepth limits the nesting of variables in defaults.
const maxDepth = 50

// spaced is the old form with blanks inside the braces: ${ VAR }.
var spaced = regexp.MustCompile(`^\$\{\s*([a-zA-Z0-9_]+)\s*\}$`)

// split splits a template, so that the library parses each expression separately: it
// reports no line numbers, and copies the rest of the text for each escaped dollar.
func split(text string) ([]part, error) {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return nil, fmt.Errorf("line %d: a template is text, and this is a byte 0", lineAt(text, at)) // the library's end of text
	}
	var parts []part
	line, from := 1, 0
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "$$"):
			i += 2
		case strings.HasPrefix(text[i:], "${"):
			parts = append(parts, part{text: text[from:i]})
			line += strings.Count(text[from:i], "\n")
			expr, err := expression(text[i:])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			i += len(expr)
			from = i
			p := part{text: spaced.ReplaceAllString(expr, "$${$1}"), line: line}
			line += strings.Count(expr, "\n")
			if p.tree, err = parse.Parse(p.text); err != nil {
				return nil, fmt.Errorf("line %d: %s is not a form of ${VARIABLE}: %w", p.line, excerpt(expr), err)
			}
			parts = append(parts, p)
		default:
			i++
		}
	}
	return append(parts, part{text: text[from:]}), nil
}

// expression is the expression that text starts with, to its closing brace.
func expression(text string) (string, error) {
	depth := 0
	for i := range len(text) {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			if depth++; depth > maxDepth {
				return "", fmt.Errorf("%s holds variables more than %d deep", excerpt(text), maxDepth)
			}
		case text[i] == '}':
			if depth--; depth == 0 {
				return text[:i+1], nil
			}
		}
	}
	return "", fmt.Errorf("the brace of %s is not closed", excerpt(text))
}

// excerpt is the start of an expression, enough to find it.
func excerpt(expr string) string {
	expr, _, more := strings.Cut(expr, "\n")
	if len(expr) > 60 {
		expr, more = strings.ToValidUTF8(expr[:60], ""), true
	}
	if more {
		expr += "..."
	}
	return expr
}

func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// collect records the variables below a node. One that must be given in any of its uses
// has no default.
func collect(n parse.Node, found map[string]*string) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			collect(child, found)
		}
	case *parse.FuncNode:
		def := fallback(n)
		if before, seen := found[n.Param]; !seen || before != nil && (def == nil || *before == "") {
			found[n.Param] = def
		}
		for _, arg := range n.Args {
			collect(arg, found)
		}
	}
}

// lacking records the variables below a node that have no value and need one. The
// variables in a default are not needed when the default is not used.
func lacking(n parse.Node, lookup func(string) (string, bool), missing map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			lacking(child, lookup, missing)
		}
	case *parse.FuncNode:
		value, given := lookup(n.Param)
		if !given && fallback(n) == nil {
			missing[n.Param] = true
		}
		if hasDefault(n) && value != "" {
			return
		}
		for _, arg := range n.Args {
			lacking(arg, lookup, missing)
		}
	}
}

// fallback is the value of an expression without a value: its default, or empty for one
// that removes, replaces or cuts text, as in upstream (the components of real providers
// rely on that); nil for one that must be given.
func fallback(n *parse.FuncNode) *string {
	switch {
	case hasDefault(n):
		return new(text(n.Args))
	case len(n.Args) > 0 && n.Name != ":?" && n.Name != ":+":
		return new("")
	}
	return nil
}

func hasDefault(n *parse.FuncNode) bool { return n.Name == "=" || n.Name == ":=" || n.Name == ":-" }

// text returns a default as written in the template.
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
