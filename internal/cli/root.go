// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/describe"
	"github.com/capstan-dev/capstan/internal/cli/extension"
	"github.com/capstan-dev/capstan/internal/cli/generate"
	"github.com/capstan-dev/capstan/internal/cli/get"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/image"
	"github.com/capstan-dev/capstan/internal/cli/install"
	"github.com/capstan-dev/capstan/internal/cli/logs"
	"github.com/capstan-dev/capstan/internal/cli/move"
	"github.com/capstan-dev/capstan/internal/cli/plan"
	"github.com/capstan-dev/capstan/internal/cli/rollout"
	"github.com/capstan-dev/capstan/internal/cli/simulated"
	"github.com/capstan-dev/capstan/internal/cli/suites"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/pods"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// commands lists the constructors of all commands.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newUp(env, runUp),
		newDown(env, runDown),
		newStatus(env, runStatus),
		newBackup(env, runBackup),
		newRestore(env, runRestore),
		newVersion(env),
		newCreate(env),
		describe.New(&env.Env),
		install.NewDelete(&env.Env, newDeleteCluster(env)),
		describe.NewEvents(&env.Env),
		get.New(&env.Env),
		history.New(&env.Env),
		history.NewReplay(&env.Env),
		history.NewReport(&env.Env),
		logs.New(&env.Env),
		install.NewConfig(&env.Env),
		newDoctor(&env.Env, doctorChecks{Machines: containers.Check, Pods: pods.Check}),
		extension.New(&env.Env),
		generate.New(&env.Env),
		image.New(&env.Env),
		install.NewInit(&env.Env),
		install.NewUpgrade(&env.Env, rollout.NewUpgradeCluster(&env.Env)),
		move.New(&env.Env),
		plan.New(&env.Env),
		plan.NewApply(&env.Env),
		generate.NewConvert(&env.Env),
		suites.NewProvider(&env.Env),
		rollout.New(&env.Env),
		rollout.Alpha(&env.Env),
		rollout.NewScale(&env.Env),
		simulated.New(&env.Env),
		generate.NewTopology(&env.Env),
		describe.NewWhy(&env.Env),
	}
}

// groups order the commands in the help.
var groups = []struct{ title, commands string }{
	{"The management plane:", "up down status backup restore"},
	{"Providers:", "init config upgrade provider"},
	{"Clusters:", "create generate get describe plan apply scale rollout move delete convert"},
	{"Machines of this host:", "doctor image"},
	{"When something is wrong:", "why events logs history report replay topology extension simulated"},
	{"Other:", "alpha completion version help"},
}

// group puts the commands below root into groups.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, name := range strings.Fields(g.commands) {
			if cmd, _, err := root.Find([]string{name}); err == nil && cmd != root {
				cmd.GroupID = g.title
			}
		}
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
	root.SetFlagErrorFunc(misusedFlag)
	env.AddGlobal(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return cmp.Or(command.Misuse(cmd.ValidateRequiredFlags()), command.Misuse(cmd.ValidateFlagGroups()), setLog(env))
	}
	root.AddCommand(commands(env)...)
	root.InitDefaultCompletionCmd()
	command.CompleteFlags(root, &env.Env)
	root.InitDefaultHelpCmd()
	showVersion(root)
	group(root)
	refuseWrong(root)
	env.NameInHelp(root)
	return root
}

// showVersion adds --version.
func showVersion(cmd *cobra.Command) {
	v := buildinfo.Read()
	cmd.Version = v.Version
	cmd.SetVersionTemplate(v.Line(cmd.Name()) + "\n")
}

// misusedFlag names the flag that was probably meant.
func misusedFlag(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		err = fmt.Errorf("%w%s", err, suggest.Hint("--"+unknown.GetSpecifiedName(), known))
	}
	return command.Misuse(err)
}

// setLog prints the log of the libraries if it is requested; a plane that starts
// redirects it then.
func setLog(env *Env) error {
	level, err := env.LogLevel()
	if level > 0 {
		env.SetLog(env.Err, level)
	}
	return err
}

// refuseWrong lets each command refuse wrong arguments as misuse, and one that only has
// subcommands an unknown one by name; cobra does that only at the root.
func refuseWrong(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		refuseWrong(child)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error { return command.Misuse(check(cmd, args)) }
		}
		return
	}
	cmd.Args = cobra.ArbitraryArgs // so that RunE sees them
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var known []string
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				known = append(append(known, child.Name()), child.Aliases...)
			}
		}
		switch {
		case len(args) == 0 && cmd.Name() == "completion": // a script that sources the output must not source help
			return command.Misuse(fmt.Errorf("a shell is needed: one of %s", strings.Join(known, ", ")))
		case len(args) == 0:
			return cmd.Help()
		}
		return command.Misuse(fmt.Errorf("unknown command %q%s", args[0], suggest.Hint(args[0], known)))
	}
}

// Run executes a command line and returns the exit status: 0 done, 1 failed, 2
// misuse, 128 and the signal's number if one interrupted it, or a command's own
// status.
func Run(ctx context.Context, env *Env, args []string) int {
	env.Out, env.In = &output{Writer: env.Out}, command.Input(ctx, env.In)
	root := New(env)
	if p, ok := external(env, root, args); ok {
		return exitStatus(env, root, p.Exec())
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if by, ok := errors.AsType[command.Interrupted](context.Cause(ctx)); ok && err != nil {
		if _, says := errors.AsType[command.Interrupted](err); !says { // the failed operation reports that a context was canceled
			err = fmt.Errorf("%w: %v", by, err)
		}
		err = command.StatusError{Status: 128 + int(by.Signal), Cause: err}
	}
	return exitStatus(env, cmd, err)
}

// output is standard output that records why it could not be written: help and lines
// for people are written without a check.
type output struct {
	io.Writer

	mu     sync.Mutex // guards failed
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = err
	}
	return n, err
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		return nil
	}
	return fmt.Errorf("write the output: %w", o.failed)
}

// external is the program on PATH that a command line means which names no
// command of ours.
func external(env *Env, root *cobra.Command, args []string) (command.Plugin, bool) {
	cmd, _, err := root.Find(args)
	if err != nil || cmd != root || len(args) > 0 && strings.HasPrefix(args[0], "__") { // completion has such commands
		return command.Plugin{}, false
	}
	return command.FindPlugin(&env.Env, args)
}

// exitStatus reports an error of cmd and returns the exit status for it.
func exitStatus(env *Env, cmd *cobra.Command, err error) int {
	if out, ok := env.Out.(*output); ok && err == nil {
		err = out.failure()
	}
	if err == nil {
		return 0
	}
	if unreachable, ok := errors.AsType[*command.UnreachableError](err); ok {
		err = unreachable
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
