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

	goyaml "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// maxNodes limits the expansion of aliases in one document: a value of a MiB has fewer
// nodes without them.
const maxNodes = 500_000

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
		if expands(doc) {
			return all, "has aliases that make too much of it"
		}
		raw, err := yaml.YAMLToJSON(doc)
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

// expands reports whether a document is much larger than its text, through aliases of
// aliases, or is infinite.
func expands(doc []byte) bool {
	if !bytes.ContainsRune(doc, '*') || !bytes.ContainsRune(doc, '&') {
		return false
	}
	var root goyaml.Node
	if goyaml.Unmarshal(doc, &root) != nil {
		return false // the real parser reports the error
	}
	return nodes(&root, map[*goyaml.Node]int{}) > maxNodes
}

// nodes counts the nodes that n expands to, up to slightly above maxNodes.
func nodes(n *goyaml.Node, of map[*goyaml.Node]int) int {
	if known, ok := of[n]; ok {
		return known
	}
	of[n] = maxNodes + 1 // for a cycle
	sum := 1
	if n.Alias != nil {
		sum += nodes(n.Alias, of)
	}
	for _, child := range n.Content {
		sum = min(sum+nodes(child, of), maxNodes+1)
	}
	of[n] = sum
	return sum
}
