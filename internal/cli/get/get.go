// SPDX-License-Identifier: Apache-2.0

// Package get holds the commands that list objects or print one.
package get

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// New returns the command get with all commands below it.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "List objects, or get something of a workload cluster"}
	cmd.AddCommand(newKubeconfig(env), newNodes(env))
	for _, r := range resources() {
		cmd.AddCommand(newList(env, r))
	}
	return cmd
}
