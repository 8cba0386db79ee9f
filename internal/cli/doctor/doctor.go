// SPDX-License-Identifier: Apache-2.0

// Package doctor holds the command that tells what this host lacks.
package doctor

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/access/containers"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// New returns the command doctor. check tells what the host lacks.
func New(env *command.Env, check func(context.Context) []containers.Problem) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this host lacks to run container machines",
		Long: `Tell what this host lacks to run container machines, and what to do about each.
It changes nothing. It fails if such machines cannot run; a warning is about what
they do without.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(output, "json", "yaml"); err != nil {
				return err
			}
			return report(env, output, check(cmd.Context()))
		},
	}
	command.OutputFlag(cmd, &output, "sentences", "json", "yaml")
	return cmd
}

// problem is one that the host has.
type problem struct {
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
	Warning bool   `json:"warning,omitempty"`
}

func report(env *command.Env, output string, found []containers.Problem) error {
	if runtime.GOOS != "linux" {
		found = []containers.Problem{{What: "this is no Linux", Remedy: "run the plane on a host that has it"}}
	}
	all, fatal := []problem{}, 0
	for _, p := range found {
		if !p.Warning {
			fatal++
		}
		all = append(all, problem{p.What, p.Remedy, p.Warning})
	}
	if output != "" {
		if err := env.PrintObject(all, output); err != nil {
			return err
		}
	} else {
		for _, p := range all {
			kind := "missing"
			if p.Warning {
				kind = "warning"
			}
			env.Print("%s: %s: %s", kind, p.Problem, p.Remedy)
		}
		if fatal == 0 {
			env.Print("Container machines can run on this host.")
		}
	}
	if fatal > 0 {
		return fmt.Errorf("container machines cannot run on this host: %d of what they need is missing", fatal)
	}
	return nil
}
