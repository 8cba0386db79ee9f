// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type initOptions struct {
	mgmt      command.MgmtFlags
	providers selection
	waiting   waiting
	namespace string
	validate  bool
	skipCerts bool
}

// NewInit returns the command init with the one below it.
func NewInit(env *command.Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Install providers on a management cluster",
		Long: `Install providers on a management cluster: their definitions, roles, webhooks and
Deployments, in the order core, bootstrap, control plane, infrastructure, others.
The inventory records the installed providers, as with clusterctl.

On a cluster without a core provider the default core is cluster-api, and the
default bootstrap and control plane are kubeadm; - means none. A plane of Capstan
has these built in: nothing is installed twice there.

All input is read and checked before the first write. If the command is
interrupted, run it again to continue.

If the cluster has no issuer for the Certificates of providers, cert-manager is
installed first.`,
		Example: `  capstan init --infrastructure aws
  capstan init --infrastructure aws:v2.11.1 --wait-providers
  capstan init --bootstrap - --control-plane -`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), append(flags(), "target-namespace")...); err != nil {
				return err
			}
			return runInit(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	o.add(cmd, env)
	o.waiting.add(cmd)
	cmd.Flags().BoolVar(&o.skipCerts, "skip-cert-manager", false, "neither look for cert-manager nor install it")
	cmd.AddCommand(newListImages(env))
	return cmd
}

// add adds the flags that init and list-images have in common.
func (o *initOptions) add(cmd *cobra.Command, env *command.Env) {
	o.providers.add(cmd, env, "NAME or NAME:VERSION", " (default on a new management cluster: cluster-api)")
	cmd.Flags().StringVarP(&o.namespace, "target-namespace", "n", "", "namespace for all of it (default: each provider's own)")
	cmd.Flags().BoolVar(&o.validate, "validate", true, "refuse providers that would not work; false only warns")
}

func runInit(ctx context.Context, env *command.Env, o initOptions) error {
	limit, err := o.waiting.limit()
	if err != nil {
		return err
	}
	w, err := openToChange(env, &o.mgmt)
	if err != nil {
		return err
	}
	i := w.installer()
	if !o.skipCerts {
		i.Certificates = w.certManager()
	}
	result, err := i.Init(ctx, install.InitOptions{Selection: o.providers.selected(), Namespace: o.namespace, Lenient: !o.validate, Wait: limit})
	switch {
	case err != nil:
		return err
	case len(result.Installed) == 0 && len(result.BuiltIn) > 0:
		env.Say("Nothing to install. Built into the management cluster: %s.", told(result.BuiltIn))
	case len(result.Installed) == 0:
		env.Say("Nothing to install.")
	case result.First:
		env.Say("\nYour management cluster has been initialized successfully!\n\nYou can now create your first workload cluster by running the following:\n\n  %s generate cluster [name] --kubernetes-version [version]%s | kubectl apply -f -\n", env.Name, o.mgmt.Repeat())
	default:
		env.Say("Installed: %s.", told(result.Installed))
	}
	return nil
}

func newListImages(env *command.Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use:   "list-images",
		Short: "List the images that init would use",
		Long: `List the container images that init would use on a new management cluster, sorted,
one a line. No management cluster is needed, and variables need no values.`,
		Example: `  capstan init list-images --infrastructure aws`,
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), append(flags(), "target-namespace")...); err != nil {
				return err
			}
			return runListImages(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	o.add(cmd, env)
	o.waiting.add(cmd)
	return cmd
}

func runListImages(ctx context.Context, env *command.Env, o initOptions) error {
	cfg, options, err := env.Sources()
	if err != nil {
		return err
	}
	images, err := install.Images(ctx, &install.Repositories{Config: cfg, Options: options, OnlyLook: true}, o.providers.selected(), o.namespace)
	if err != nil {
		return err
	}
	more, err := (&install.CertManager{Config: cfg, Options: options}).Images(ctx)
	if err != nil {
		return err
	}
	images = append(images, more...)
	slices.Sort(images)
	for _, image := range slices.Compact(images) {
		env.Print("%s", image)
	}
	return nil
}
