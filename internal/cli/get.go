// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func newGet(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Get something of a workload cluster", Args: cobra.NoArgs}
	cmd.AddCommand(newGetKubeconfig(env), newGetNodes(env))
	return cmd
}

func newGetKubeconfig(env *Env) *cobra.Command {
	var flags command.MgmtFlags
	var namespace string
	cmd := &cobra.Command{
		Use:     "kubeconfig NAME",
		Short:   "Print the admin kubeconfig of a workload cluster",
		Example: `  capstan get kubeconfig demo > demo.kubeconfig`,
		Args:    exactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := open(env, &flags, &namespace)
			if err != nil {
				return err
			}
			data, err := c.Kubeconfig(cmd.Context(), client.ObjectKey{Namespace: namespace, Name: args[0]})
			if err != nil {
				return err
			}
			_, err = env.Out.Write(data)
			return err
		},
	}
	flags.Add(cmd, &env.Env)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	return cmd
}
