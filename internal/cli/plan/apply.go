// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/clusterctl/rollout"
	"github.com/capstan-dev/capstan/internal/app/carryout"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

type applyOptions struct {
	target
	deadline  time.Duration
	replan    bool
	unguarded bool
	release   string
}

// NewApply returns the command apply.
func NewApply(env *command.Env) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply (FILE | --release cluster/NAME)",
		Short: "Carry out a saved plan, and delete no other machine",
		Long: `Carry out a plan that "capstan plan --save FILE" has saved.

If an object that the plan was made from has changed since, the plan is refused. Then
a PlanGuard is stored for each cluster, and the change is sent. Until the plan has been
carried out or its deadline passes, the management cluster refuses to delete a machine,
to delete its infrastructure, to update it in place, or to scale a pool down, unless
the plan does that. What is refused is shown here, and in condition PlanHeld of the
Cluster. The command follows until the end, and names what differs from the plan. If it
is interrupted, the guard stays.

--release ends the plan of a cluster: everything is admitted again. It needs the right
to delete the PlanGuard, and the Cluster gets an event with the name of the user.

A plan that ends blocked is carried out when the machines are as it has them then: the
command prints what they wait for.

Exit status: 0 if the plan was carried out, 1 if it was refused or has not been carried
out before its deadline.`,
		Example: `  capstan plan -f change.yaml --save change.plan
  capstan apply change.plan
  capstan apply --release cluster/demo`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.release != "" && len(args) > 0:
				return misuse("--release ends a plan: it takes no file")
			case o.release == "" && len(args) != 1:
				return misuse("one file is needed, which `capstan plan --save FILE` has saved")
			case o.deadline < 0:
				return misuse("--deadline %s: it must not be negative", o.deadline)
			}
			return o.run(cmd.Context(), env, args)
		},
	}
	o.add(cmd, env, "namespace of the cluster of --release")
	f := cmd.Flags()
	f.DurationVar(&o.deadline, "deadline", 0, "how long the guard holds (default: four times what the plan takes, at least 1h)")
	f.BoolVar(&o.replan, "replan", false, "if objects have changed, make the plan again, and continue if each machine has the same fate")
	f.BoolVar(&o.unguarded, "unguarded", false, "send the change without a guard, for a management cluster without PlanGuards")
	f.StringVar(&o.release, "release", "", "end the plan of a cluster, as cluster/NAME")
	return cmd
}

func (o *applyOptions) run(ctx context.Context, env *command.Env, args []string) error {
	c, err := o.connect(env)
	if err != nil {
		return err
	}
	if o.release != "" {
		return o.end(ctx, env, c)
	}
	s, err := changeplan.ReadSaved(args[0])
	if err != nil {
		return err
	}
	if err := o.check(ctx, env, c, s, args[0]); err != nil {
		return err
	}
	n := s.Plan.Summary
	env.Say("Plan %s: %d machines kept, %d changed in place, %d replaced, %d deleted, %d created", s.ID(), n.Kept, n.Changed, n.Replaced, n.Deleted, n.Created)
	outcomes, err := carryout.Run(ctx, carryout.Options{Mgmt: c, Deadline: o.deadline, Unguarded: o.unguarded, Now: env.Now, Progress: env.TimedPrinter()}, s)
	if err != nil {
		return err
	}
	if o.unguarded {
		env.Say("The change is sent, without a guard")
	}
	return report(env, outcomes)
}

// check refuses a plan of another management cluster, of another program, and one that
// was made from what has changed since.
func (o *applyOptions) check(ctx context.Context, env *command.Env, c connection, s *planv1.SavedPlan, file string) error {
	if err := carryout.Refused(s); err != nil {
		return err
	}
	if err := changeplan.SameManagement(ctx, c, s); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var stale []string
	if program := buildinfo.Read().Version; s.Plan.Program != program {
		stale = append(stale, fmt.Sprintf("the plan was made by version %s, and this is %s", s.Plan.Program, program))
	}
	changed, err := changeplan.Stale(ctx, changeplan.Options{Mgmt: c}, s)
	if err != nil {
		return err
	}
	if stale = append(stale, changed...); len(stale) == 0 {
		return nil
	}
	for _, text := range stale[:min(len(stale), maxStale)] {
		env.Say("  %s", text)
	}
	if more := len(stale) - maxStale; more > 0 {
		env.Say("  and %d more", more)
	}
	if !o.replan {
		return fmt.Errorf("%s: the management cluster has changed since the plan was saved: save it again, or let --replan find out whether that matters", file)
	}
	return o.again(ctx, env, c, s, file)
}

// maxStale is the number of changes that are printed.
const maxStale = 10

// again makes a plan again, and refuses the saved one if a Machine has another fate now.
func (o *applyOptions) again(ctx context.Context, env *command.Env, c connection, s *planv1.SavedPlan, file string) error {
	change, err := changeplan.Writes(s)
	if err != nil {
		return err
	}
	shown := options{manager: s.Manager, horizon: s.Horizon.Duration}
	now, err := shown.save(ctx, env, c, change)
	if err != nil {
		return err
	}
	differences := planDifferences(s.Plan, now.Plan)
	if len(differences) == 0 {
		env.Say("Made again, the plan is the same.")
		*s = *now
		return nil
	}
	for _, text := range differences {
		env.Say("  %s", text)
	}
	return fmt.Errorf("%s: the plan is another one now: make and save it again with `capstan plan --save`", file)
}

// planDifferences are how a plan differs from an earlier one, by Cluster.
func planDifferences(was, is planv1.Plan) (all []string) {
	clusters := map[string]planv1.Cluster{}
	for _, c := range was.Clusters {
		clusters[c.Namespace+"/"+c.Name] = c
	}
	for _, c := range is.Clusters {
		of := c.Namespace + "/" + c.Name
		old, known := clusters[of]
		delete(clusters, of)
		switch {
		case !known:
			all = append(all, "Cluster "+of+": not in the first plan")
		case c.NotPredicted != nil && old.NotPredicted == nil:
			all = append(all, "Cluster "+of+": not predicted ("+c.NotPredicted.Reason+")")
		case c.NotPredicted == nil && old.NotPredicted != nil:
			all = append(all, "Cluster "+of+": predicted now")
		default:
			for _, text := range outcome.Differences(outcome.ResultOf(old), outcome.ResultOf(c)) {
				all = append(all, "Cluster "+of+": "+strings.ReplaceAll(text, "in the plan", "in the first plan"))
			}
		}
	}
	for _, c := range was.Clusters {
		if _, left := clusters[c.Namespace+"/"+c.Name]; left {
			all = append(all, "Cluster "+c.Namespace+"/"+c.Name+": not in the second plan")
		}
	}
	return all
}

// end releases a Cluster from its plan.
func (o *applyOptions) end(ctx context.Context, env *command.Env, c client.Client) error {
	object, err := rollout.Parse(o.release, o.namespace, "Cluster")
	if err != nil {
		return misuse("--release %w", err)
	}
	g, err := carryout.Release(ctx, c, object.ObjectKey)
	if err != nil {
		return err
	}
	env.Say("Plan %s of Cluster %s/%s has ended: what it does not have is admitted again", g.Spec.Plan, g.Namespace, g.Name)
	return nil
}

// report prints what became of a plan. Its error says that it was not carried out.
func report(env *command.Env, outcomes []carryout.Outcome) error {
	var errs []error
	for _, of := range outcomes {
		env.Say("Cluster %s: %s", of.Cluster, of.End)
		if !slices.Contains([]string{carryout.CarriedOut, carryout.EndsBlocked, carryout.HeldBack}, of.End) {
			errs = append(errs, fmt.Errorf("the plan of Cluster %s was %s", of.Cluster, of.End))
		}
		for i, text := range of.Differences {
			if i == 0 {
				env.Say("  First difference from the plan: %s", text)
				continue
			}
			env.Say("  %s", text)
		}
		if of.End == carryout.EndsBlocked {
			for _, b := range of.Blocked {
				env.Say("  %s", blocked(b))
			}
		}
		for _, h := range of.Held {
			env.Say("  Held back: %s %s, which %s asked to be %s", h.Kind, h.Name, h.User, h.What)
		}
	}
	return errors.Join(errs...)
}
