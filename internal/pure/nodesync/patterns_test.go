// SPDX-License-Identifier: Apache-2.0

package nodesync

import (
	"strings"
	"testing"
)

func TestPatternsAreReadAsAFlag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		texts   []string // of a flag that is given several times
		key     string
		want    bool
		wantErr string
	}{
		"none":                {key: "a"},
		"empty":               {texts: []string{""}, key: "a"},
		"one":                 {texts: []string{"^a"}, key: "abc", want: true},
		"one that is not it":  {texts: []string{"^b"}, key: "abc"},
		"in the middle":       {texts: []string{"b"}, key: "abc", want: true},
		"the second of two":   {texts: []string{"x,^a"}, key: "abc", want: true},
		"given again":         {texts: []string{"^a", "x"}, key: "abc", want: true},
		"a comma in a quote":  {texts: []string{`"^a{1,3}$"`}, key: "aaa", want: true},
		"not an expression":   {texts: []string{"a(", "b"}, wantErr: "missing closing ): `a(`: give regular expressions"},
		"a quote of nothing":  {texts: []string{`"a`}, wantErr: "extraneous or missing"},
		"the second is wrong": {texts: []string{"a,["}, wantErr: "missing closing ]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p Patterns
			for _, text := range tc.texts {
				if err := p.Set(text); err != nil {
					if tc.wantErr == "" || !strings.Contains(err.Error(), tc.wantErr) {
						t.Errorf("%q: error %v, want %q", text, err, tc.wantErr)
					}
					return
				}
			}
			var again Patterns
			if err := again.Set(p.String()); err != nil || again.String() != p.String() || again.Match(tc.key) != tc.want {
				t.Errorf("%q is read as %q, error %v", p.String(), again.String(), err)
			}
			if got := p.Match(tc.key); got != tc.want || tc.wantErr != "" {
				t.Errorf("%s matches %q: %t, want %t, error %q", p.String(), tc.key, got, tc.want, tc.wantErr)
			}
		})
	}
}
