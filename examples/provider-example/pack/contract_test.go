// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/conformance/provider"
)

func TestTheDefinitionsOfBothReleasesKeepTheContract(t *testing.T) {
	t.Chdir("..")
	out := filepath.Join(t.TempDir(), "dist")
	if err := run(out, false); err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		report := provider.Examine(t.Context(), provider.Config{Files: []string{filepath.Join(out, "infrastructure-example", r.Version, "infrastructure-components.yaml")}})
		if err := report.Err(); err != nil {
			t.Errorf("%s: %v", r.Version, err)
		}
	}
}
