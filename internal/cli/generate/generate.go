// SPDX-License-Identifier: Apache-2.0

// Package generate holds the commands that print objects from files: from templates, from
// the topology of a cluster, and in another version of the API.
package generate

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// New returns the command generate with all commands below it.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Print objects made from templates",
	}
	cmd.AddCommand(newCluster(env), newManager(env), newProvider(env), newYAML(env))
	return cmd
}

// output is the destination of the result.
type output struct{ file string }

func (o *output) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "write-to", "", "file to write to instead of standard output")
}

// write writes the result. A file is the user's alone: it may hold credentials.
func (o *output) write(env *command.Env, doc []byte) error {
	if o.file == "" {
		_, err := env.Out.Write(doc)
		return err
	}
	if err := os.WriteFile(o.file, doc, 0o600); err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	return nil
}

// printVariables lists variables, first those that must be given, as clusterctl does.
func printVariables(env *command.Env, all map[string]*string) error {
	var required, optional []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil {
			required = append(required, name)
		} else {
			optional = append(optional, name)
		}
	}
	if len(required) > 0 {
		env.Print("Required Variables:")
		for _, name := range required {
			env.Print("  - %s", name)
		}
		if len(optional) > 0 {
			env.Print("")
		}
	}
	if len(optional) == 0 {
		return nil
	}
	env.Print("Optional Variables:")
	width := 0
	for _, name := range optional {
		width = max(width, len(name))
	}
	for _, name := range optional {
		env.Print("  - %-*s  (defaults to %q)", width, name, *all[name])
	}
	return nil
}

type clusterOptions struct {
	mgmt          command.MgmtFlags
	template      Template
	listVariables bool
	output        output
}

func newCluster(env *command.Env) *cobra.Command {
	var o clusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Print the objects of a new cluster",
		Long: `Fill a cluster template and print the result. Templates are those of the releases of
an infrastructure provider: that of -i, or the one that was installed in the
management cluster, in the version that it has, or else that of this program, local.
A template may come from elsewhere, with --from or --from-config-map.

No management cluster is needed, unless one of its ConfigMaps has the template.`,
		Example: `  capstan generate cluster demo --worker-machine-count 2 | kubectl apply -f -
  capstan generate cluster demo -i aws:v2.11.1 --flavor machinepool --list-variables
  capstan generate cluster demo --from my-template.yaml --var REGION=eu-1`,
		Args: command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCluster(cmd, env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	o.template.Add(cmd, env)
	cmd.Flags().BoolVar(&o.listVariables, "list-variables", false, "print the variables of the template instead")
	o.output.add(cmd)
	return cmd
}

func runCluster(cmd *cobra.Command, env *command.Env, o clusterOptions, name string) error {
	if err := command.RefuseEmpty(cmd.Flags(), "write-to"); err != nil {
		return err
	}
	opts, err := o.template.Options(cmd, env, name, func() (*clusterctl.Client, error) { return o.mgmt.Open(env, &o.template.Namespace) })
	if err != nil {
		return err
	}
	if o.listVariables {
		all, err := clusterctl.Variables(opts)
		if err != nil {
			return err
		}
		return printVariables(env, all)
	}
	doc, err := Fill(opts)
	if err != nil {
		return err
	}
	return o.output.write(env, doc)
}
