// SPDX-License-Identifier: Apache-2.0

package buildinfo

import "testing"

func TestOlder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		one, other string
		want       bool
	}{
		"a patch":                    {"v1.2.3", "v1.2.4", true},
		"by number, not by letter":   {"v1.9.0", "v1.10.0", true},
		"the same":                   {"v1.2.3", "v1.2.3", false},
		"a newer one":                {"v1.3.0", "v1.2.9", false},
		"a candidate":                {"v1.3.0-rc.1", "v1.3.0", true},
		"two builds of what is next": {"v1.3.1-0.20260101000000-aaaaaaaaaaaa", "v1.3.1-0.20260102000000-bbbbbbbbbbbb+dirty", true},
		"one in the making":          {"(devel)", "v1.2.3", false},
		"than one in the making":     {"v1.2.3", "(devel)", false},
		"nothing":                    {"", "", false},
	}
	for name, tc := range tests {
		if got := Older(tc.one, tc.other); got != tc.want {
			t.Errorf("%s: %s is older than %s: %t, want %t", name, tc.one, tc.other, got, tc.want)
		}
	}
}
