// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

// inline applies a patch to an item. The error says which change it is about.
func (t *templateState) inline(p *patch) error {
	on := p.enabled == nil
	for n := range p.definitions {
		d := &p.definitions[n]
		if !t.selectedBy(d.selector) {
			continue
		}
		if !on {
			if yes, err := t.enables(p.enabled); err != nil {
				return fmt.Errorf("patch %q: enabledIf: %w", p.name, err)
			} else if !yes {
				return nil
			}
			on = true
		}
		for i := range d.operations {
			o := &d.operations[i]
			if err := t.apply(o); err != nil {
				return fmt.Errorf("patch %q, definitions[%d]: %s %s: %w", p.name, n, o.op, o.path, err)
			}
		}
	}
	return nil
}

func (t *templateState) enables(e *gotemplate.Template) (bool, error) {
	text, err := e.Render(t.values, &t.budget)
	if err != nil {
		return false, err
	}
	value, err := fromYAML(text)
	return value == true, err
}

// evaluate returns the value of an operation, which others may have as well: groups
// of workers often have the same.
func (t *templateState) evaluate(o *operation) (any, error) {
	switch {
	case o.variable != nil:
		value, err := o.variable.lookUp(t.values)
		if err != nil {
			return nil, fmt.Errorf("valueFrom.variable: %w", err)
		}
		return value, nil
	case o.template != nil:
		text, err := o.template.Render(t.values, &t.budget)
		if err == nil && strings.Contains(text, gotemplate.NoValue) {
			err = errors.New("it prints a variable that has no value: set it in spec.topology of the Cluster, give it a default, or ask for it by {{ if }}")
		}
		if err != nil {
			return nil, fmt.Errorf("valueFrom.template: %w", err)
		}
		value, known := t.made[text]
		if known {
			return value, nil
		}
		if value, err = fromYAML(text); err != nil {
			return nil, fmt.Errorf("valueFrom.template: it makes no YAML: %w", err)
		}
		t.made[text] = value
		return value, nil
	}
	return o.value, nil
}

// fromYAML decodes the output of a template. Most outputs are a word or empty, for which
// no parser is needed.
func fromYAML(text string) (any, error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return nil, nil
	case word(text):
		return text, nil
	}
	if value, err := decodeJSON([]byte(text)); err == nil {
		return value, nil
	}
	if err := sanitize.CheckYAML([]byte(text)); err != nil {
		return nil, err
	}
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return decodeJSON(converted)
}

// word reports whether a text is the same string in YAML and in JSON: it starts like a
// name or path, has no character that either treats differently, and is not a word for
// true, false or null.
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
