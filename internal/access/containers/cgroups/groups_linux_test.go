// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"strings"
	"testing"
)

// TestNothingIsEmptiedThatIsNotOurs guards the host: whoever names its root would
// end all processes.
func TestNothingIsEmptiedThatIsNotOurs(t *testing.T) {
	for _, dir := range []string{"", "/", Mountpoint, t.TempDir()} {
		if err := Empty(dir); err == nil || !strings.Contains(err.Error(), "none of ours") {
			t.Errorf("%q: got %v", dir, err)
		}
	}
	if err := (Host{}).Make("/a", "/b/c"); err == nil {
		t.Error("a group was made below another than asked")
	}
}
