// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

type upgradeOptions struct {
	target
	waiting
	version string
	dryRun  bool
}

// NewUpgradeCluster returns the command cluster, a subcommand of upgrade.
func NewUpgradeCluster(env *command.Env) *cobra.Command {
	var o upgradeOptions
	cmd := &cobra.Command{
		Use:   "cluster NAME --kubernetes-version VERSION",
		Short: "Upgrade Kubernetes in a workload cluster",
		Long: `Upgrade the machines of a workload cluster to another version of Kubernetes:
the version of its topology, or the control plane and then, when that is done,
the workers. The plan is shown before anything changes. If the upgrade is
interrupted, run the same command to continue. It skips no minor version, and
never downgrades.`,
		Example: `  capstan upgrade cluster demo --kubernetes-version v1.34.1 --dry-run
  capstan upgrade cluster demo --kubernetes-version v1.34.1`,
		Args: command.ExactlyOneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.version == "" {
				return command.Misuse(errors.New("--kubernetes-version is needed, such as v1.34.1"))
			}
			return o.run(cmd.Context(), env, args[0])
		},
	}
	o.target.add(cmd, env)
	cmd.ValidArgsFunction = o.mgmt.CompleteClusters(env, 1)
	o.waiting.add(cmd, true)
	o.addPlan(cmd)
	cmd.Flags().StringVar(&o.version, "kubernetes-version", "", "Kubernetes version of the machines")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show the plan, ask whether it could be done, and change nothing")
	return cmd
}

func (o *upgradeOptions) run(ctx context.Context, env *command.Env, cluster string) error {
	c, err := o.open(env, true)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: o.namespace, Name: cluster}
	steps, err := c.PlanUpgrade(ctx, key, o.version)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		env.Say("Cluster %s asks for version %s everywhere", key, o.version)
	}
	for i, s := range steps {
		if s.After != "" {
			s.Text += ", after " + s.After
		}
		env.Print("%d. %s", i+1, s.Text)
	}
	switch {
	case o.plan:
		return o.preview(ctx, env, c, steps)
	case o.dryRun:
		return o.rehearse(ctx, env, c, steps)
	}
	for _, s := range steps {
		if s.After != "" {
			if !o.wait {
				env.Say("The rest comes after %s: run the same command again then", s.After)
				return nil
			}
			if err := o.follow(ctx, env, func(ctx context.Context, tell func(string)) error {
				return c.WaitControlPlane(ctx, key, o.version, tell)
			}); err != nil {
				return o.interrupted(env, err)
			}
		}
		if err := c.Apply(ctx, s, false); err != nil {
			return err
		}
	}
	if err := o.follow(ctx, env, func(ctx context.Context, tell func(string)) error { return c.WaitUpgraded(ctx, key, o.version, tell) }); err != nil {
		return o.interrupted(env, err)
	}
	if o.wait {
		env.Say("Cluster %s has version %s", key, o.version)
	}
	return nil
}

// preview shows what the steps do to each machine.
func (o *upgradeOptions) preview(ctx context.Context, env *command.Env, c *rollout.Client, steps []rollout.Step) error {
	waited := false // for the control plane: what follows is sent together
	for _, s := range steps {
		before := len(*o.writes)
		if err := c.Apply(ctx, s, false); err != nil {
			return err
		}
		if s.After != "" && !waited && before < len(*o.writes) {
			waited, (*o.writes)[before].Waits = true, true
		}
	}
	return o.show(ctx, env)
}

func (o *upgradeOptions) interrupted(env *command.Env, err error) error {
	env.Say("The operation continues; run the same command to wait for it again")
	return err
}

// rehearse checks with the API server whether it would accept the steps.
func (o *upgradeOptions) rehearse(ctx context.Context, env *command.Env, c *rollout.Client, steps []rollout.Step) error {
	for _, s := range steps {
		if err := c.Apply(ctx, s, true); err != nil {
			return err
		}
	}
	env.Say("Dry run: nothing is changed")
	return nil
}
