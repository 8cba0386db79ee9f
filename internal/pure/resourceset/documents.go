// SPDX-License-Identifier: Apache-2.0

package resourceset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// documents parses the documents of a value up to the first invalid one; nil is one
// without content.
func documents(data []byte) (all []any, broken string) {
	if t := bytes.TrimSpace(data); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		if values, err := jsonValues(t); err == nil {
			return values, ""
		} // else it may still be YAML in its flow style
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return all, ""
		case err != nil:
			return all, "is not YAML"
		}
		var raw []byte
		if err = sanitize.CheckYAML(doc); err == nil {
			raw, err = yaml.YAMLToJSON(doc)
		}
		if errors.Is(err, sanitize.ErrAliases) {
			return all, "has aliases that make too much of it"
		}
		if err != nil {
			return all, "is not YAML" + line(err)
		}
		values, err := jsonValues(raw)
		if err != nil {
			return all, "cannot be written as JSON"
		}
		all = append(all, values...)
	}
}

// jsonValues parses consecutive JSON values.
func jsonValues(data []byte) (all []any, _ error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		var v any
		if err := decoder.Decode(&v); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, numbers(v))
	}
}

// numbers converts integral numbers to int64, and others to float64, as in unstructured
// objects.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = numbers(value)
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	}
	return v
}

// list returns the items of an object that is a list of others.
func list(fields map[string]any) ([]any, bool) {
	kind, _ := fields["kind"].(string)
	items, ok := fields["items"].([]any)
	return items, ok && strings.HasSuffix(kind, "List")
}

var atLine = regexp.MustCompile(`line (\d+)`)

// line returns where a parser stopped. The rest of its message may contain a value.
func line(err error) string {
	if found := atLine.FindStringSubmatch(err.Error()); found != nil {
		return ": see line " + found[1] + " of it"
	}
	return ""
}
