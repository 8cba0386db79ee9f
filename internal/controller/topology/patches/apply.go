// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// apply changes the document by an operation, in place: encoding and decoding it for
// each patch costs more than everything else. Admission limits operations to fields
// below spec.
func (t *templateState) apply(o *operation) error {
	value, err := t.evaluate(o)
	if err != nil {
		return err
	}
	t.patched = true
	if _, err := o.change(t.document, o.pointer, runtime.DeepCopyJSONValue(value)); err != nil {
		return o.explain(err)
	}
	return nil
}

// pointer parses a JSON pointer.
func pointer(path string) ([]string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, errors.New("a path begins with /")
	}
	steps := strings.Split(rest, "/")
	for i, step := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	return steps, nil
}

// change returns the new value of at after a change below it, according to RFC 6902.
func (o *operation) change(at any, path []string, value any) (any, error) {
	switch at := at.(type) {
	case map[string]any:
		below, there := at[path[0]]
		switch {
		case len(path) > 1 && there:
			changed, err := o.change(below, path[1:], value)
			if err == nil {
				at[path[0]] = changed
			}
			return at, err
		case len(path) > 1 || o.op != "add" && !there:
			return nil, o.missing(path)
		case o.op == "remove":
			delete(at, path[0])
		default:
			at[path[0]] = value
		}
		return at, nil
	case []any:
		n, err := strconv.Atoi(path[0])
		switch last := len(path) == 1; {
		case last && o.op == "add" && (path[0] == "-" || err == nil && n == len(at)):
			return append(at, value), nil
		case err != nil || n < 0 || n >= len(at):
			return nil, o.missing(path)
		case !last:
			at[n], err = o.change(at[n], path[1:], value)
			return at, err
		case o.op == "add":
			return slices.Insert(at, n, value), nil
		case o.op == "remove":
			return slices.Delete(at, n, n+1), nil
		default:
			at[n] = value
			return at, nil
		}
	}
	return nil, o.missing(path)
}

// missing names the first part of the path that does not exist, of which rest is left.
func (o *operation) missing(rest []string) error {
	steps := strings.Split(o.path, "/")
	return fmt.Errorf("there is no %s", strings.Join(steps[:len(steps)-len(rest)+1], "/"))
}

// explain adds a remedy to the error of an operation that does not apply.
func (o *operation) explain(err error) error {
	remedy := "add what is above it first"
	switch o.op {
	case "replace":
		remedy = "use add, or have the template set it"
	case "remove":
		remedy = "have the template set it, or have enabledIf ask for it"
	}
	return fmt.Errorf("it does not apply to the template: %w: %s", err, remedy)
}
