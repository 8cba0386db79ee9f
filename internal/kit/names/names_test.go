// SPDX-License-Identifier: Apache-2.0

package names

import (
	"regexp"
	"strings"
	"testing"
)

func TestRandomNamesFitALabel(t *testing.T) {
	for _, prefix := range []string{"demo", strings.Repeat("x", 100)} {
		got := Random(prefix)
		if len(got) > 63 || !regexp.MustCompile(`^[a-z]+-[a-z0-9]{5}$`).MatchString(got) {
			t.Errorf("Random(%q) = %q", prefix, got)
		}
		if got == Random(prefix) {
			t.Errorf("Random(%q) gave %q twice", prefix, got)
		}
	}
}
