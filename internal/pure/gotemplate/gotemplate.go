// SPDX-License-Identifier: Apache-2.0

// Package gotemplate renders the Go templates in the patches of a ClusterClass,
// with sprig's functions.
//
// The same values always give the same text: functions whose results differ from
// call to call are refused, since a template that changed each time would have
// machines replaced for ever. And what a template can cost is bounded, since it
// runs in the process that looks after all clusters: steps, and the size of what
// functions are given and make, are charged to a budget.
package gotemplate

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"k8s.io/apimachinery/pkg/runtime"
)

// Template is a template, parsed once. It may be used by several at once.
type Template struct {
	mu    sync.Mutex // guards meter, that is, a rendering
	meter meter
	tpl   *template.Template
	// changes says that a function changes values in place.
	changes bool
}

const (
	// What one rendering may cost, about a byte handled each: several times as much
	// as the largest object that a server stores, and a fraction of a second.
	budget = 4 << 20
	// A pass through a loop costs as much as handling a few words.
	passCost = 64
	// A value that is deeper contains itself, and would be printed for ever.
	deepest = 1000
)

var errCost = errors.New("it costs too much: make loops and texts smaller")

// Parse reads a template.
func Parse(text string) (*Template, error) {
	all := functions()
	trees, err := parse.Parse("template", text, "", "", all, builtin)
	if err != nil {
		return nil, explain(err)
	}
	e := &Template{tpl: template.New("template")}
	used := map[string]bool{}
	for _, tree := range trees {
		instrument(tree.Root, used)
		tree.Root.Nodes = append([]parse.Node{pass()}, tree.Root.Nodes...)
	}
	bound := template.FuncMap{}
	for name := range used {
		if f, ok := all[name]; ok {
			bound[name] = e.meter.charged(name, f)
		}
		e.changes = e.changes || slices.Contains(changing, name)
	}
	e.tpl.Funcs(bound)
	for name, tree := range trees {
		if _, err := e.tpl.AddParseTree(name, tree); err != nil {
			return nil, err
		}
	}
	return e, nil
}

var unknown = regexp.MustCompile(`function "(\w+)" not defined`)

// explain says why a function is not there that sprig has.
func explain(err error) error {
	if m := unknown.FindStringSubmatch(err.Error()); m != nil {
		if why := refused[m[1]]; why != "" {
			return fmt.Errorf("%w: %s", err, why)
		}
	}
	return err
}

// Render makes the text from values by their names, decoded from JSON. A value that is not there is
// nil in a condition, and prints as NoValue.
func (e *Template) Render(values map[string]any) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changes {
		values = runtime.DeepCopyJSON(values) // others are to see them as they are
	}
	e.meter = meter{left: budget}
	out := &writer{meter: &e.meter}
	err := e.tpl.Execute(out, values)
	return out.String(), err
}

// NoValue is what a template prints for a value that is not there.
const NoValue = "<no value>"

// mark is written at each pass through a loop or a template that is included;
// no template can write it by itself, since none can have this slice.
var mark = []byte("pass")

// pass is a node that writes mark.
func pass() parse.Node { return &parse.TextNode{NodeType: parse.NodeText, Text: mark} }

// instrument puts a mark in each loop, and notes the functions that are used.
func instrument(n parse.Node, used map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, each := range n.Nodes {
				instrument(each, used)
			}
		}
	case *parse.ActionNode:
		instrument(n.Pipe, used)
	case *parse.TemplateNode:
		instrument(n.Pipe, used)
	case *parse.IfNode:
		branch(&n.BranchNode, used)
	case *parse.WithNode:
		branch(&n.BranchNode, used)
	case *parse.RangeNode:
		branch(&n.BranchNode, used)
		n.List.Nodes = append([]parse.Node{pass()}, n.List.Nodes...)
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				for _, arg := range c.Args {
					instrument(arg, used)
				}
			}
		}
	case *parse.ChainNode:
		instrument(n.Node, used)
	case *parse.IdentifierNode:
		used[n.Ident] = true
	}
}

func branch(n *parse.BranchNode, used map[string]bool) {
	instrument(n.Pipe, used)
	instrument(n.List, used)
	instrument(n.ElseList, used)
}

// writer collects the text, and charges for it.
type writer struct {
	strings.Builder
	meter *meter
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if len(p) == len(mark) && &p[0] == &mark[0] {
		return len(p), w.meter.charge(passCost)
	}
	if err := w.meter.charge(len(p)); err != nil {
		return 0, err
	}
	return w.Builder.Write(p)
}

// meter is what is left of a budget.
type meter struct{ left int }

func (m *meter) charge(n int) error {
	if n < 0 || n > m.left { // below zero is what has run over
		m.left = 0
		return errCost
	}
	m.left -= n
	return nil
}

// charged is a function that charges for what it gets and makes, before for
// what is a product of both. A template takes a panic as the error of a call.
func (m *meter) charged(name string, f any) any {
	of := reflect.ValueOf(f)
	product := products[name]
	return reflect.MakeFunc(of.Type(), func(args []reflect.Value) []reflect.Value {
		cost := 1
		for _, arg := range args {
			cost += weight(arg, m.left, 0)
		}
		if product != nil && cost <= m.left {
			cost += product(flat(of.Type(), args))
		}
		if err := m.charge(cost); err != nil {
			panic(err)
		}
		var results []reflect.Value
		if of.Type().IsVariadic() {
			results = of.CallSlice(args)
		} else {
			results = of.Call(args)
		}
		if err := m.charge(weight(results[0], m.left, 0)); err != nil {
			panic(err)
		}
		return results
	}).Interface()
}

// flat lists arguments one by one, as values.
func flat(of reflect.Type, args []reflect.Value) []any {
	var out []any
	for i, arg := range args {
		if of.IsVariadic() && i == len(args)-1 {
			for j := range arg.Len() {
				out = append(out, arg.Index(j).Interface())
			}
			continue
		}
		out = append(out, arg.Interface())
	}
	return out
}

// weight is about how many bytes a value has, or more than limit.
func weight(v reflect.Value, limit, depth int) int {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if limit < 0 || depth > deepest {
		return budget + 1
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice, reflect.Array:
		n := v.Len()
		if kind := v.Type().Elem().Kind(); kind != reflect.Interface && kind != reflect.String && kind != reflect.Slice && kind != reflect.Map {
			return n
		}
		for i := 0; i < v.Len() && n <= limit; i++ {
			n += weight(v.Index(i), limit-n, depth+1)
		}
		return n
	case reflect.Map:
		n := v.Len()
		for it := v.MapRange(); n <= limit && it.Next(); {
			n += weight(it.Key(), limit-n, depth+1) + weight(it.Value(), limit-n, depth+1)
		}
		return n
	}
	return 1
}
