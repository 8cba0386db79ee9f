// SPDX-License-Identifier: Apache-2.0

package gotemplate

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"text/template/parse"
)

const (
	// A node takes as long as processing a few words.
	nodeCost = 16
	// A template includes templates that include others, each with a part of the
	// stack: no class has more than a few.
	maxDepth = 50
	// A variable is found by its name among all of them, each time it is used.
	maxVariables = 200
)

// Names of functions that are inserted after parsing. A template that names them is
// refused: the parser has no such functions.
const (
	chargeRanged  = "chargeRanged"
	chargePrinted = "chargePrinted"
)

// sized finds a verb of printf with a width or precision.
var sized = regexp.MustCompile(`%[-+# ]*(\[\d+\])?[0-9*.]`)

// mark is the charge of a text node that is inserted where a list of nodes starts, so
// that a loop over nothing costs as well. A mark is recognized by the address of its
// text, which no other text has.
type mark struct{ cost, depth int }

// walker prepares the trees of a template, which text/template executes.
type walker struct {
	marks     map[*byte]mark
	used      map[string]bool // functions
	isName    bool
	variables int
	err       error
}

// refuse records that a template of a name has what only others may have.
func (w *walker) refuse(what string) {
	if w.isName && w.err == nil {
		w.err = fmt.Errorf("must not use %s: a template of names has text, fields, functions in pipes, if and with", what)
	}
}

func (w *walker) mark(m mark) parse.Node {
	text := make([]byte, 1)
	w.marks[&text[0]] = m
	return &parse.TextNode{NodeType: parse.NodeText, Text: text}
}

func (w *walker) template(root *parse.ListNode) {
	w.list(root)
	if w.isName {
		return // it includes none
	}
	root.Nodes = append(append([]parse.Node{w.mark(mark{depth: 1})}, root.Nodes...), w.mark(mark{depth: -1}))
}

// list inserts the cost of the nodes of a list; lists inside have their own.
func (w *walker) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	cost := nodeCost
	for _, n := range l.Nodes {
		cost += nodeCost * w.node(n)
	}
	l.Nodes = append([]parse.Node{w.mark(mark{cost: cost})}, l.Nodes...)
}

// node returns how many nodes are executed for one, without those of its lists.
func (w *walker) node(n parse.Node) int {
	switch n := n.(type) {
	case *parse.ActionNode:
		return 1 + w.pipe(n.Pipe)
	case *parse.TemplateNode:
		w.refuse("template")
		return 1 + w.pipe(n.Pipe)
	case *parse.IfNode:
		return w.branch(&n.BranchNode)
	case *parse.WithNode:
		return w.branch(&n.BranchNode)
	case *parse.RangeNode:
		w.refuse("range")
		cost := w.branch(&n.BranchNode)
		call(n.Pipe, chargeRanged)
		w.used[chargeRanged] = true
		return cost
	case *parse.PipeNode:
		return w.pipe(n)
	case *parse.ChainNode:
		return len(n.Field) + w.node(n.Node)
	case *parse.FieldNode:
		return len(n.Ident)
	case *parse.VariableNode:
		return len(n.Ident)
	case *parse.IdentifierNode:
		w.used[n.Ident] = true
	}
	return 1
}

func (w *walker) branch(n *parse.BranchNode) int {
	w.list(n.List)
	w.list(n.ElseList)
	return 1 + w.pipe(n.Pipe)
}

func (w *walker) pipe(p *parse.PipeNode) int {
	if p == nil {
		return 0
	}
	if !p.IsAssign {
		w.variables += len(p.Decl)
	}
	if w.variables > maxVariables && w.err == nil {
		w.err = fmt.Errorf("has more than %d variables: use fewer", maxVariables)
	}
	cost := 1
	for i, c := range p.Cmds {
		if id, ok := c.Args[0].(*parse.IdentifierNode); ok && id.Ident == "printf" {
			w.printf(c, i > 0)
		}
		for _, arg := range c.Args {
			cost += w.node(arg)
		}
	}
	return cost
}

// printf refuses formats with a width or precision for names, and unknown formats.
func (w *walker) printf(c *parse.CommandNode, piped bool) {
	if len(c.Args) < 2 {
		if piped {
			w.refuse("printf with a format from a pipe")
		}
		return
	}
	format, ok := c.Args[1].(*parse.StringNode)
	if !ok {
		w.refuse("printf with a format that is no text")
		return
	}
	if sized.MatchString(strings.ReplaceAll(format.Text, "%%", "")) {
		w.refuse("printf with a width or precision")
	}
}

// call appends a function to a pipe.
func call(p *parse.PipeNode, name string) {
	f := parse.NewIdentifier(name).SetPos(p.Pos)
	p.Cmds = append(p.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: p.Pos, Args: []parse.Node{f}})
}

// print has each printed value charged before it is text. Only values that are
// changed after they are part of others can be larger than what was charged.
func print(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, each := range n.Nodes {
				print(each)
			}
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			call(n.Pipe, chargePrinted)
		}
	case *parse.IfNode:
		print(n.List)
		print(n.ElseList)
	case *parse.WithNode:
		print(n.List)
		print(n.ElseList)
	case *parse.RangeNode:
		print(n.List)
		print(n.ElseList)
	}
}

// ranged charges for the order in which a map is visited.
func (t *Template) ranged(v any) (any, error) {
	if r := reflect.ValueOf(v); r.Kind() == reflect.Map {
		return v, t.budget.charge(nodeCost * r.Len())
	}
	return v, nil
}

func (t *Template) printed(v any) (any, error) {
	return v, t.budget.charge(weight(reflect.ValueOf(v), int(*t.budget), 0))
}

// writer collects the text, and charges for it.
type writer struct {
	strings.Builder
	t     *Template
	depth int
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if len(p) == 1 {
		if m, ok := w.t.marks[&p[0]]; ok {
			if w.depth += m.depth; w.depth > maxDepth {
				return 0, errDepth
			}
			return 1, w.t.budget.charge(m.cost)
		}
	}
	if err := w.t.budget.charge(len(p)); err != nil {
		return 0, err
	}
	if w.Len()+len(p) > maxOutput {
		return 0, ErrOutput
	}
	return w.Builder.Write(p)
}

var errDepth = fmt.Errorf("its templates include others to a depth of more than %d: end the recursion earlier", maxDepth)

func (b *Budget) charge(n int) error {
	if n < 0 || n > int(*b) { // below zero is an overflow
		*b = 0
		return ErrCost
	}
	*b -= Budget(n)
	return nil
}
