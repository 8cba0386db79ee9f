// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/extension/openapi"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func newOpenAPI(env *command.Env) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "openapi",
		Short: "Print the OpenAPI document of all hooks",
		Long: `Print the OpenAPI 3.0 document of all hooks that this program calls: for
authors in languages other than Go, and for tools. Every API server of a plane
serves it too, at /capstan/v1/hooks/openapi.json.`,
		Example: `  capstan extension openapi > hooks.json`,
		Args:    command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := command.CheckOutput(output, "json", "yaml"); err != nil {
				return err
			}
			text := openapi.JSON()
			if output == "yaml" {
				var err error
				if text, err = yaml.JSONToYAML(text); err != nil {
					return err
				}
			}
			_, err := env.Out.Write(text)
			return err
		},
	}
	command.OutputFlag(cmd, &output, "json", "json", "yaml")
	return cmd
}
