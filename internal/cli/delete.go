// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
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
	c, err := open(env, &o.mgmt, &o.namespace)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	if err := c.DeleteCluster(ctx, key); err != nil {
		return err
	}
	if !o.wait {
		fmt.Fprintf(env.Err, "Cluster %s is being deleted\n", key)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	started := env.Now()
	if err := c.WaitDeleted(ctx, key, func(e clusterctl.Event) {
		fmt.Fprintf(env.Err, "%5.1fs  %s\n", env.Now().Sub(started).Seconds(), e.Text)
	}); err != nil {
		return err
	}
	fmt.Fprintf(env.Err, "Cluster %s is deleted\n", key)
	return nil
}
