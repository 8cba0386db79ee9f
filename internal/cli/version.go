// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
)

func newVersion(env *Env) *cobra.Command {
	var output string
	formats := []string{"json", "yaml", "short"}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := command.CheckOutput(output, formats...); err != nil {
				return err
			}
			v := buildinfo.Read()
			switch output {
			case "":
				env.Print("%s", v.Line(env.Name))
			case "short":
				env.Print("%s", v.Version)
			default:
				return env.PrintObject(v, output)
			}
			return nil
		},
	}
	command.OutputFlag(cmd, &output, "a line", formats...)
	return cmd
}
