// SPDX-License-Identifier: Apache-2.0

// Package rollout has the commands that change how many machines a cluster has,
// and which: rollout, scale, and upgrade cluster.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/plan"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// target is the management cluster and the namespace that a command works on.
type target struct {
	mgmt      command.MgmtFlags
	namespace string
	// plan is true if the command shows what it would do to each machine; writes are
	// those that it would send to cluster.
	plan    bool
	writes  *[]changeplan.Write
	cluster command.Mgmt
}

// addPlan adds --plan.
func (t *target) addPlan(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.plan, "plan", false, "show what happens to each machine, and change nothing; exit status 2 means that machines go, see plan")
}

// show prints the plan of what the command would write.
func (t *target) show(ctx context.Context, env *command.Env) error {
	return plan.Show(ctx, env, t.cluster, *t.writes)
}

func (t *target) add(cmd *cobra.Command, env *command.Env) {
	t.mgmt.Add(cmd, env)
	cmd.Flags().StringVarP(&t.namespace, "namespace", "n", "", "namespace of the objects (default: that of the kubeconfig)")
}

// open connects, and completes the namespace; what changes something names what
// it changes.
func (t *target) open(env *command.Env, changes bool) (*rollout.Client, error) {
	m, err := t.mgmt.Load(env)
	if err != nil {
		return nil, err
	}
	if t.namespace == "" {
		t.namespace = m.Namespace
	}
	if changes && !t.plan {
		env.Say("Management cluster: %s", m)
	}
	c, err := client.NewWithWatch(m.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	if t.plan {
		t.cluster = m
		c, t.writes = changeplan.Record(c)
	}
	return rollout.New(c), nil
}

// Kinds that commands take: those that roll out, those that can be paused, and
// those whose number of machines can change.
var (
	kinds       = []string{"MachineDeployment", "KubeadmControlPlane"}
	withCluster = slices.Concat(kinds, []string{"Cluster"})
	scalable    = slices.Concat(kinds, []string{"MachineSet", "MachinePool"})
)

// objects reads arguments that are KIND/NAME, all before anything is asked, and
// connects.
func (t *target) objects(cmd *cobra.Command, env *command.Env, changes bool, args []string, allowed []string) (*rollout.Client, []rollout.Object, error) {
	if len(args) == 0 {
		return nil, nil, command.Misuse(fmt.Errorf("an object is needed: %s", cmd.UseLine()))
	}
	var objects []rollout.Object
	for _, arg := range args {
		o, err := rollout.Parse(arg, "", allowed...)
		if err != nil {
			return nil, nil, command.Misuse(err)
		}
		objects = append(objects, o)
	}
	c, err := t.open(env, changes)
	for i := range objects {
		objects[i].Namespace = t.namespace
	}
	return c, objects, err
}

// New returns the command rollout.
func New(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Pause, resume, restart and follow rollouts",
		Long: `Pause, resume, restart and follow the rollouts of MachineDeployments and
KubeadmControlPlanes. Of a Cluster, pause and resume stop all its controllers.`,
	}
	cmd.AddCommand(
		newVerb(env, verb{use: "pause", short: "Stop the rollouts of objects", done: "%s is paused", kinds: withCluster,
			act: (*rollout.Client).Pause}),
		newVerb(env, verb{use: "resume", short: "Resume paused objects", done: "%s is resumed", kinds: withCluster,
			act: (*rollout.Client).Resume}),
		newVerb(env, verb{use: "restart", short: "Replace all machines of objects", done: "%s replaces its machines", kinds: kinds,
			act: func(c *rollout.Client, ctx context.Context, o rollout.Object) error {
				return c.Restart(ctx, o, env.Now())
			}}),
		newStatus(env))
	return cmd
}

// Alpha returns the command alpha, under which clusterctl has rollout.
func Alpha(env *command.Env) *cobra.Command {
	cmd := &cobra.Command{Use: "alpha", Short: "clusterctl's name for what is not final there"}
	cmd.AddCommand(New(env))
	return cmd
}

type verb struct {
	use, short, done string
	kinds            []string
	act              func(*rollout.Client, context.Context, rollout.Object) error
}

func newVerb(env *command.Env, v verb) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:     v.use + " KIND/NAME...",
		Short:   v.short,
		Example: "  capstan rollout " + v.use + " machinedeployment/demo-md-0\n  capstan rollout " + v.use + " kubeadmcontrolplane/demo-control-plane",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, objects, err := t.objects(cmd, env, true, args, v.kinds)
			if err != nil {
				return err
			}
			var errs []error
			for _, o := range objects {
				if err := v.act(c, cmd.Context(), o); err != nil {
					errs = append(errs, err)
					continue
				}
				if !t.plan {
					env.Print(v.done, o)
				}
			}
			if t.plan && len(errs) == 0 {
				return t.show(cmd.Context(), env)
			}
			return errors.Join(errs...)
		},
	}
	t.add(cmd, env)
	if v.use == "restart" {
		t.addPlan(cmd)
	}
	cmd.ValidArgsFunction = t.complete(env, math.MaxInt, v.kinds)
	return cmd
}

func newStatus(env *command.Env) *cobra.Command {
	var t target
	var w waiting
	cmd := &cobra.Command{
		Use:   "status KIND/NAME...",
		Short: "Follow rollouts until they are done",
		Long: `Follow the rollouts of objects until each has all desired machines, up to date and
available. With --wait=false, only report their progress.`,
		Example: "  capstan rollout status machinedeployment/demo-md-0 --wait=false",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, objects, err := t.objects(cmd, env, false, args, scalable)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if err := w.follow(cmd.Context(), env, func(ctx context.Context, tell func(string)) error { return c.Wait(ctx, o, tell) }); err != nil {
					return fmt.Errorf("%s: %w", o, err)
				}
				s, err := c.Status(cmd.Context(), o)
				if err != nil {
					return err
				}
				env.Print("%s", s.Text)
			}
			return nil
		},
	}
	t.add(cmd, env)
	cmd.ValidArgsFunction = t.complete(env, math.MaxInt, scalable)
	w.add(cmd, true)
	return cmd
}

// complete completes objects of the allowed kinds, as KIND/NAME, while there are
// fewer arguments than most. After a kind, in any accepted form, it completes the
// names of that kind, with the form that the user typed.
func (t *target) complete(env *command.Env, most int, allowed []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		offered := make([][]string, len(allowed))
		var all sync.WaitGroup
		for i, kind := range allowed {
			as, _, chosen := strings.Cut(typed, "/")
			if !chosen {
				as = strings.ToLower(kind)
			} else if _, err := rollout.Parse(as+"/any", "", kind); err != nil {
				continue
			}
			all.Go(recovery.Func(context.Background(), func() { // one after the other they could take longer than a shell is kept waiting
				for _, name := range t.mgmt.Names(cmd.Context(), env, rollout.Resource(kind), t.namespace) {
					offered[i] = append(offered[i], as+"/"+name)
				}
			}))
		}
		all.Wait()
		names := slices.DeleteFunc(slices.Concat(offered...), func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
