// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type yamlOptions struct {
	from          string
	listVariables bool
}

func newYAML(env *command.Env) *cobra.Command {
	var o yamlOptions
	cmd := &cobra.Command{
		Use:   "yaml",
		Short: "Fill the variables of a file",
		Long: `Fill the variables of a file and print it. The values are those of the environment,
and then those of the configuration file. Nothing else of the text changes.`,
		Example: `  capstan generate yaml --from template.yaml
  capstan generate yaml --from https://example.com/template.yaml --list-variables
  capstan generate yaml < template.yaml`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runYAML(cmd, env, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", repository.Stdin, "file or https URL of the text, also of GitHub's pages; - for standard input")
	cmd.Flags().BoolVar(&o.listVariables, "list-variables", false, "print the variables of the text instead")
	return cmd
}

func runYAML(cmd *cobra.Command, env *command.Env, o yamlOptions) error {
	if err := command.RefuseEmpty(cmd.Flags(), "from"); err != nil {
		return err
	}
	settings, err := env.Config()
	if err != nil {
		return err
	}
	repositories, err := env.Repositories()
	if err != nil {
		return err
	}
	raw, err := repository.Read(cmd.Context(), o.from, env.In, repositories)
	if err != nil {
		return err
	}
	if o.listVariables {
		all, err := template.Envsubst{}.Variables(raw)
		if err != nil {
			return err
		}
		return printVariables(env, all)
	}
	doc, err := template.Envsubst{}.Process(raw, settings.Variable)
	if err != nil {
		return err
	}
	_, err = env.Out.Write(doc)
	return err
}
