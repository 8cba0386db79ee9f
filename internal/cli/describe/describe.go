// SPDX-License-Identifier: Apache-2.0

// Package describe holds the commands that show a cluster as a tree, its events, and the
// cause of its state.
package describe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

type options struct {
	mgmt       command.MgmtFlags
	namespace  string
	tree       tree.Options
	conditions string
	v1beta2    bool
	color      bool
	watch      bool
	output     string
}

// New returns the command describe with all commands below it.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "describe", Short: "Show a cluster"}
	cmd.AddCommand(newCluster(env))
	return cmd
}

func newCluster(env *command.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Show a cluster as a tree with its conditions",
		Long: `Show a cluster as a tree with its conditions, and, if something blocks it, the
first cause that "capstan why" finds.`,
		Example: `  capstan describe cluster demo
  capstan describe cluster demo --show-conditions all+     # only what needs attention
  capstan describe cluster demo --grouping=false --echo    # every object
  capstan describe cluster demo --watch                    # again whenever something changes`,
		Args: command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), "show-conditions", "output"); err != nil {
				return err
			}
			if !cmd.Flags().Changed("color") {
				o.color = env.Terminal && env.Getenv("NO_COLOR") == ""
			}
			return run(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.ValidArgsFunction = o.mgmt.CompleteClusters(env, 1)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	f.StringVar(&o.conditions, "show-conditions", "", "kinds or kind/name pairs whose conditions to show, or all; a + at the end keeps those that need attention")
	f.BoolVar(&o.tree.ShowMachineSets, "show-machinesets", false, "show MachineSets")
	f.BoolVar(&o.tree.ShowResourceSets, "show-resourcesets", false, "show the ClusterResourceSets that were applied")
	f.BoolVar(&o.tree.ShowTemplates, "show-templates", false, "show templates")
	f.BoolVar(&o.tree.Echo, "echo", false, "show infrastructure and bootstrap objects also when they say the same as their machine")
	f.BoolVar(&o.tree.Grouping, "grouping", true, "show machines that say the same in one row")
	f.BoolVar(&o.v1beta2, "v1beta2", true, "show the conditions of v1beta2")
	_ = f.MarkHidden("v1beta2") // there are no others; cobra prints of a deprecated flag on stdout
	f.BoolVarP(&o.color, "color", "c", false, "use colours (default: only on a terminal, and not if NO_COLOR is set)")
	f.BoolVarP(&o.watch, "watch", "w", false, "show the cluster again whenever it changes")
	command.OutputFlag(cmd, &o.output, "a table", "json", "yaml")
	return cmd
}

func run(ctx context.Context, env *command.Env, o options, name string) error {
	filter, err := parseFilter(o.conditions)
	if err != nil {
		return err
	}
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	if !o.v1beta2 {
		return command.Misuse(errors.New("--v1beta2=false: the conditions of v1beta1 are not shown; `capstan get machines -o yaml` has what is left of them in status.deprecated"))
	}
	c, err := o.mgmt.Open(env, &o.namespace)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	o.tree.Alone = filter.alone
	if !o.watch {
		in, err := c.ReadTree(ctx, key, o.tree)
		if err == nil {
			err = filter.check(&in)
		}
		if err != nil {
			return err
		}
		return show(env, o, filter, in, blockedBy(ctx, c, o, key))
	}
	shown := 0
	err = c.FollowTree(ctx, key, o.tree, func(in tree.Input) error {
		if shown++; shown == 1 {
			if err := filter.check(&in); err != nil {
				return err
			}
		}
		if shown > 1 && o.output != "json" && !env.Terminal {
			env.Print("%s", map[string]string{"yaml": "---"}[o.output])
		}
		return show(env, o, filter, in, blockedBy(ctx, c, o, key))
	})
	if gone, ok := errors.AsType[*clusterctl.NoClusterError](err); ok && shown > 0 {
		env.Say("Cluster %s is gone", gone.Key)
		return nil
	}
	return err
}

// blockedBy is what describe reports of the explanation of a Cluster: the first cause. It is
// empty if nothing blocks the Cluster or no object reports a cause.
func blockedBy(ctx context.Context, c *clusterctl.Client, o options, key client.ObjectKey) string {
	if o.output != "" {
		return ""
	}
	r, err := c.Why(ctx, causes.Key{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Namespace: key.Namespace, Name: key.Name})
	if err != nil || !r.Certain {
		return ""
	}
	more := ""
	if n := len(r.Causes) - 1; n > 0 {
		more = fmt.Sprintf(" (%d more)", n)
	}
	return fmt.Sprintf("Blocked by %s%s", r.Causes[0].Sentence(), more)
}

// show prints a tree and what blocks the Cluster: while it is watched on a terminal, in the
// place of the one before.
func show(env *command.Env, o options, f filter, in tree.Input, blocked string) error {
	root := tree.Build(in, o.tree)
	if o.output != "" {
		return env.PrintObject(root, o.output)
	}
	s := style{now: env.Now(), color: o.color, conditions: f}
	lines := 0
	if env.Size != nil {
		s.within, lines = env.Size()
	}
	var table bytes.Buffer
	if err := render(&table, root, s); err != nil {
		return err
	}
	text := table.String()
	if blocked != "" {
		text += strings.Join(wrap(sanitize.Line(blocked, mostText), s.within), "\n") + "\n"
	}
	if o.watch && env.Terminal {
		text = redrawn(text, lines)
	}
	_, err := env.Out.Write([]byte(text))
	return err
}

// redrawn is a text that takes the place of what a terminal of so many lines shows.
// Each line clears the rest of the one that it overwrites, so that nothing flickers.
func redrawn(text string, lines int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := lines - 2; most > 0 && len(all) > most {
		all = append(all[:most], fmt.Sprintf("... and %d more lines", len(all)-most))
	}
	return "\x1b[H" + strings.Join(all, "\x1b[K\n") + "\x1b[K\n\x1b[J"
}
