// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/pods"
)

// doctorChecks are the checks of this host.
type doctorChecks struct {
	Machines func(context.Context) []containers.Problem
	Pods     func(ctx context.Context, dataDir string) pods.Report
}

// newDoctor returns the command doctor.
func newDoctor(env *command.Env, checks doctorChecks) *cobra.Command {
	var output, dir string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report what this host lacks to run container machines and Pods of providers",
		Long: `Report what this host lacks to run container machines, and the Pods of providers in
sandboxes, and what to do about each. It changes nothing. It fails if either cannot
run; a warning is about what they do without.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(output, "json", "yaml"); err != nil {
				return err
			}
			return reportDoctor(env, output, []subject{ofMachines(checks.Machines(cmd.Context())), ofPods(checks.Pods(cmd.Context(), dir))})
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", env.DefaultDataDir(), "data directory of the plane, on whose disk Pods would have their files; it need not be there")
	_ = cmd.MarkFlagDirname("data-dir")
	command.OutputFlag(cmd, &output, "sentences", "json", "yaml")
	return cmd
}

// subject is what a host may be able to run.
type subject struct {
	name     string // as an error names it
	able     string // the sentence that reports that it can
	problems []problem
}

// problem is one that the host has.
type problem struct {
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
	Warning bool   `json:"warning,omitempty"`
}

func ofMachines(found []containers.Problem) subject {
	if runtime.GOOS != "linux" {
		found = []containers.Problem{{What: "this is no Linux", Remedy: "run the plane on a host that has it"}}
	}
	s := subject{name: "container machines", able: "Container machines can run on this host."}
	for _, p := range found {
		s.problems = append(s.problems, problem{p.What, p.Remedy, p.Warning})
	}
	return s
}

func ofPods(r pods.Report) subject {
	s := subject{name: "Pods of providers", able: "Pods of providers can run on this host, with full isolation."}
	if r.Mode == pods.Rootless {
		s.able = "Pods of providers can run on this host, in sandboxes of its user."
	}
	for _, m := range r.Missing {
		s.problems = append(s.problems, problem{fmt.Sprintf("%s: %s", m.What, m.Why), m.Remedy, r.Mode != pods.None})
	}
	return s
}

func reportDoctor(env *command.Env, output string, subjects []subject) error {
	all, unable := []problem{}, []string(nil)
	for _, s := range subjects {
		all = append(all, s.problems...)
		fatal := 0
		for _, p := range s.problems {
			kind := "warning"
			if !p.Warning {
				kind, fatal = "missing", fatal+1
			}
			if output == "" {
				env.Print("%s: %s: %s", kind, p.Problem, p.Remedy)
			}
		}
		switch {
		case fatal > 0:
			unable = append(unable, fmt.Sprintf("%s cannot run on this host: %d of what they need is missing", s.name, fatal))
		case output == "":
			env.Print("%s", s.able)
		}
	}
	if output != "" {
		if err := env.PrintObject(all, output); err != nil {
			return err
		}
	}
	if len(unable) > 0 {
		return fmt.Errorf("%s", strings.Join(unable, "; "))
	}
	return nil
}
