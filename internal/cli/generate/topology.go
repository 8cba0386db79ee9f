// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/clusterctl/topology"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// NewTopology returns the command topology with all commands below it.
func NewTopology(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "See what a ClusterClass makes of a Cluster",
	}
	cmd.AddCommand(newRender(env))
	return cmd
}

type renderOptions struct {
	mgmt      command.MgmtFlags
	files     []string
	namespace string
	variables []string
	output    string
}

// Forms of the output.
const (
	asYAML = "yaml"
	asDiff = "diff"
)

func newRender(env *command.Env) *cobra.Command {
	var o renderOptions
	cmd := &cobra.Command{
		Use:   "render -f FILE...",
		Short: "Show what a ClusterClass makes of a Cluster",
		Long: `Show the objects that a ClusterClass makes of a Cluster: infrastructure, control
plane, groups of workers, their templates and health checks, with all patches of
the class and all variables of the Cluster. Nothing is written.

The files have one Cluster with spec.topology. With -o yaml no management cluster
is needed: its class and the templates of that are in the files as well. A patch
of an extension cannot be shown then.

With -o diff it is compared with what the management cluster has: what would be
made, changed and deleted, and which machines would be replaced for it. What is in
no file is read there. Extensions are asked for their patches, at the addresses that
their ExtensionConfigs have.

All parts are shown at spec.topology.version, as they are at the end of an upgrade.
The random parts of names are those that a Cluster with this UID would get, which
has none before it exists.`,
		Example: `  capstan topology render -f cluster.yaml -f class.yaml
  capstan topology render -f cluster.yaml -f class.yaml --variables image=v2 --variables zones='[a, b]'
  capstan topology render -f class-as-it-should-be.yaml -f cluster.yaml -o diff`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), "filename", "namespace", "variables", "output"); err != nil {
				return err
			}
			if !slices.Contains([]string{asYAML, asDiff}, o.output) {
				return command.Misuse(fmt.Errorf("--output %q is not known: use %s or %s", o.output, asYAML, asDiff))
			}
			if len(o.files) == 0 {
				return command.Misuse(errors.New("-f is needed: a file with the Cluster, - for stdin"))
			}
			return runRender(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file with the Cluster, its class and templates; several can be given, - is stdin")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of what names none (default: default, or that of the kubeconfig with -o diff)")
	f.StringArrayVar(&o.variables, "variables", nil, "NAME=VALUE of a variable of the topology, the value as YAML; several can be given")
	f.StringVarP(&o.output, "output", "o", asYAML, "yaml: the objects; diff: what would change on the management cluster")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{asYAML, asDiff}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	return cmd
}

func runRender(ctx context.Context, env *command.Env, o renderOptions) error {
	objects, err := env.ReadObjects(o.files)
	if err != nil {
		return err
	}
	if o.output == asDiff {
		return compare(ctx, env, o, objects)
	}
	source, err := topology.Read(objects, cmp.Or(o.namespace, "default"), nil)
	if err != nil {
		return err
	}
	if err := set(source, o.variables); err != nil {
		return err
	}
	rendered, err := source.Render()
	notes(env, rendered.Notes)
	return errors.Join(show(env, rendered.Objects), err)
}

func compare(ctx context.Context, env *command.Env, o renderOptions, objects []*unstructured.Unstructured) error {
	mgmt, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	plane, err := topology.NewPlane(mgmt.Config)
	if err != nil {
		return err
	}
	env.Say("Management cluster: %s", mgmt)
	source, err := topology.Read(objects, cmp.Or(o.namespace, mgmt.Namespace), plane.Lookup(ctx))
	if err != nil {
		return err
	}
	if err := set(source, o.variables); err != nil {
		return err
	}
	c, err := plane.Compare(ctx, source)
	notes(env, c.Notes)
	for _, change := range c.Changes {
		env.Print("%s %s", change.Verb, change.Object)
		for _, d := range change.Details {
			env.Print("    %s", d)
		}
		if len(change.Machines) > 0 {
			env.Print("    machines that may be replaced for it: %s", strings.Join(change.Machines, ", "))
		}
	}
	if err == nil && len(c.Changes) == 0 {
		env.Say("Nothing would change.")
	}
	return err
}

func notes(env *command.Env, all []string) {
	for _, note := range all {
		env.Say("Note: %s", note)
	}
}

func set(source *topology.Source, variables []string) error {
	for _, v := range variables {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return command.Misuse(fmt.Errorf("--variables %s: want NAME=VALUE", v))
		}
		if err := source.SetVariable(name, value); err != nil {
			return command.Misuse(fmt.Errorf("--variables %s: %w", v, err))
		}
	}
	return nil
}

func show(env *command.Env, objects []*unstructured.Unstructured) error {
	for i, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := env.Out.Write(text); err != nil {
			return err
		}
	}
	return nil
}
