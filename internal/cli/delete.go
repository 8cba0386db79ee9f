// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type deleteClusterOptions struct {
	mgmt           command.MgmtFlags
	namespace      string
	wait           bool
	timeout        time.Duration
	ignoreNotFound bool
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
their disks are lost. If there is no Cluster, as when only a part of a template
was applied, what carries its label is deleted.`,
		Args: exactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDeleteCluster(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the cluster is gone")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "one that is not there is no error")
	return cmd
}

func runDeleteCluster(ctx context.Context, env *Env, o deleteClusterOptions, name string) error {
	c, err := openToChange(env, &o.mgmt, &o.namespace)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	// Read before its Secret goes with the cluster: it tells whether the file is
	// the one of this cluster. It may have none so far.
	kubeconfig, _ := c.Kubeconfig(ctx, key)
	err = c.DeleteCluster(ctx, key)
	if none, ok := errors.AsType[*clusterctl.NoClusterError](err); ok {
		return deleteRemains(ctx, env, c, o, none)
	}
	if err != nil {
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

// deleteRemains removes what there is of a cluster without its Cluster.
func deleteRemains(ctx context.Context, env *Env, c *clusterctl.Client, o deleteClusterOptions, none *clusterctl.NoClusterError) error {
	remains, err := c.DeleteRemains(ctx, none.Key, progress(env))
	if err == nil && len(remains) == 0 && o.ignoreNotFound {
		env.Say("There is no Cluster %s", none.Key)
		return nil
	}
	if err != nil || len(remains) == 0 {
		return errors.Join(none, err)
	}
	if !o.wait {
		env.Say("What is left of Cluster %s is being deleted", none.Key)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := c.WaitRemains(ctx, remains); err != nil {
		return err
	}
	env.Say("Cluster %s was not there; what carried its name is deleted", none.Key)
	return nil
}
