// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/access/containers"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestDoctorTellsWhatIsMissingAndFails(t *testing.T) {
	t.Parallel()
	lacks := containers.Problem{What: "no overlayfs", Remedy: "load its module"}
	minor := containers.Problem{What: "no CAP_SYS_RESOURCE", Remedy: "grant it", Warning: true}
	for name, tc := range map[string]struct {
		found []containers.Problem
		args  []string
		want  string
		fails bool
	}{
		"nothing":   {nil, nil, "Container machines can run on this host.\n", false},
		"a warning": {[]containers.Problem{minor}, nil, "warning: no CAP_SYS_RESOURCE: grant it\nContainer machines can run on this host.\n", false},
		"both":      {[]containers.Problem{lacks, minor}, nil, "missing: no overlayfs: load its module\nwarning: no CAP_SYS_RESOURCE: grant it\n", true},
		"as data":   {[]containers.Problem{lacks}, []string{"-o", "yaml"}, "- problem: no overlayfs\n  remedy: load its module\n", true},
		"no data":   {nil, []string{"-o", "json"}, "[]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := New(&command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}, func(context.Context) []containers.Problem { return tc.found })
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(tc.args)
			err := cmd.ExecuteContext(t.Context())
			if diff := cmp.Diff(tc.want, out.String()); diff != "" || (err != nil) != tc.fails {
				t.Errorf("error %v, output (-want +got):\n%s", err, diff)
			}
		})
	}
}
