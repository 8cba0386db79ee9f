// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// decodeAll adds values to others by their names; they win over those.
func decodeAll(into map[string]any, of []clusterv1.ClusterVariable) error {
	for _, v := range of {
		value, err := decodeJSON(v.Value.Raw)
		if err != nil {
			return fmt.Errorf("variable %q: its value is no JSON: %w", v.Name, err)
		}
		into[v.Name] = value
	}
	return nil
}

func decodeJSON(text []byte) (value any, err error) {
	err = utiljson.Unmarshal(text, &value)
	return value, err
}

// decodeBuiltins are builtins as templates see them.
func decodeBuiltins(b hooksv1.Builtins) (map[string]any, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	value, err := decodeJSON(text)
	out, _ := value.(map[string]any)
	return out, err
}

// scope are the values that a template of an item sees: overrides replace those
// of the cluster, builtins add to them.
func scope(cluster map[string]any, item *Item, overrides []clusterv1.ClusterVariable) (map[string]any, error) {
	own, err := decodeBuiltins(item.Builtins)
	if err != nil {
		return nil, err
	}
	all, _ := cluster[Name].(map[string]any)
	all = maps.Clone(all)
	maps.Copy(all, own)
	out := maps.Clone(cluster)
	out[Name] = all
	return out, decodeAll(out, overrides)
}

// request are values as extensions get them.
func request(of []clusterv1.ClusterVariable, b hooksv1.Builtins) ([]hooksv1.Variable, error) {
	var out []hooksv1.Variable
	if b != (hooksv1.Builtins{}) {
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		out = append(out, hooksv1.Variable{Name: Name, Value: apiextensionsv1.JSON{Raw: text}})
	}
	for _, v := range of {
		out = append(out, hooksv1.Variable(v))
	}
	return out, nil
}

// path is the path of a value: names of fields, and indices of lists.
type path []any

// variable is the name of the variable at the start of a path.
func (p path) variable() string { return p[0].(string) }

// parsePath reads a path such as proxy.hosts[0].name.
func parsePath(text string) (path, error) {
	var out path
	for part := range strings.SplitSeq(text, ".") {
		name, indices, _ := strings.Cut(part, "[")
		if name == "" {
			return nil, fmt.Errorf("%q: a name is missing: write it as in a.b[0].c", text)
		}
		out = append(out, name)
		for indices != "" {
			index, rest, closed := strings.Cut(indices, "]")
			n, err := strconv.Atoi(index)
			if !closed || err != nil || n < 0 || rest != "" && rest[0] != '[' {
				return nil, fmt.Errorf("%q: an index is not written as in a.b[0].c", text)
			}
			out = append(out, n)
			indices = strings.TrimPrefix(rest, "[")
			if rest == "[" {
				return nil, fmt.Errorf("%q: an index is not written as in a.b[0].c", text)
			}
		}
		if strings.HasSuffix(part, "[") {
			return nil, fmt.Errorf("%q: an index is not written as in a.b[0].c", text)
		}
	}
	return out, nil
}

// lookUp finds the value at a path.
func (p path) lookUp(values map[string]any) (any, error) {
	var at any = values
	for n, step := range p {
		var there bool
		switch step := step.(type) {
		case string:
			fields, ok := at.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s is no object", p[:n])
			}
			at, there = fields[step]
		case int:
			list, ok := at.([]any)
			if !ok {
				return nil, fmt.Errorf("%s is no list", p[:n])
			}
			if there = step < len(list); there {
				at = list[step]
			}
		}
		if !there {
			return nil, fmt.Errorf("%s has no value: set it in spec.topology of the Cluster, give it a default, or have enabledIf ask for it", p[:n+1])
		}
	}
	return at, nil
}

// String writes the path as it was.
func (p path) String() string {
	var b strings.Builder
	for _, step := range p {
		if n, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step.(string))
	}
	return b.String()
}
