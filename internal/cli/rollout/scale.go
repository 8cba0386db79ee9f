// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// waiting are the flags of a command that can wait for its result.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func (w *waiting) add(cmd *cobra.Command, byDefault bool) {
	cmd.Flags().BoolVar(&w.wait, "wait", byDefault, "wait until it is done")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 30*time.Minute, "how long to wait")
}

// follow waits if that was requested, and prints what is awaited.
func (w *waiting) follow(ctx context.Context, env *command.Env, until func(context.Context, func(string)) error) error {
	if !w.wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	return until(ctx, env.TimedPrinter())
}

// NewScale returns the command scale.
func NewScale(env *command.Env) *cobra.Command {
	var (
		t       target
		w       waiting
		o       rollout.ScaleOptions
		current int32
	)
	cmd := &cobra.Command{
		Use:   "scale KIND/NAME --replicas N",
		Short: "Change the number of machines",
		Long: `Change how many machines a MachineDeployment, MachineSet, MachinePool or
KubeadmControlPlane has. Where the topology of a Cluster says it, the topology is
changed. A control plane with etcd on its machines has an odd number.`,
		Example: `  capstan scale machinedeployment/demo-md-0 --replicas 5 --wait
  capstan scale kubeadmcontrolplane/demo-control-plane --replicas 3 --current-replicas 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("replicas") || o.Replicas < 0 {
				return command.Misuse(errors.New("--replicas is required: the number of machines, 0 or more"))
			}
			if len(args) > 1 {
				return command.Misuse(fmt.Errorf("one object is needed: %s", cmd.UseLine()))
			}
			if cmd.Flags().Changed("current-replicas") {
				o.Current = &current
			}
			c, objects, err := t.objects(cmd, env, true, args, scalable)
			if err != nil {
				return err
			}
			text, err := c.Scale(cmd.Context(), objects[0], o)
			if t.plan && err == nil {
				return t.show(cmd.Context(), env)
			}
			if err != nil || o.DryRun {
				if err == nil {
					env.Print("%s (dry run: nothing is changed)", text)
				}
				return err
			}
			env.Print("%s", text)
			return w.follow(cmd.Context(), env, func(ctx context.Context, tell func(string)) error {
				return c.WaitScaled(ctx, objects[0], o.Replicas, tell)
			})
		},
	}
	t.add(cmd, env)
	cmd.ValidArgsFunction = t.complete(env, 1, scalable)
	w.add(cmd, false)
	t.addPlan(cmd)
	cmd.Flags().Int32Var(&o.Replicas, "replicas", 0, "number of machines")
	cmd.Flags().Int32Var(&current, "current-replicas", 0, "change nothing unless so many are asked for now")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "ask whether it could be done, and change nothing")
	return cmd
}
