// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
)

var sentence = regexp.MustCompile(`(?m)^- \*\*(.+)\*\*\n((?:  .+\n)+)`)

// TestContractAndChecksAgree also holds the sentences to be sentences.
func TestContractAndChecksAgree(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for role, page := range provider.Roles() {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "contract", page))
		if err != nil {
			t.Fatal(err)
		}
		var written []conformance.Check
		for _, m := range sentence.FindAllStringSubmatch(string(text), -1) {
			description, advice := strings.CutPrefix(strings.Join(strings.Fields(m[2]), " "), "*Advice.* ")
			written = append(written, conformance.Check{Name: m[1], Description: description, Advice: advice})
		}
		if diff := cmp.Diff(provider.Checks(role), written); diff != "" {
			t.Errorf("docs/contract/%s (-checks +document):\n%s", page, diff)
		}
		for _, c := range provider.Checks(role) {
			if !strings.HasSuffix(c.Name, ".") || strings.Contains(strings.TrimSuffix(c.Name, "."), "/ ") || seen[c.Name] {
				t.Errorf("%q is no sentence of its own that can name a test", c.Name)
			}
			seen[c.Name] = true
		}
	}
}
