// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckYAMLRefusesLargeExpansions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100<<10)
	tests := map[string]struct {
		text string
		want error
	}{
		"no alias":               {"a: [" + long + ", '&', '*']", nil},
		"JSON":                   {`{"a":"&a *a", "b":"` + long + `"}`, nil},
		"a few aliases":          {"a: &a " + long + "\nb: [" + strings.Repeat("*a,", 50) + "]", nil},
		"many aliases of a text": {"a: &a " + long + "\nb: [" + strings.Repeat("*a,", 100) + "]", ErrAliases},
		"aliases of aliases":     {"a: &a [x,x,x,x,x,x,x,x]\nb: &b [" + strings.Repeat("*a,", 999) + "]\nc: [" + strings.Repeat("*b,", 999) + "]", ErrAliases},
		"an alias in itself":     {"a: &a\n- *a\n", ErrAliases},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := CheckYAML([]byte(tc.text)); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
		})
	}
	if CheckYAML([]byte("a: *b\nb: &b x")) == nil {
		t.Error("a text that is not YAML is accepted")
	}
}
