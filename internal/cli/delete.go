// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	dryRun, yes    bool
}

func newDeleteCluster(env *Env) *cobra.Command {
	var o deleteClusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Delete a cluster with all its machines",
		Long: `Delete a Cluster and follow it until nothing of it is left. Its machines and
their disks are lost. If there is no Cluster, as when only a part of a template
was applied, what carries its label is deleted. At a terminal you are asked first,
unless with --yes.`,
		Example: `  capstan delete cluster demo --dry-run
  capstan delete cluster demo --yes`,
		Args: command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDeleteCluster(cmd.Context(), env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	cmd.ValidArgsFunction = o.mgmt.CompleteClusters(&env.Env, 1)
	cmd.Flags().StringVarP(&o.namespace, "namespace", "n", "", "namespace of the cluster (default: that of the kubeconfig)")
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the cluster is gone")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be lost and what would stay, and delete nothing")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.ignoreNotFound, "ignore-not-found", false, "one that is not there is no error")
	return cmd
}

func runDeleteCluster(ctx context.Context, env *Env, o deleteClusterOptions, name string) error {
	c, mgmt, err := o.mgmt.Connect(&env.Env, &o.namespace)
	if err != nil {
		return err
	}
	env.Say("Management cluster: %s", mgmt)
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	if o.dryRun {
		return showLosses(ctx, env, c, o, key)
	}
	if !o.yes {
		if err := env.AskIfPossible(ctx, fmt.Sprintf("Delete Cluster %s of %s, with all its machines and their disks?", key, mgmt)); err != nil {
			return err
		}
	}
	// Read before its Secret is deleted with the cluster: it shows whether the file
	// is the one of this cluster. It may have none so far.
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
	if err := c.WaitDeleted(ctx, key, env.Progress()); err != nil {
		return err
	}
	env.Say("Cluster %s is deleted", key)
	return dropKubeconfig(o.mgmt.DataDir, key, kubeconfig)
}

// showLosses prints what a deletion would delete.
func showLosses(ctx context.Context, env *Env, c *clusterctl.Client, o deleteClusterOptions, key client.ObjectKey) error {
	losses, err := c.Losses(ctx, key)
	if _, none := errors.AsType[*clusterctl.NoClusterError](err); none && o.ignoreNotFound && len(losses.Lost) == 0 {
		env.Say("There is no Cluster %s", key)
		return nil
	}
	if err != nil && len(losses.Lost) == 0 {
		return err
	}
	for _, part := range []struct {
		title string
		lines []string
	}{{"Lost would be:", losses.Lost}, {"These would stay:", losses.Stays}} {
		if len(part.lines) > 0 {
			env.Print("%s\n  %s", part.title, strings.Join(part.lines, "\n  "))
		}
	}
	env.Say("Dry run: nothing is deleted")
	return nil
}

// deleteRemains removes what is left of a cluster without its Cluster.
func deleteRemains(ctx context.Context, env *Env, c *clusterctl.Client, o deleteClusterOptions, none *clusterctl.NoClusterError) error {
	remains, err := c.DeleteRemains(ctx, none.Key, env.Progress())
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
