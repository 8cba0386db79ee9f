// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

type deleteClusterOptions struct {
	mgmt      command.MgmtFlags
	namespace string
	wait      bool
	timeout   time.Duration
}

func newDelete(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "delete", Short: "Delete a cluster", Args: cobra.NoArgs}
	cmd.AddCommand(newDeleteCluster(env))
	return cmd
}

func newDeleteCluster(env *Env) *cobra.Command {
	var o deleteClusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Delete a cluster with all its machines",
		Long: `Delete a Cluster and follow it until nothing of it is left. Its machines and
their disks are lost.`,
		Args: exactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDeleteCluster(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the cluster is gone")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

func runDeleteCluster(ctx context.Context, env *Env, o deleteClusterOptions, name string) error {
	c, err := openToChange(env, &o.mgmt, &o.namespace)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	kubeconfig, _ := c.Kubeconfig(ctx, key) // it may have none so far
	if err := c.DeleteCluster(ctx, key); err != nil {
		return err
	}
	if !o.wait {
		env.Say("Cluster %s is being deleted", key)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := c.WaitDeleted(ctx, key, progress(env)); err != nil {
		return err
	}
	env.Say("Cluster %s is deleted", key)
	return dropKubeconfig(o.mgmt.DataDir, key, kubeconfig)
}
