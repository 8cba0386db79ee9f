// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/pure/chaos"
)

const (
	// shortest is the least that can be planned in.
	shortest = 5 * time.Second
	// often is how close to each other incidents may be on average: closer ones
	// would be many writes, and no other clusters.
	often = 100 * time.Millisecond
	// most is how many incidents a run has on average: a day of them at the least pause.
	most = 864_000
	// takingBack bounds what is done after an interruption.
	takingBack = 30 * time.Second
)

type chaosOptions struct {
	mgmt                        command.MgmtFlags
	plan                        chaos.Options
	namespace, record, repeat   string
	clusters                    []string
	all, dryRun, yes, stop, rnd bool
}

// newChaos returns the command chaos.
func newChaos(env *command.Env) *cobra.Command {
	var o chaosOptions
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Let things go wrong with simulated clusters, at random",
		Long: `Cause random faults in the simulated clusters of a namespace, for a limited
time: machines never boot, lose power, flap or lose their disks; API servers hang,
refuse, answer late, lose watches or have a wrong clock; members of etcd stop, lag,
lose their quorum or fill their disks.

The steps and their times depend only on --seed, --for, --every and the existing
objects. Each step is an event on its object, and a line of a file; --repeat runs
the steps of such a file again. --dry-run only prints them.

At the end the command removes all faults that it set, also after Ctrl-C. If the
program is killed they stay until the next run or --stop removes them. Faults that
users have set stay. Lost disks (--lose-disks) cannot be restored: health checks
replace such machines, if there are any.

The command changes only simulated clusters. It asks before it starts, unless --yes
is set. Run it only once at a time on a management cluster.`,
		Example: `  capstan simulated chaos --for 10m
  capstan simulated chaos --seed 42 --for 1h --every 10s --cluster demo --yes
  capstan simulated chaos --repeat ~/.local/share/capstan/chaos/20260102-030405-42.jsonl
  capstan simulated chaos --stop`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.rnd = !cmd.Flags().Changed("seed")
			if err := o.check(cmd); err != nil {
				return err
			}
			return o.run(cmd.Context(), env)
		},
	}
	o.mgmt.Add(cmd, env)
	f := cmd.Flags()
	f.Uint64Var(&o.plan.Seed, "seed", 0, "number from which all random choices follow (default: a new one each time, which is printed)")
	f.DurationVar(&o.plan.For.Duration, "for", 10*time.Minute, "how long it lasts")
	f.DurationVar(&o.plan.Every.Duration, "every", 30*time.Second, "time from one incident to the next, on average")
	f.BoolVar(&o.plan.LoseDisks, "lose-disks", false, "let a machine of each cluster lose its disk, which stays lost")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the clusters (default: that of the kubeconfig)")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "the clusters of all namespaces")
	f.StringArrayVar(&o.clusters, "cluster", nil, "name of a Cluster; several can be given (default: all)")
	f.StringVar(&o.record, "record", "", "file for the record of the run (default: a new one in the data directory)")
	f.StringVar(&o.repeat, "repeat", "", "file of an earlier run, to do the same")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.stop, "stop", false, "only take back what earlier runs have left, in all namespaces")
	_ = cmd.MarkFlagFilename("repeat", "jsonl")
	return cmd
}

func (o *chaosOptions) check(cmd *cobra.Command) error {
	if err := command.RefuseEmpty(cmd.Flags(), "seed", "namespace", "cluster", "record", "repeat"); err != nil {
		return err
	}
	planned := []string{"seed", "for", "every", "lose-disks", "namespace", "all-namespaces", "cluster"}
	exclusive := map[string][]string{
		"stop": append([]string{"record", "repeat", "dry-run"}, planned...), "repeat": planned, "all-namespaces": {"namespace"},
	}
	for flag, others := range exclusive {
		for _, other := range others {
			if cmd.Flags().Changed(flag) && cmd.Flags().Changed(other) {
				return command.Misuse(fmt.Errorf("--%s goes without --%s", flag, other))
			}
		}
	}
	return limit(o.plan)
}

// limit refuses a plan that is too short, and one with more steps than a run needs.
func limit(p chaos.Options) error {
	switch {
	case p.For.Duration < shortest:
		return command.Misuse(fmt.Errorf("--for %s is too short: give %s or more", p.For.Duration, shortest))
	case p.Every.Duration < often:
		return command.Misuse(fmt.Errorf("--every %s is too often: give %s or more", p.Every.Duration, often))
	case p.For.Duration/p.Every.Duration > most:
		return command.Misuse(fmt.Errorf("--for %s has too many incidents: give --every %s or more", p.For.Duration, p.For.Duration/most))
	}
	return nil
}

func (o *chaosOptions) run(ctx context.Context, env *command.Env) error {
	mgmt, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	env.Say("Management cluster: %s", mgmt)
	r, err := newRunner(mgmt.Config, env)
	if err != nil {
		return err
	}
	if o.stop {
		n, err := r.takeBack(ctx)
		if err == nil {
			env.Say("Took back %d faults.", n)
		}
		return err
	}
	h, err := o.header(ctx, env, r, mgmt)
	if err != nil {
		return err
	}
	plan := chaos.Plan(h.Options, h.Clusters)
	env.Say("Seed %d: %d steps in %s, with %d clusters of %d machines in all.", h.Seed, len(plan), h.For.Duration, len(h.Clusters), h.machines())
	if o.dryRun {
		for _, s := range plan {
			env.Print("%s", told(s))
		}
		return nil
	}
	if !o.yes {
		if err := env.Confirm(ctx, "Things go wrong there on purpose."); err != nil {
			return err
		}
	}
	file, err := o.create(env, h)
	if err != nil {
		return err
	}
	err = (&run{r, h, file, o.mgmt.Repeat()}).follow(ctx, plan)
	return errors.Join(err, file.Close())
}

// header describes the run: the same as an earlier run, or what the flags request
// for the existing clusters.
func (o *chaosOptions) header(ctx context.Context, env *command.Env, r *runner, mgmt command.Mgmt) (header, error) {
	h := header{Plane: mgmt.Config.Host, Began: env.Now().UTC()}
	if o.repeat != "" {
		old, err := readHeader(o.repeat)
		h.Options, h.Clusters = old.Options, old.Clusters
		return h, err
	}
	if h.Options = o.plan; o.rnd {
		h.Seed = uint64(env.Now().UnixNano()) % 1e9
	}
	namespace := cmp.Or(o.namespace, mgmt.Namespace)
	if o.all {
		namespace = metav1.NamespaceAll
	}
	clusters, err := r.find(ctx, namespace, o.clusters)
	if err == nil && len(clusters) == 0 {
		err = fmt.Errorf("there is no simulated cluster in namespace %s: choose another with --namespace, or all with --all-namespaces", namespace)
		if o.all {
			err = errors.New("there is no simulated cluster: `capstan create cluster` makes one")
		}
	}
	h.Clusters = clusters
	return h, err
}

// create creates the file of a run.
func (o *chaosOptions) create(env *command.Env, h header) (*record, error) {
	name := o.record
	if name == "" {
		if o.mgmt.DataDir == "" {
			return nil, command.Misuse(errors.New("--record is needed: neither XDG_DATA_HOME nor HOME says where the data directory is"))
		}
		name = filepath.Join(o.mgmt.DataDir, "chaos", fmt.Sprintf("%s-%d.jsonl", h.Began.Format("20060102-150405.000"), h.Seed))
	}
	f, err := newRecord(name, h)
	if err == nil {
		env.Say("What is done is written to %s", name)
	}
	return f, err
}

// told is a step in a line.
func told(s chaos.Step) string { return fmt.Sprintf("%9s  %s", s.At.Duration, s) }
