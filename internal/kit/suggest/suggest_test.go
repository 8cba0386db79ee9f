// SPDX-License-Identifier: Apache-2.0

package suggest

import "testing"

func TestTheNearestKnownNameIsFound(t *testing.T) {
	t.Parallel()
	known := []string{"status", "scale", "describe", "data-dir", "namespace", "KUBERNETES_VERSION", "Ready"}
	tests := map[string]struct{ name, want string }{
		"two letters swapped":     {"statsu", "status"},
		"one letter too many":     {"sccale", "scale"},
		"one that is missing":     {"descibe", "describe"},
		"another one":             {"datadir", "data-dir"},
		"the case":                {"kubernetes_version", "KUBERNETES_VERSION"},
		"a part of the beginning": {"desc", "describe"},
		"far from all":            {"nonsense", ""},
		"short and another":       {"up", ""},
		"nothing":                 {"", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Of(tc.name, known); got != tc.want {
				t.Errorf("%q: got %q, want %q", tc.name, got, tc.want)
			}
		})
	}
	if got, want := Hint("statsu", known), `: did you mean "status"?`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Hint("nonsense", known); got != "" {
		t.Errorf("got %q, want none", got)
	}
}
