// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"

	goyaml "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// ErrAliases means that a YAML document is infinite, or much larger than its text.
var ErrAliases = errors.New("YAML with aliases that make too much of it")

// maxSize limits what a document is when its aliases are replaced by their values: the
// bytes of its values, and nodeSize for each. Users may send less without them.
const maxSize, nodeSize = 8 << 20, 8

var atLine = regexp.MustCompile(`line \d+`)

// CheckYAML returns an error if the first document of a text must not be parsed: ErrAliases,
// or that it is not YAML. Parsers limit how many nodes aliases add, but not their size: with
// a text of half a megabyte and a hundred thousand aliases of it, a request of a megabyte
// becomes 50 GB. The error does not quote the text.
func CheckYAML(text []byte) error {
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 || json.Valid(text) {
		return nil // there is no alias
	}
	var root goyaml.Node
	if err := goyaml.Unmarshal(text, &root); err != nil {
		problem := "not YAML"
		if at := atLine.FindString(err.Error()); at != "" {
			problem += ": see " + at
		}
		return errors.New(problem)
	}
	if size(&root, map[*goyaml.Node]int{}) > maxSize {
		return ErrAliases
	}
	return nil
}

// YAMLToJSON converts a document that CheckYAML accepts. A key that is there twice is an error.
func YAMLToJSON(text []byte) ([]byte, error) {
	if err := CheckYAML(text); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(text)
}

// size is that of a node with what it contains, up to slightly above maxSize.
func size(n *goyaml.Node, of map[*goyaml.Node]int) int {
	if known, ok := of[n]; ok {
		return known
	}
	of[n] = maxSize + 1 // for a cycle
	sum := nodeSize + len(n.Value)
	if n.Alias != nil {
		sum += size(n.Alias, of)
	}
	for _, child := range n.Content {
		sum = min(sum+size(child, of), maxSize+1)
	}
	of[n] = sum
	return sum
}
