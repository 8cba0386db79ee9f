// SPDX-License-Identifier: Apache-2.0

package install

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// NewConfig returns the command config with all commands below it.
func NewConfig(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the configuration",
	}
	cmd.AddCommand(newRepositories(env))
	return cmd
}

// formats of the list of repositories; the first is the default.
var formats = []string{"text", "yaml", "json"}

func newRepositories(env *command.Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "repositories",
		Short: "List the providers and where their releases are",
		Long: `List all providers that can be named: those that are known anyway, and those that
the configuration file adds or has elsewhere, with the URL of their releases and the
file that has their components.`,
		Example: `  capstan config repositories
  capstan config repositories -o yaml`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.RefuseEmpty(cmd.Flags(), "output"); err != nil {
				return err
			}
			if err := command.CheckOutput(output, formats...); err != nil {
				return err
			}
			return runRepositories(env, output)
		},
	}
	command.OutputFlag(cmd, &output, formats[0], formats...)
	return cmd
}

// repositoryRow is one line of the list; its keys are upstream's.
type repositoryRow struct {
	File         string `json:"File"`
	Name         string `json:"Name"`
	ProviderType string `json:"ProviderType"`
	URL          string `json:"URL"`
}

func runRepositories(env *command.Env, output string) error {
	c, err := env.Config()
	if err != nil {
		return err
	}
	providers, err := c.Providers()
	if err != nil {
		return err
	}
	var all []repositoryRow
	for _, p := range providers {
		at := p.URL
		if u, err := url.Parse(at); err == nil {
			at = u.Redacted()
		}
		end := strings.LastIndexByte(at, '/') + 1
		all = append(all, repositoryRow{File: at[end:], Name: p.Name, ProviderType: string(p.Type), URL: at[:end]})
	}
	if output == "yaml" || output == "json" {
		return env.PrintObject(all, output)
	}
	table := env.Table("NAME", "TYPE", "URL", "FILE")
	for _, r := range all {
		table.Row(r.Name, r.ProviderType, r.URL, r.File)
	}
	return table.Flush()
}
