// SPDX-License-Identifier: Apache-2.0

// Package gotemplate renders the Go templates of users, with sprig's functions: the
// patches of a ClusterClass, the names of Machines and of the objects of a topology, and
// the files of a KubeadmConfig. No other package executes them.
//
// A template runs in the process that runs all clusters, and in admission before its
// object exists, so its cost has a Budget. Each node that is executed, each byte that a
// function receives or returns and each byte of output is charged, the work of a
// function before it is called. Cost limits time, too: a unit is a few nanoseconds of
// work. There is no clock, so a template that renders once renders on any machine, and
// one that costs too much stops immediately.
//
// The same values always render the same text: functions whose results differ between
// calls are refused, since a template with a different text each time would replace
// machines endlessly.
package gotemplate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/runtime"
)

// Budget is the cost that renderings may still have, in units of about one byte
// handled.
type Budget int

const (
	// PerObject is for all templates of one object: ten times the size of the
	// largest object that a server stores, and at most about a second.
	PerObject Budget = 16 << 20
	// PerName is for one name: some hundred steps on texts of a few hundred bytes.
	PerName Budget = 64 << 10
)

const (
	// A Secret, the largest object that is rendered, holds 1 MiB.
	maxOutput = 1 << 20
	// Above it is more than the parser can read on a small stack. The API allows
	// 10 KiB in objects; a file in a Secret can have more.
	maxText    = 256 << 10
	maxActions = 10000
	// An error is part of conditions and events, and a template can compose it.
	maxError = 1 << 10
)

// ErrCost means that a template used its budget, ErrOutput that its text is longer
// than any object.
var (
	ErrCost   = errors.New("it costs too much: make loops and texts smaller")
	ErrOutput = fmt.Errorf("makes more than %d KiB: make its text smaller", maxOutput>>10)
)

// NoValue is the text of a value that does not exist.
const NoValue = "<no value>"

// Template is a parsed template. It can be used concurrently.
type Template struct {
	mu     sync.Mutex // guards budget, that is, a rendering
	budget *Budget
	tpl    *template.Template
	marks  map[*byte]mark
	// changes reports that a function changes values in place.
	changes bool
}

// Parse reads a template with all that text/template has. A value that does not
// exist is false in a condition, and prints as NoValue.
func Parse(text string) (*Template, error) { return read("template", text, false) }

// ParseName reads the template of a name: text, fields, functions in pipes, if and
// with. A field that does not exist is an error.
func ParseName(text string) (*Template, error) { return read("name", text, true) }

func read(name, text string, isName bool) (*Template, error) {
	if len(text) > maxText || strings.Count(text, "{{") > maxActions {
		return nil, fmt.Errorf("is longer than %d KiB, or has more than %d actions: make it shorter", maxText>>10, maxActions)
	}
	all := functions()
	trees, err := parse.Parse(name, text, "", "", all, builtin)
	if err != nil {
		return nil, fmt.Errorf("is no Go template: %w", explain(err))
	}
	t := &Template{tpl: template.New(name), marks: map[*byte]mark{}}
	w := walker{marks: t.marks, used: map[string]bool{}, isName: isName}
	for _, tree := range trees {
		w.template(tree.Root)
	}
	if len(trees) > 1 {
		w.refuse("define")
	}
	if w.err != nil {
		return nil, w.err
	}
	t.bind(all, w.used)
	if isName {
		t.tpl.Option("missingkey=error")
	}
	for name, tree := range trees {
		if t.changes {
			print(tree.Root)
		}
		if _, err := t.tpl.AddParseTree(name, tree); err != nil {
			return nil, fmt.Errorf("is no Go template: %w", err)
		}
	}
	return t, nil
}

// bind adds to the template the functions that it uses.
func (t *Template) bind(all map[string]any, used map[string]bool) {
	if len(used) == 0 {
		return
	}
	bound := template.FuncMap{chargeRanged: t.ranged, chargePrinted: t.printed}
	for name := range used {
		if f, ok := all[name]; ok {
			bound[name] = t.charged(name, f)
		}
		t.changes = t.changes || slices.Contains(changing, name)
	}
	t.tpl.Funcs(bound)
}

var unknown = regexp.MustCompile(`function "(\w+)" not defined`)

// explain adds why a function of sprig does not exist.
func explain(err error) error {
	if m := unknown.FindStringSubmatch(err.Error()); m != nil {
		if why := refused[m[1]]; why != "" {
			return fmt.Errorf("%w: %s", err, why)
		}
	}
	return err
}

// Render returns the text for values by their names, decoded from JSON, and reduces
// the budget by what it costs.
func (t *Template) Render(values map[string]any, b *Budget) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes {
		values = runtime.DeepCopyJSON(values) // others use them, too
	}
	t.budget = b
	out := &writer{t: t}
	err := t.tpl.Execute(out, values)
	if err == nil {
		return out.String(), nil
	}
	for _, limit := range []error{ErrCost, ErrOutput} {
		if errors.Is(err, limit) {
			return "", limit
		}
	}
	if text := err.Error(); len(text) > maxError {
		err = errors.New(strings.ToValidUTF8(text[:maxError], "") + " …")
	}
	return "", err
}
