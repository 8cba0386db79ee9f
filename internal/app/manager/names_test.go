// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"regexp"
	"strings"
	"testing"
)

func TestRandomNamesFitALabel(t *testing.T) {
	for _, prefix := range []string{"demo", strings.Repeat("x", 100)} {
		got := randomName(prefix)
		if len(got) > 63 || !regexp.MustCompile(`^[a-z]+-[a-z0-9]{5}$`).MatchString(got) {
			t.Errorf("randomName(%q) = %q", prefix, got)
		}
		if got == randomName(prefix) {
			t.Errorf("randomName(%q) gave %q twice", prefix, got)
		}
	}
}
