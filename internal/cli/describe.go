// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type describeClusterOptions struct {
	mgmt       command.MgmtFlags
	namespace  string
	tree       tree.Options
	conditions string
	color      bool
	output     string
}

func newDescribe(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "describe", Short: "Show a cluster", Args: cobra.NoArgs}
	cmd.AddCommand(newDescribeCluster(env))
	return cmd
}

func newDescribeCluster(env *Env) *cobra.Command {
	var o describeClusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Show a cluster as a tree with its conditions",
		Example: `  capstan describe cluster demo
  capstan describe cluster demo --show-conditions all+     # only what needs attention
  capstan describe cluster demo --grouping=false --echo    # every object`,
		Args: exactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("color") {
				o.color = env.Terminal
			}
			if env.Getenv("NO_COLOR") != "" {
				o.color = false
			}
			return runDescribeCluster(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	f := cmd.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	f.StringVar(&o.conditions, "show-conditions", "", "kinds or kind/name pairs whose conditions to show, or all; a + at the end keeps those that need attention")
	f.BoolVar(&o.tree.ShowMachineSets, "show-machinesets", false, "show MachineSets")
	f.BoolVar(&o.tree.ShowTemplates, "show-templates", false, "show templates")
	f.BoolVar(&o.tree.Echo, "echo", false, "show infrastructure and bootstrap objects also when they say the same as their machine")
	f.BoolVar(&o.tree.Grouping, "grouping", true, "show machines that say the same in one row")
	f.BoolVarP(&o.color, "color", "c", false, "use colours (default: only on a terminal)")
	f.StringVarP(&o.output, "output", "o", "", "json prints the tree for programs")
	return cmd
}

func runDescribeCluster(ctx context.Context, env *Env, o describeClusterOptions, name string) error {
	filter, err := parseConditionFilter(o.conditions)
	if err != nil {
		return err
	}
	if o.output != "" && o.output != "json" {
		return command.Misuse(fmt.Errorf("--output %s: only json is known", o.output))
	}
	c, err := open(env, &o.mgmt, &o.namespace)
	if err != nil {
		return err
	}
	in, err := c.ReadTree(ctx, client.ObjectKey{Namespace: o.namespace, Name: name})
	if err != nil {
		return err
	}
	if err := filter.check(&in); err != nil {
		return err
	}
	o.tree.Alone = filter.named
	root := tree.Build(in, o.tree)
	if o.output == "json" {
		enc := json.NewEncoder(env.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(root)
	}
	return writeTree(env.Out, root, treeStyle{now: env.Now(), color: o.color, conditions: filter})
}
