// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// commands lists the constructors of all commands.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newUp(env, runUp),
		newDown(env, runDown),
		newStatus(env, runStatus),
		newVersion(env),
		newCreate(env),
		newDelete(env),
		newDescribe(env),
		newGenerate(env),
		newGet(env),
	}
}

// New returns the whole command tree.
func New(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:           env.Name,
		Short:         "Cluster API, standalone",
		Long:          "Capstan provisions and runs fleets of Kubernetes clusters by the Cluster API contracts,\nand needs nothing underneath.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // so that RunE sees an unknown command
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := fmt.Errorf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w: did you mean %q?", err, near[0])
		}
		return UsageError{err}
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(commands(env)...)
	return root
}

// Run executes a command line and returns the exit status: 0 done, 1 failed,
// 2 misuse.
func Run(ctx context.Context, env *Env, args []string) int {
	root := New(env)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return exitStatus(env, cmd, err)
}

// exitStatus reports an error of cmd and returns the exit status for it.
func exitStatus(env *Env, cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(env.Err, "%s: %v\n", env.Name, err)
	if errors.As(err, new(UsageError)) {
		_, _ = fmt.Fprintf(env.Err, "See %q.\n", cmd.CommandPath()+" --help")
		return 2
	}
	return 1
}

// noArgs refuses arguments as misuse.
func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return UsageError{err}
	}
	return nil
}

// dataDirFlag adds --data-dir, which is $XDG_DATA_HOME/capstan unless given.
func dataDirFlag(cmd *cobra.Command, env *Env, dir *string) {
	cmd.Flags().StringVar(dir, "data-dir", env.defaultDataDir(), "folder that holds everything of the management plane")
}
