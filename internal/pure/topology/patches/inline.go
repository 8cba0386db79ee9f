// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/pure/topology/expression"
)

// change is an operation with its value, and where it comes from.
type change struct {
	of     operation
	patch  string
	number int // of the definition
	value  json.RawMessage
}

// wrap says which change an error is about.
func (c *change) wrap(err error) error {
	return fmt.Errorf("patch %q, definitions[%d]: %s %s: %w", c.patch, c.number, c.of.op, c.of.path, err)
}

// inline adds what a patch changes in an item to what is to be changed. Nothing
// is applied yet: values depend on variables, not on the template, so what
// follows one another is applied at once.
func (t *templateState) inline(p *patch) error {
	on := p.enabled == nil
	for n := range p.definitions {
		d := &p.definitions[n]
		if !t.selectedBy(d.selector) {
			continue
		}
		if !on {
			if yes, err := enabled(p.enabled, t.values); err != nil {
				return fmt.Errorf("patch %q: enabledIf: %w", p.name, err)
			} else if !yes {
				return nil
			}
			on = true
		}
		for _, o := range d.operations {
			c := change{of: o, patch: p.name, number: n}
			var err error
			if c.value, err = o.evaluate(t.values, t.made); err != nil {
				return c.wrap(err)
			}
			t.changes = append(t.changes, c)
		}
	}
	return nil
}

func enabled(e *expression.Expression, values map[string]any) (bool, error) {
	text, err := e.Render(values)
	if err != nil {
		return false, err
	}
	value, err := fromYAML(text)
	return string(value) == "true", err
}

// evaluate makes the value of an operation. made are values by the text that
// they were made of: groups of workers often have the same.
func (o *operation) evaluate(values map[string]any, made map[string]json.RawMessage) (json.RawMessage, error) {
	switch {
	case o.variable != nil:
		value, err := o.variable.lookUp(values)
		if err != nil {
			return nil, fmt.Errorf("valueFrom.variable: %w", err)
		}
		return value, nil
	case o.template != nil:
		text, err := o.template.Render(values)
		if err == nil && strings.Contains(text, expression.NoValue) {
			err = errors.New("it prints a variable that has no value: set it in spec.topology of the Cluster, give it a default, or ask for it by {{ if }}")
		}
		if err != nil {
			return nil, fmt.Errorf("valueFrom.template: %w", err)
		}
		value, known := made[text]
		if known {
			return value, nil
		}
		if value, err = fromYAML(text); err != nil {
			return nil, fmt.Errorf("valueFrom.template: it makes no YAML: %w", err)
		}
		made[text] = value
		return value, nil
	}
	return o.value, nil
}

// fromYAML turns what a template made to JSON. Most of it is a word, for which
// no parser is needed.
func fromYAML(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if word(text) {
		return json.RawMessage(`"` + text + `"`), nil
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text), nil
	}
	return yaml.YAMLToJSON([]byte(text))
}

// word reports whether a text is a string in YAML as it is in JSON: it begins
// like a name or path, has no character that either treats in another way, and
// is no word for true, false or null.
func word(text string) bool {
	if text == "" || !(text[0] >= 'a' && text[0] <= 'z' || text[0] >= 'A' && text[0] <= 'Z' || text[0] == '/') || text[len(text)-1] == ':' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/._-:@", c) >= 0) {
			return false
		}
	}
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return false
	}
	return true
}

// flush applies what is to be changed.
func (t *templateState) flush() error {
	changes := t.changes
	t.changes = nil
	if len(changes) == 0 {
		return nil
	}
	all, stay := make(jsonpatch.Patch, 0, len(changes)), true
	for i := range changes {
		all = append(all, changes[i].operation())
		stay = stay && changes[i].of.stays
	}
	if after, err := all.Apply(t.document); err == nil && stay {
		t.document = after
		return nil
	}
	for i := range changes { // one by one, to name the one that fails
		after, err := jsonpatch.Patch{changes[i].operation()}.Apply(t.document)
		if err != nil {
			return changes[i].wrap(explain(err, changes[i].of.op))
		}
		if !changes[i].of.stays {
			if err := t.beyond(after); err != nil {
				return changes[i].wrap(err)
			}
		}
		t.document = after
	}
	return nil
}

func (c *change) operation() jsonpatch.Operation {
	op, path := quote(c.of.op), quote(c.of.path)
	out := jsonpatch.Operation{"op": &op, "path": &path}
	if c.of.op != "remove" {
		out["value"] = &c.value
	}
	return out
}

func quote(text string) json.RawMessage {
	out, err := json.Marshal(text)
	if err != nil { // no string fails
		return json.RawMessage(`""`)
	}
	return out
}

// explain adds a remedy to what does not apply.
func explain(err error, op string) error {
	remedy := "add what is above it first"
	switch op {
	case "replace":
		remedy = "use add, or have the template set it"
	case "remove":
		remedy = "have the template set it, or have enabledIf ask for it"
	}
	return fmt.Errorf("it does not apply to the template: %w: %s", err, remedy)
}
