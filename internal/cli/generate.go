// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type generateClusterOptions struct {
	mgmt          command.MgmtFlags
	template      templateFlags
	listVariables bool
	writeTo       string
}

func newGenerate(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "generate", Short: "Print objects made from templates", Args: cobra.NoArgs}
	cmd.AddCommand(newGenerateCluster(env))
	return cmd
}

func newGenerateCluster(env *Env) *cobra.Command {
	var o generateClusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Print the objects of a new cluster",
		Long: `Fill a cluster template and print the result. The management cluster is
only asked for when the template lies in one of its ConfigMaps.`,
		Example: `  capstan generate cluster demo --worker-machine-count 2 | kubectl apply -f -
  capstan generate cluster demo --list-variables
  capstan generate cluster demo --from my-template.yaml --var REGION=eu-1`,
		Args: exactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGenerateCluster(cmd.Context(), cmd, env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	o.template.add(cmd)
	cmd.Flags().BoolVar(&o.listVariables, "list-variables", false, "print the variables of the template instead")
	cmd.Flags().StringVar(&o.writeTo, "write-to", "", "file to write to instead of standard output")
	return cmd
}

func runGenerateCluster(ctx context.Context, cmd *cobra.Command, env *Env, o generateClusterOptions, name string) error {
	opts, err := o.template.options(ctx, cmd, env, name, func() (*clusterctl.Client, error) { return open(env, &o.mgmt, &o.template.namespace) })
	if err != nil {
		return err
	}
	if o.listVariables {
		return listVariables(env, opts)
	}
	doc, err := generate(opts)
	if err != nil {
		return err
	}
	if o.writeTo != "" {
		if err := os.WriteFile(o.writeTo, doc, 0o644); err != nil {
			return fmt.Errorf("write the cluster's objects: %w", err)
		}
		return nil
	}
	_, err = env.Out.Write(doc)
	return err
}

// generate fills the template; an option that no cluster can have is misuse.
func generate(o clusterctl.GenerateOptions) ([]byte, error) {
	doc, err := clusterctl.Generate(o)
	if errors.As(err, new(*clusterctl.OptionError)) {
		return nil, command.Misuse(err)
	}
	return doc, err
}

func listVariables(env *Env, o clusterctl.GenerateOptions) error {
	vars, err := clusterctl.Variables(o)
	if err != nil {
		return err
	}
	for _, required := range []bool{true, false} {
		heading := "Optional, with their defaults:"
		if required {
			heading = "Required:"
		}
		env.Print("%s", heading)
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			switch def := vars[name]; {
			case required && def == nil:
				env.Print("  %s", name)
			case !required && def != nil:
				env.Print("  %s (%q)", name, *def)
			}
		}
	}
	return nil
}

// exactlyOneName asks for the name of a cluster.
func exactlyOneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.Misuse(fmt.Errorf("the name of one cluster is needed: %s", cmd.UseLine()))
	}
	return nil
}
