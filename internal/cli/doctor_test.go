// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/pods"
)

func TestDoctorReportsMissingPartsAndFails(t *testing.T) {
	t.Parallel()
	lacks := containers.Problem{What: "no overlayfs", Remedy: "load its module"}
	minor := containers.Problem{What: "no CAP_SYS_RESOURCE", Remedy: "grant it", Warning: true}
	rootless := pods.Report{Mode: pods.Rootless, Missing: []pods.Missing{{What: "limits", Why: "no root", Remedy: "be root"}}}
	none := pods.Report{Mode: pods.None, Missing: []pods.Missing{{What: "sandboxes", Why: "no namespaces", Remedy: "allow them"}}}
	const machines, full = "Container machines can run on this host.\n", "Pods of providers can run on this host, with full isolation.\n"
	for name, tc := range map[string]struct {
		found []containers.Problem
		pods  pods.Report
		args  []string
		want  string
		fails string
	}{
		"nothing":   {nil, pods.Report{Mode: pods.Root}, nil, machines + full, ""},
		"a warning": {[]containers.Problem{minor}, pods.Report{Mode: pods.Root}, nil, "warning: no CAP_SYS_RESOURCE: grant it\n" + machines + full, ""},
		"both": {
			[]containers.Problem{lacks, minor}, pods.Report{Mode: pods.Root}, nil, "missing: no overlayfs: load its module\nwarning: no CAP_SYS_RESOURCE: grant it\n" + full,
			"container machines cannot run on this host: 1 of what they need is missing",
		},
		"no root for Pods": {nil, rootless, nil, machines + "warning: limits: no root: be root\nPods of providers can run on this host, in sandboxes of its user.\n", ""},
		"no Pods":          {nil, none, nil, machines + "missing: sandboxes: no namespaces: allow them\n", "Pods of providers cannot run on this host: 1 of what they need is missing"},
		"as data": {
			[]containers.Problem{lacks}, none, []string{"-o", "yaml"}, "- problem: no overlayfs\n  remedy: load its module\n- problem: 'sandboxes: no namespaces'\n  remedy: allow them\n",
			"container machines cannot run on this host: 1 of what they need is missing; Pods of providers cannot run on this host: 1 of what they need is missing",
		},
		"no data": {nil, pods.Report{Mode: pods.Root}, []string{"-o", "json"}, "[]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := newDoctor(&command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }}, doctorChecks{
				Machines: func(context.Context) []containers.Problem { return tc.found },
				Pods:     func(context.Context, string) pods.Report { return tc.pods },
			})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(tc.args)
			err := cmd.ExecuteContext(t.Context())
			told := ""
			if err != nil {
				told = err.Error()
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" || told != tc.fails {
				t.Errorf("error %v, output (-want +got):\n%s", err, diff)
			}
		})
	}
}
