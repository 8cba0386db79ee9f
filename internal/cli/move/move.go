// SPDX-License-Identifier: Apache-2.0

// Package move holds the command that takes clusters to another management cluster.
package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type options struct {
	mgmt                       command.MgmtFlags
	toKubeconfig, toContext    string
	namespace                  string
	toDirectory, fromDirectory string
	dryRun, rollback           bool
	warnings                   string
}

// New returns the command move.
func New(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "move --to-kubeconfig FILE",
		Short: "Move the clusters of a namespace to another management cluster",
		Long: `Move Clusters, ClusterClasses and everything that belongs to them from one
management cluster to another. Machines stay as they are.

The command first shows which objects move, which stay, and why. It pauses the
objects, copies them, reads them back and compares them; only then does it delete
them at the source and resume them at the target. A journal on both sides, the
ConfigMap capstan-move, records the progress of the move. If the move is
interrupted, run the same command to continue, or add --rollback to restore the
source.`,
		Example: `  capstan move --to-kubeconfig target.kubeconfig -n fleet --dry-run
  capstan move --to-kubeconfig target.kubeconfig -n fleet
  capstan move --to-directory backup -n fleet
  capstan move --from-directory backup --to-kubeconfig target.kubeconfig`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.StringVar(&o.toKubeconfig, "to-kubeconfig", "", "kubeconfig of the management cluster to move to")
	f.StringVar(&o.toContext, "to-kubeconfig-context", "", "context to use in that kubeconfig (default: its current one)")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace whose clusters move (default: that of the kubeconfig)")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would move, and change nothing")
	f.BoolVar(&o.rollback, "rollback", false, "undo a move that was not finished")
	f.StringVar(&o.toDirectory, "to-directory", "", "write the objects to files in this directory; nothing is deleted")
	f.StringVar(&o.fromDirectory, "from-directory", "", "make the objects from files of this directory")
	f.StringVar(&o.warnings, "hide-api-warnings", "default", "which warnings of API servers to hide: default (those about names of finalizers), all or none")
	_ = cmd.RegisterFlagCompletionFunc("hide-api-warnings", cobra.FixedCompletions([]string{"default", "all", "none"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("to-directory")
	_ = cmd.MarkFlagDirname("from-directory")
	return cmd
}

func (o *options) check(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if err := command.RefuseEmpty(flags, "namespace", "to-kubeconfig", "to-kubeconfig-context", "to-directory", "from-directory", "hide-api-warnings"); err != nil {
		return err
	}
	to, from, target := o.toDirectory != "", o.fromDirectory != "", o.toKubeconfig != ""
	switch {
	case to && target:
		return command.Misuse(errors.New("--to-directory and --to-kubeconfig exclude each other: a directory is filled, or a management cluster"))
	case to && from:
		return command.Misuse(errors.New("--to-directory and --from-directory exclude each other"))
	case from && (flags.Changed("kubeconfig") || flags.Changed("data-dir")):
		return command.Misuse(errors.New("--from-directory has no source but the directory: leave --kubeconfig and --data-dir out, and name the target with --to-kubeconfig"))
	case !target && !to && !o.dryRun || from && !target:
		return command.Misuse(errors.New("--to-kubeconfig is needed: the kubeconfig of the management cluster to move to (or --to-directory, or --dry-run)"))
	case from && o.rollback:
		return command.Misuse(errors.New("--from-directory and --rollback exclude each other: only what has a source can be rolled back"))
	case o.dryRun && o.rollback:
		return command.Misuse(errors.New("--dry-run and --rollback exclude each other"))
	case o.warnings != "default" && o.warnings != "all" && o.warnings != "none":
		return command.Misuse(fmt.Errorf("--hide-api-warnings %q is not known: use default, all or none", o.warnings))
	}
	return nil
}

func run(ctx context.Context, env *command.Env, o options) error {
	tell := env.TimedPrinter()
	m := move.Options{
		Namespace: o.namespace, By: whoAmI(env), Gone: isGone, Rollback: o.rollback, DryRun: o.dryRun,
		Planned:  func(p *plan.Plan) { env.Print("%s", strings.TrimSuffix(p.String(), "\n")) },
		Progress: tell,
	}
	if o.toKubeconfig != "" {
		mgmt, err := command.LoadKubeconfig(env, "--to-kubeconfig", o.toKubeconfig, o.toContext)
		if err == nil {
			m.Target, err = connect(env, o, mgmt, "Target")
		}
		if err != nil {
			return err
		}
	}
	if o.fromDirectory == "" {
		mgmt, err := o.mgmt.Load(env)
		if err == nil {
			m.Source, err = connect(env, o, mgmt, "Source")
		}
		if err != nil {
			return err
		}
		m.Namespace = cmp.Or(o.namespace, mgmt.Namespace)
	}
	err := start(ctx, m, o)
	if err == nil && !o.dryRun {
		tell("Done")
	}
	return err
}

func start(ctx context.Context, m move.Options, o options) error {
	switch {
	case o.toDirectory != "":
		return move.Save(ctx, m, o.toDirectory)
	case o.fromDirectory != "":
		return move.Restore(ctx, m, o.fromDirectory)
	}
	return move.Run(ctx, m)
}

func connect(env *command.Env, o options, mgmt command.Mgmt, side string) (move.Plane, error) {
	env.Say("%s: %s", side, mgmt)
	inner := mgmt.Config.WarningHandlerWithContext
	mgmt.Config.WarningHandlerWithContext = hiding{inner, o.warnings}
	return move.Connect(mgmt.Config, mgmt.String())
}

// hiding forwards the warnings that a user wants to see.
type hiding struct {
	rest.WarningHandlerWithContext
	which string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (h hiding) HandleWarningHeaderWithContext(ctx context.Context, code int, agent, text string) {
	if h.which == "all" || h.which == "default" && strings.HasPrefix(text, "metadata.finalizers:") {
		return
	}
	h.WarningHandlerWithContext.HandleWarningHeaderWithContext(ctx, code, agent, text)
}

// whoAmI is the name in the journal for the user who moves.
func whoAmI(env *command.Env) string {
	name := env.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s on %s, process %d", cmp.Or(name, "unknown user"), cmp.Or(host, "some host"), os.Getpid())
}

// isGone reports whether a process of this host that moved before has ended.
// Processes of other hosts are not known.
func isGone(by string) bool {
	host, _ := os.Hostname()
	_, rest, ok := strings.Cut(by, " on "+host+", process ")
	var pid int
	if n, err := fmt.Sscanf(rest, "%d", &pid); !ok || err != nil || n != 1 || host == "" {
		return false
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
