// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// TestBookListsAdmissionPlugins holds the table of the book against the plugins that
// the API server has and that its flags leave on.
func TestBookListsAdmissionPlugins(t *testing.T) {
	t.Parallel()
	for _, flag := range (&completed{}).flags(apiServerInput{}) {
		if strings.Contains(flag, "admission") {
			t.Errorf("flag %s changes the plugins that are on by default", flag)
		}
	}
	book, err := os.ReadFile("../../docs/book/mgmtplane.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(book), "## Quotas and admission plugins")
	if !found {
		t.Fatal("the book has no section about admission plugins")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		state := regexp.MustCompile(`^ (on|off)\b`).FindString(cells[2])
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(cells[1], -1) {
			listed[name[1]] = strings.TrimSpace(state)
		}
	}
	off := options.DefaultOffAdmissionPlugins()
	for _, name := range options.AllOrderedPlugins {
		want := "on"
		if off.Has(name) {
			want = "off"
		}
		if listed[name] != want {
			t.Errorf("the book has %q for plugin %s, want %q", listed[name], name, want)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("the book has plugin %s, which the API server has not", name)
	}
}
