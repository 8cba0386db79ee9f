// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// NewProvider returns the command provider with all commands below it.
func NewProvider(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Test providers against their contract",
		Long: `Providers bring infrastructure, bootstrap data and control planes. What they
promise to Cluster API is their contract; docs/book/providers.md takes you from
nothing to a provider that keeps it.`,
	}
	cmd.AddCommand(newTest(env))
	return cmd
}

type testOptions struct {
	mgmt   command.MgmtFlags
	config string
	files  []string
	roles  []string
	output Output
	list   bool
}

func newTest(env *command.Env) *cobra.Command {
	var o testOptions
	cmd := &cobra.Command{
		Use:   "test (--config FILE | --files FILE)",
		Short: "Check whether a provider fulfills the contract",
		Long: `Run the conformance suite against a provider and report each check: ok, FAIL,
note (advice, which Cluster API does not depend on) or skip. The status is 1
when one fails.

The config has an example of each kind that the provider defines. The suite creates
them on the management cluster, where the provider must be running, in its own
namespaces, with Clusters and Machines that own them; it pauses, resumes and deletes
them, and watches. It deletes all objects that it created, also after an interrupt.

Without examples, only definitions are checked, and --files, the manifests of a
release, needs no management cluster.`,
		Example: `  capstan provider test --config provider.yaml
  capstan provider test --config provider.yaml --roles InfraMachine -o junit
  capstan provider test --files infrastructure-components.yaml
  capstan provider test --list`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Check(); err != nil {
				return err
			}
			if err := command.RefuseEmpty(cmd.Flags(), "config", "files", "roles"); err != nil {
				return err
			}
			for _, r := range o.roles {
				if !slices.Contains(roleNames(), r) {
					return command.Misuse(fmt.Errorf("--roles: there is no role %q; there are %s", r, strings.Join(roleNames(), ", ")))
				}
			}
			if o.list {
				return o.output.List(env, checks(o.roles))
			}
			if o.config == "" && len(o.files) == 0 {
				return command.Misuse(errors.New("--config or --files is needed: what the provider has, or the files of its release"))
			}
			return runTest(cmd.Context(), env, o)
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "file with examples of what the provider has; - for stdin")
	f.StringSliceVar(&o.files, "files", nil, "manifests of a release, whose definitions are checked")
	f.StringSliceVar(&o.roles, "roles", nil, "roles to check: "+strings.Join(roleNames(), ", ")+" (default: all that the config has)")
	f.BoolVar(&o.list, "list", false, "print the checks instead")
	o.output.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("roles", cobra.FixedCompletions(roleNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func roleNames() []string { return slices.Sorted(maps.Keys(provider.Roles())) }

// checks are those of some roles, or of all.
func checks(roles []string) (all []conformance.Check) {
	if len(roles) == 0 {
		roles = roleNames()
	}
	for _, r := range roles {
		all = append(all, provider.Checks(r)...)
	}
	return all
}

func runTest(ctx context.Context, env *command.Env, o testOptions) error {
	c, err := readConfig(env, o)
	if err != nil {
		return err
	}
	name := o.config
	if name == "" {
		name = strings.Join(o.files, ",")
	}
	if c.NeedsManagement() {
		m, err := o.mgmt.Load(env)
		if err != nil {
			return err
		}
		env.Say("Management cluster: %s", m)
		c.Mgmt = m.Config
	}
	return o.output.Run(env, name, func(progress func(conformance.Result)) conformance.Report {
		c.Progress = progress
		return provider.Examine(ctx, c)
	})
}

// readConfig reads the config. Files that it names lie where it does.
func readConfig(env *command.Env, o testOptions) (c provider.Config, err error) {
	if o.config != "" {
		text, err := env.ReadFile(o.config)
		if err != nil {
			return c, fmt.Errorf("read --config: %w", err)
		}
		if c, err = provider.ReadConfig(text); err != nil {
			return c, fmt.Errorf("%s: %w", o.config, err)
		}
		for i, file := range c.Files {
			if !filepath.IsAbs(file) {
				c.Files[i] = filepath.Join(filepath.Dir(o.config), file) // the working directory for -
			}
		}
	}
	if len(o.files) > 0 {
		c.Files = o.files
	}
	if len(o.roles) > 0 {
		c.Roles = o.roles
	}
	return c, nil
}
