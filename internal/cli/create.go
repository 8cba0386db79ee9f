// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/generate"
)

type createClusterOptions struct {
	mgmt     command.MgmtFlags
	template generate.Template
	wait     bool
	timeout  time.Duration
}

func newCreate(env *Env) *cobra.Command {
	cmd := &cobra.Command{Use: "create", Short: "Create a cluster"}
	cmd.AddCommand(newCreateCluster(env))
	return cmd
}

func newCreateCluster(env *Env) *cobra.Command {
	var o createClusterOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME",
		Short: "Create a cluster and wait until it is available",
		Long: `Fill a cluster template, create its objects and follow the cluster until it
is Available. Every object is checked before the first is created; only a
Namespace that the template brings is created before. Interrupting the wait does
not stop the cluster from coming up.`,
		Example: `  capstan create cluster demo --control-plane-machine-count 3 --worker-machine-count 2`,
		Args:    command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCreateCluster(cmd.Context(), cmd, env, o, args[0])
		},
	}
	o.mgmt.Add(cmd, &env.Env)
	o.template.Add(cmd, &env.Env)
	cmd.Flags().BoolVar(&o.wait, "wait", true, "wait until the cluster is Available")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait")
	return cmd
}

func runCreateCluster(ctx context.Context, cmd *cobra.Command, env *Env, o createClusterOptions, name string) error {
	c, err := o.mgmt.OpenToChange(&env.Env, &o.template.Namespace)
	if err != nil {
		return err
	}
	opts, err := o.template.Options(cmd, &env.Env, name, func() (*clusterctl.Client, error) { return c, nil })
	if err != nil {
		return err
	}
	doc, err := generate.Fill(opts)
	if err != nil {
		return err
	}
	tell := env.Progress()
	if err := c.Create(ctx, doc, tell); err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.template.Namespace, Name: name}
	if !o.wait {
		env.Say("Follow it with: capstan describe cluster %s -n %s%s", key.Name, key.Namespace, o.mgmt.Repeat())
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := c.WaitAvailable(ctx, key, tell); err != nil {
		return err
	}
	data, err := c.Kubeconfig(ctx, key)
	if err != nil {
		return err
	}
	announce(env, o.mgmt, key, data)
	return nil
}

// announce saves the kubeconfig of a cluster, and prints the next steps: kubectl only
// if the API server of the cluster answers this host. A file that cannot be written is
// no failure: the cluster exists, and its kubeconfig too.
func announce(env *Env, mgmt command.MgmtFlags, key client.ObjectKey, data []byte) {
	path, err := saveKubeconfig(env, mgmt.DataDir, key, data)
	if err != nil {
		env.Say("Warning: %v", err)
		env.Say("Cluster %s is Available", key)
		return
	}
	env.Print("%s", path)
	_, _, unreachable := askVersion(path)
	if unreachable != nil { // the management cluster may be on another host, or in another network
		env.Say("Cluster %s is Available, but not from this host: %v. Next:", key, unreachable)
	} else {
		env.Say("Cluster %s is Available. Next:\n  kubectl --kubeconfig %s get nodes", key, command.Quote(path))
	}
	env.Say(`  capstan describe cluster %[2]s -n %[1]s%[3]s
  capstan delete cluster %[2]s -n %[1]s%[3]s`, key.Namespace, key.Name, mgmt.Repeat())
}
