// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestPairsKeepTheirValues(t *testing.T) {
	t.Parallel()
	var p Pairs
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Var(&p, "var", "")
	want := Pairs{"QUOTED": `"x"`, "GATES": "A=true,B=false", "LIST": "a,b", "LINES": "a\nb", "NONE": "", "JSON": `{"a": "b=c", "d": "e"}`}
	var args []string
	for name, value := range want {
		args = append(args, "--var", name+"="+value)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"A", "=x"} {
		if err := flags.Parse([]string{"--var", wrong}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
