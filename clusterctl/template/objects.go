// SPDX-License-Identifier: Apache-2.0

// Package template fills variables into templates, and splits and joins files of several
// objects.
package template

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Objects splits a file of one or more YAML or JSON documents into objects; lists
// are taken apart. An error names the document and its line in the file.
func Objects(file []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, d := range documents(file) {
		content, err := d.decode()
		if err != nil {
			return nil, err
		}
		if content == nil {
			continue // null
		}
		if objects, err = appendObjects(objects, content); err != nil {
			return nil, fmt.Errorf("document %d (line %d) %w", d.number, d.line, err)
		}
	}
	return objects, nil
}

// YAML writes objects as one file, which Objects reads.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var out bytes.Buffer
	for i, obj := range objects {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}

// document is a part of a file that has content.
type document struct {
	text         []byte
	number, line int // from 1; line is the first with content
}

// documents splits a file at its separators: lines that start with --- or ..., alone or
// before a blank. A line of a text value cannot be one: it is indented, or YAML forbids
// it.
func documents(file []byte) []document {
	file = bytes.TrimPrefix(file, []byte("\ufeff"))
	var all []document
	current, content := document{line: 1}, false
	flush := func() {
		if content {
			current.number = len(all) + 1
			all = append(all, current)
		}
	}
	line := 0
	for text := range bytes.Lines(file) {
		line++
		if rest, is := separated(text); is {
			flush()
			current, content = document{line: line}, false
			// Columns do not matter there: the rest is an object, or a comment.
			text = append([]byte("   "), rest...)
		}
		trimmed := bytes.TrimSpace(text)
		switch {
		case content:
		case len(trimmed) == 0 || trimmed[0] == '#' || text[0] == '%': // % is a directive, such as the version of YAML
			continue
		default:
			content, current.line = true, line
		}
		current.text = append(current.text, text...)
	}
	flush()
	return all
}

// separated returns what follows the separator at the start of a line.
func separated(line []byte) (rest []byte, is bool) {
	for _, mark := range []string{"---", "..."} {
		rest, is = bytes.CutPrefix(line, []byte(mark))
		if is && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			return rest, true
		}
	}
	return nil, false
}

// decode returns the content of a document. Duplicate keys are refused: one of them would
// be lost.
func (d document) decode() (any, error) {
	if !utf8.Valid(d.text) {
		return nil, fmt.Errorf("document %d (line %d) is not text of UTF-8", d.number, d.line)
	}
	text, err := sanitize.YAMLToJSON(d.text)
	if err != nil {
		return nil, d.explain(err)
	}
	var content any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("document %d (line %d): %w", d.number, d.line, err)
	}
	return content, nil
}

// placed is the prefix of a parser message about a line.
var placed = regexp.MustCompile(`line (\d+): `)

// explain adds the line of the file to the error of a document.
func (d document) explain(err error) error {
	said := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
	line := d.line
	if at := placed.FindStringSubmatchIndex(said); at != nil {
		n, _ := strconv.Atoi(said[at[2]:at[3]]) // digits
		said = said[at[1]:]
		said, _, _ = strings.Cut(said, "\n") // the first of several is enough
		if strings.HasPrefix(said, "did not find expected") {
			n++ // the parser reports the line before a missing token; the scanner does not
		}
		line += min(n, bytes.Count(bytes.TrimRight(d.text, "\r\n"), []byte("\n"))+1) - 1 // an unterminated value is reported after the last line
	}
	if strings.Contains(said, "cannot start any token") && bytes.ContainsRune(d.text, '\t') {
		said += ": indent with blanks, not with tabs"
	}
	return fmt.Errorf("document %d, which begins at line %d, is not valid YAML: line %d: %s", d.number, d.line, line, said)
}

// appendObjects adds an object, or those of a list.
func appendObjects(objects []*unstructured.Unstructured, content any) ([]*unstructured.Unstructured, error) {
	fields, ok := content.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("is no object, but %s", kindOf(content))
	}
	obj := &unstructured.Unstructured{Object: fields}
	if err := wellFormed(obj); err != nil {
		return nil, err
	}
	items, isList := fields["items"].([]any)
	if obj.GetKind() != "List" && !(isList && strings.HasSuffix(obj.GetKind(), "List")) {
		return append(objects, obj), nil
	}
	for i, item := range items {
		var err error
		if objects, err = appendObjects(objects, item); err != nil {
			return nil, fmt.Errorf("has item %d that %w", i+1, err)
		}
	}
	return objects, nil
}

// wellFormed refuses fields that the accessors of an object would treat as missing.
func wellFormed(obj *unstructured.Unstructured) error {
	for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		v, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		if err != nil {
			return fmt.Errorf("has metadata that are no object, but %s", kindOf(obj.Object["metadata"]))
		}
		if _, ok := v.(string); found && v != nil && !ok {
			return fmt.Errorf("has %s %v, which is no text but %s: quote it", strings.Join(path, "."), v, kindOf(v))
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "metadata", name)
		if v == nil {
			continue
		}
		all, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("has metadata.%s that are no object, but %s", name, kindOf(v))
		}
		for key, value := range all {
			if value == nil {
				all[key] = "" // as the API server reads it; the accessors would lose all
			} else if _, ok := value.(string); !ok {
				return fmt.Errorf("has metadata.%s[%s] %v, which is no text but %s: quote it", name, key, value, kindOf(value))
			}
		}
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return errors.New("has no apiVersion and kind")
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case float64:
		if v != math.Trunc(v) {
			return "a fraction"
		}
		return "a number"
	case nil:
		return "nothing"
	}
	return "a number"
}
