// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/chaos"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/extension"
	"github.com/capstan-dev/capstan/internal/cli/provider"
	"github.com/capstan-dev/capstan/internal/cli/topology"
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
		chaos.New(&env.Env),
		extension.New(&env.Env),
		provider.New(&env.Env),
		topology.New(&env.Env),
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
	}
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.Misuse(err) })
	root.AddCommand(commands(env)...)
	root.InitDefaultCompletionCmd()
	refuseUnknown(root)
	return root
}

// refuseUnknown makes each command that only has others below it name a wrong
// one; cobra does that at the root alone.
func refuseUnknown(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		refuseUnknown(child)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.Args = cobra.ArbitraryArgs // so that RunE sees them
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := fmt.Errorf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w: did you mean %q?", err, near[0])
		}
		return command.Misuse(err)
	}
}

// Run executes a command line and returns the exit status: 0 done, 1 failed,
// 2 misuse, 128 and the signal's number if one interrupted it, or what a
// command has of its own.
func Run(ctx context.Context, env *Env, args []string) int {
	root := New(env)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if by, ok := errors.AsType[command.Interrupted](context.Cause(ctx)); ok && err != nil {
		err = command.StatusError{Status: 128 + int(by.Signal), Cause: err}
	}
	return exitStatus(env, cmd, err)
}

// exitStatus reports an error of cmd and returns the exit status for it.
func exitStatus(env *Env, cmd *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	if nobody, ok := errors.AsType[*command.UnreachableError](err); ok {
		err = nobody
	}
	env.Say("%s: %v", env.Name, err)
	if errors.As(err, new(command.UsageError)) {
		env.Say("See %q.", cmd.CommandPath()+" --help")
		return 2
	}
	if own, ok := errors.AsType[command.StatusError](err); ok {
		return own.Status
	}
	return 1
}

// dataDirFlag adds --data-dir, which is $XDG_DATA_HOME/capstan unless given.
func dataDirFlag(cmd *cobra.Command, env *Env, dir *string) {
	cmd.Flags().StringVar(dir, "data-dir", env.DefaultDataDir(), "folder that holds everything of the management plane")
}

// checkGiven refuses flags that are given without a value.
func checkGiven(cmd *cobra.Command) error {
	if err := command.RefuseEmpty(cmd.Flags()); err != nil {
		return err
	}
	if cmd.Flag("data-dir").Value.String() == "" {
		return command.Misuse(errors.New("--data-dir is needed: neither XDG_DATA_HOME nor HOME is set"))
	}
	return nil
}
