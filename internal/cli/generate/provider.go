// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type providerOptions struct {
	namespace     string
	describe, raw bool
	output        output
}

func newProvider(env *command.Env) *cobra.Command {
	var o providerOptions
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Print the objects of a provider",
		Long: `Print the objects that install a provider: those of its release, with all variables
filled in, in one namespace and labelled. No management cluster is needed.`,
		Example: `  capstan generate provider --infrastructure aws:v2.11.1
  capstan generate provider --infrastructure aws --describe
  capstan generate provider --bootstrap kubeadm --raw`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runProvider(cmd, env, o)
		},
	}
	for _, f := range command.ProviderFlags() {
		cmd.Flags().StringP(f.Name, f.Short, "", f.What+" provider, as NAME or NAME:VERSION")
	}
	cmd.Flags().StringVarP(&o.namespace, "target-namespace", "n", "", "namespace of the provider (default: that of its release)")
	cmd.Flags().BoolVar(&o.describe, "describe", false, "print what the provider is, its variables and images, instead")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "print the file of the release as it is")
	o.output.add(cmd)
	return cmd
}

func runProvider(cmd *cobra.Command, env *command.Env, o providerOptions) error {
	if err := command.RefuseEmpty(cmd.Flags(), "target-namespace", "write-to"); err != nil {
		return err
	}
	if o.raw && o.describe {
		return command.Misuse(errors.New("--raw and --describe: give one of them"))
	}
	in, file, err := load(cmd, env)
	if err != nil {
		return err
	}
	if o.raw {
		return o.output.write(env, in.Raw)
	}
	in.Namespace, in.OnlyLook = o.namespace, o.describe
	c, err := components.Load(in)
	if err != nil {
		return err
	}
	for _, text := range c.Warnings {
		env.Say("Warning: %s", text)
	}
	doc, err := c.YAML()
	if o.describe {
		doc = describe(c, file)
	}
	if err != nil {
		return err
	}
	return o.output.write(env, doc)
}

// load reads the file of the release that the command line names.
func load(cmd *cobra.Command, env *command.Env) (in components.Input, file string, err error) {
	kind, name, version, err := named(cmd)
	if err != nil {
		return in, "", err
	}
	settings, repositories, err := env.Sources()
	if err != nil {
		return in, "", err
	}
	if in.Provider, err = settings.Provider(name, kind); err != nil {
		return in, "", err
	}
	release, err := open(cmd.Context(), in.Provider, version, repositories)
	if err != nil {
		return in, "", err
	}
	keeps, err := repository.ContractOf(cmd.Context(), release.Repository, release.Version)
	if err == nil {
		err = repository.CheckContract("release "+release.Version, keeps, contract.Versions())
	}
	if err != nil {
		return in, "", fmt.Errorf("provider %s: %w", in.Provider.Label(), err)
	}
	file = release.Repository.ComponentsFile()
	in.Version, in.Variables, in.Image = release.Version, settings.Variable, settings.Image
	if in.Raw, err = release.Repository.File(cmd.Context(), in.Version, file); err != nil {
		return in, "", fmt.Errorf("provider %s: %w", in.Provider.Label(), err)
	}
	return in, file, nil
}

// named is the one provider that the command line names.
func named(cmd *cobra.Command) (kind clusterctlv1.ProviderType, name, version string, err error) {
	var flags, given []string
	for _, f := range command.ProviderFlags() {
		flags = append(flags, "--"+f.Name)
		flag := cmd.Flags().Lookup(f.Name)
		if !flag.Changed {
			continue
		}
		given, kind = append(given, "--"+f.Name), f.Type
		if name, version, err = nameAndVersion("--"+f.Name, flag.Value.String()); err != nil {
			return "", "", "", err
		}
	}
	if len(given) != 1 || name == "" {
		return "", "", "", command.Misuse(fmt.Errorf("name one provider, by one of %s", strings.Join(flags, ", ")))
	}
	return kind, name, version, nil
}

// describe describes a provider, as clusterctl does.
func describe(c *components.Components, file string) []byte {
	var out strings.Builder
	at := c.Provider.URL
	if u, err := url.Parse(at); err == nil {
		at = u.Redacted()
	}
	for _, line := range [][2]string{
		{"Name", c.Provider.Name}, {"Type", string(c.Provider.Type)}, {"URL", at}, {"Version", c.Version}, {"File", file},
		{"TargetNamespace", cmp.Or(c.Namespace, "none: choose one with --target-namespace")},
	} {
		fmt.Fprintf(&out, "%-19s %s\n", line[0]+":", line[1])
	}
	out.WriteString("Variables:\n")
	for _, name := range slices.Sorted(maps.Keys(c.Variables)) {
		if def := c.Variables[name]; def != nil {
			fmt.Fprintf(&out, "  - %s (defaults to %q)\n", name, *def)
		} else {
			fmt.Fprintf(&out, "  - %s\n", name)
		}
	}
	out.WriteString("Images:\n")
	for _, image := range c.Images {
		fmt.Fprintf(&out, "  - %s\n", image)
	}
	return []byte(out.String())
}
