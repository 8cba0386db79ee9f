// SPDX-License-Identifier: Apache-2.0

package machinetemplate

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/builder"
)

// TestTemplateBombsEnd: what was stored before admission refused it is refused here.
func TestTemplateBombsEnd(t *testing.T) {
	t.Parallel()
	for name, bomb := range builder.TemplateBombs() {
		if got, err := (Naming{Template: bomb + "{{ .random }}", As: "machineSet"}).Name("abcde"); err == nil || !strings.Contains(err.Error(), "spec.machineNaming.template: ") {
			t.Errorf("%s: got %.100q, %v, want it refused", name, got, err)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	tests := map[string]struct {
		n             Naming
		want, wantErr string
	}{
		"the usual form":                   {n: Naming{Maker: "md-1"}, want: "md-1-abcde"},
		"a long set keeps the random part": {n: Naming{Maker: long}, want: long[:58] + "abcde"},
		"a template":                       {n: Naming{Template: "{{ .cluster.name }}-{{ .random }}", Cluster: "c"}, want: "c-abcde"},
		"a long template is cut at 63":     {n: Naming{Template: "{{ .random }}-" + long}, want: "abcde-" + long[:57]},
		"a template with the maker":        {n: Naming{Template: "{{ .pool.name }}-{{ .random }}", As: "pool", Maker: "p"}, want: "p-abcde"},
		"functions in pipes":               {n: Naming{Template: "{{ .cluster.name | lower | trunc 4 }}-{{ .random }}", Cluster: "Production"}, want: "prod-abcde"},
		"an unknown field":                 {n: Naming{Template: "{{ .other }}"}, wantErr: "fill spec.machineNaming.template"},
		"no template at all":               {n: Naming{Template: "{{"}, wantErr: "read spec.machineNaming.template"},
		"a name that is none":              {n: Naming{Template: "A_{{ .random }}"}, wantErr: `makes the name "A_abcde"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.n.Name("abcde")
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
