// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

type deleteOptions struct {
	mgmt                              command.MgmtFlags
	providers                         selection
	all, namespaces, definitions, yes bool
}

// NewDelete returns the command delete, which deletes providers; what others delete is
// below it.
func NewDelete(env *command.Env, others ...*cobra.Command) *cobra.Command {
	var o deleteOptions
	var names []string
	for _, c := range others {
		names = append(names, c.Name())
	}
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete a cluster, or providers of a management cluster",
		Long: `Delete providers of a management cluster, or with a command below this one
something else.

Of a provider go its Deployments, roles and webhooks. Its namespace and its
definitions stay, unless that is asked for: with a definition go all objects of its
kind, so there must be none. Objects without a namespace stay when they are not
named after that of the provider.

What is built into a plane of Capstan goes with the program. You are asked before
anything is deleted if this is a terminal, unless with --yes.`,
		Example: `  capstan delete --infrastructure aws
  capstan delete --all --include-namespace --include-crd`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Misuse(fmt.Errorf("unknown command %q%s", args[0], suggest.Hint(args[0], names)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), flags()...); err != nil {
				return err
			}
			switch named := !o.providers.selected().Empty(); {
			case !o.all && !named:
				return command.Misuse(errors.New("at least one of --" + strings.Join(flags(), ", --") + ", or --all is needed"))
			case o.all && named:
				return command.Misuse(errors.New("--all goes without naming providers"))
			}
			return runDelete(cmd.Context(), env, o)
		},
	}
	cmd.AddCommand(others...)
	o.mgmt.Add(cmd, env)
	o.providers.add(cmd, env, "[NAMESPACE/]NAME or NAME:VERSION", "")
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "delete all providers")
	f.BoolVar(&o.namespaces, "include-namespace", false, "delete the namespaces of the providers, with all that is in them")
	f.BoolVar(&o.definitions, "include-crd", false, "delete the CustomResourceDefinitions of the providers, if there are no objects of their kinds")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

func runDelete(ctx context.Context, env *command.Env, o deleteOptions) error {
	w, err := openToChange(env, &o.mgmt)
	if err != nil {
		return err
	}
	i := w.installer()
	d, err := i.PlanDelete(ctx, install.DeleteOptions{Selection: o.providers.selected(), All: o.all, Namespaces: o.namespaces, Definitions: o.definitions})
	if err != nil {
		return err
	}
	if len(d.BuiltIn) > 0 {
		env.Say("Built into the management cluster, and left: %s.", told(d.BuiltIn))
	}
	if len(d.Providers) == 0 {
		env.Say("Nothing to delete.")
		return nil
	}
	if !o.yes {
		if err := env.AskIfPossible(ctx, fmt.Sprintf("Delete %s from %s?", told(d.Providers), w.mgmt)); err != nil {
			return err
		}
	}
	if err := i.Delete(ctx, d); err != nil {
		return err
	}
	env.Say("Deleted: %s.", told(d.Providers))
	return nil
}
