// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/upgrade"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// NewUpgrade returns the command upgrade, with those below it that are about providers;
// what others upgrade is below it, too.
func NewUpgrade(env *command.Env, others ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: "upgrade", Short: "Upgrade a cluster, or providers of a management cluster"}
	cmd.AddCommand(newPlan(env), newApply(env))
	cmd.AddCommand(others...)
	return cmd
}

func newPlan(env *command.Env) *cobra.Command {
	var mgmt command.MgmtFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show to which versions the providers may go",
		Long: `Show to which versions the providers of a management cluster may go, for each
version of the contract that all of them keep in some release. Nothing is changed.

What is built into a plane of Capstan is shown, and upgraded with the program.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd.Context(), env, mgmt) },
	}
	mgmt.Add(cmd, env)
	return cmd
}

func runPlan(ctx context.Context, env *command.Env, mgmt command.MgmtFlags) error {
	w, err := open(env, &mgmt)
	if err != nil {
		return err
	}
	env.Say("Checking cert-manager version...")
	certs, err := w.certManager().Plan(ctx)
	switch {
	case err != nil:
		return err
	case certs.Theirs:
		env.Print("Cert-Manager is not installed by %s: it is left alone", env.Name)
	case certs.Due:
		env.Print("Cert-Manager will be upgraded from %q to %q", certs.From, certs.To)
	default:
		env.Print("Cert-Manager is already up to date")
	}
	env.Say("Checking new release availability...")
	all, err := w.upgrader().Read(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errNothingInstalled
	}
	plans := upgrade.Plans(all)
	if len(plans) == 0 {
		return errNoCore
	}
	for _, p := range plans {
		if err := show(env, p, mgmt.Repeat()); err != nil {
			return err
		}
	}
	return nil
}

var (
	errNothingInstalled = errors.New("no provider is installed on the management cluster: `init` installs them")
	errNoCore           = errors.New("no core provider is installed on the management cluster: `init` installs it")
)

func show(env *command.Env, p upgrade.Plan, repeat string) error {
	env.Print("\nLatest release available for the %s Cluster API contract version:\n", p.Contract)
	t := env.Table("NAME", "NAMESPACE", "TYPE", "CURRENT VERSION", "NEXT VERSION")
	for _, i := range p.Items {
		t.Row(i.Provider.Name, i.Provider.Namespace, i.Provider.Type, i.Provider.Version, cmp.Or(i.Next, i.Note))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	switch {
	case !p.Changes():
		env.Print("\nYou are already up to date!")
	case !p.Applicable:
		env.Print("\nThe current version of %s could not upgrade to %s contract (only %s supported).", env.Name, p.Contract, contract.Versions()[0])
	default:
		env.Print("\nYou can now apply the upgrade by executing the following command:\n\n%s upgrade apply --contract %s%s", env.Name, p.Contract, repeat)
	}
	return nil
}

type applyOptions struct {
	mgmt      command.MgmtFlags
	providers selection
	waiting   waiting
	contract  string
}

func newApply(env *command.Env) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Upgrade providers",
		Long: `Upgrade the providers of a management cluster: all of them to the newest releases
for a version of the contract, or those that are named.

Their controllers are stopped, their objects are replaced by those of the new
release, and the inventory is brought up to date. Definitions stay, with all objects
of their kinds; those are stored at the new version where it has changed.

All input is read and checked before the first write. If the command is
interrupted, run it again to continue.`,
		Example: `  capstan upgrade apply --contract v1beta2
  capstan upgrade apply --infrastructure capa-system/aws:v2.11.1`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), append(flags(), "contract")...); err != nil {
				return err
			}
			switch named := !o.providers.selected().Empty(); {
			case o.contract == "" && !named:
				return command.Misuse(errors.New("--contract is needed, or the providers to upgrade"))
			case o.contract != "" && named:
				return command.Misuse(errors.New("--contract goes without naming providers: it upgrades all"))
			}
			return runApply(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	o.providers.add(cmd, env, "[NAMESPACE/]NAME:VERSION", "")
	o.waiting.add(cmd)
	cmd.Flags().StringVar(&o.contract, "contract", "", "version of the contract to upgrade all providers for, such as v1beta2")
	_ = cmd.RegisterFlagCompletionFunc("contract", cobra.FixedCompletions(contract.Versions()[:1], cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runApply(ctx context.Context, env *command.Env, o applyOptions) error {
	limit, err := o.waiting.limit()
	if err != nil {
		return err
	}
	w, err := openToChange(env, &o.mgmt)
	if err != nil {
		return err
	}
	u := w.upgrader()
	u.Certificates = w.certManager()
	all, err := u.Read(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errNothingInstalled
	}
	plan, err := chosen(all, o)
	if err != nil {
		return err
	}
	done, err := u.Apply(ctx, plan, limit)
	if err != nil {
		return err
	}
	if len(done) == 0 {
		env.Say("Nothing to upgrade: all that can be is up to date.")
		return nil
	}
	env.Say("Upgraded: %s.", told(done))
	return nil
}

func chosen(all []upgrade.Releases, o applyOptions) (upgrade.Plan, error) {
	if o.contract == "" {
		return upgrade.Named(all, o.providers.selected())
	}
	plans := upgrade.Plans(all)
	if len(plans) == 0 {
		return upgrade.Plan{}, errNoCore
	}
	return upgrade.Allowed(plans, o.contract)
}
