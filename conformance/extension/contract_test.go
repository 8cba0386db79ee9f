// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/conformance/extension"
)

var sentence = regexp.MustCompile(`(?m)^- \*\*(.+)\*\*\n((?:  .+\n)+)`)

// TestContractAndChecksAgree also holds the sentences to be sentences.
func TestContractAndChecksAgree(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract", "extension.md"))
	if err != nil {
		t.Fatal(err)
	}
	var written []extension.Check
	must, should, _ := strings.Cut(string(text), "\n## Advice\n")
	for part, section := range []string{must, should} {
		for _, m := range sentence.FindAllStringSubmatch(section, -1) {
			written = append(written, extension.Check{Name: m[1], Description: strings.Join(strings.Fields(m[2]), " "), Advice: part == 1})
		}
	}
	if diff := cmp.Diff(extension.Checks(), written); diff != "" {
		t.Errorf("docs/contract/extension.md (-checks +document):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, c := range extension.Checks() {
		if !strings.HasSuffix(c.Name, ".") || strings.Contains(c.Name, "/") || seen[c.Name] {
			t.Errorf("%q is no sentence of its own that can name a test", c.Name)
		}
		seen[c.Name] = true
	}
}
