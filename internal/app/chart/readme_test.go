// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readme is README.md of the chart: what it is, and its values with the comments that
// they have.
func readme(values []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return nil, fmt.Errorf("read the values of the chart: %w", err)
	}
	var text bytes.Buffer
	text.WriteString("# The chart of capstan-manager\n\n" +
		"This folder is the source of the chart. `capstan generate manager --write-chart DIR` writes the whole, with the CRDs, roles and webhooks of its release; " +
		"how to install it is in [the book](../../docs/book/manager.md#in-a-cluster).\n\n| value | default | |\n|---|---|---|\n")
	nodes, explained := doc.Content[0].Content, ""
	for i := 0; i+1 < len(nodes); i += 2 {
		key, value := nodes[i], nodes[i+1]
		var lines []string
		for line := range strings.Lines(key.HeadComment) {
			if line = strings.TrimSpace(strings.TrimPrefix(line, "#")); !strings.HasPrefix(line, "SPDX") {
				lines = append(lines, line)
			}
		}
		explained = strings.TrimSpace(strings.Join(lines, " "))
		value.HeadComment, value.Style = "", yaml.FlowStyle
		shown, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, "| `%s` | `%s` | %s |\n", key.Value, strings.Join(strings.Fields(string(shown)), " "), strings.ReplaceAll(explained, "|", `\|`))
	}
	return text.Bytes(), nil
}
