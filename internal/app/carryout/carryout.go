// SPDX-License-Identifier: Apache-2.0

// Package carryout carries out saved plans: it sends the change while a PlanGuard keeps
// the Machines of each Cluster that the plan does not delete, follows what happens, and
// compares that with the plan.
package carryout

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// Limits of the time that a plan gets if the user gives none.
const (
	// leastDeadline is enough for a change that takes no time in the plan.
	leastDeadline = time.Hour
	// slower is how much longer than in the plan a change can take: real machines start
	// more slowly when many do.
	slower = 4
)

// Options configure Run. Mgmt is required.
type Options struct {
	// Mgmt reads and writes the management cluster, past any cache.
	Mgmt client.WithWatch
	// Deadline is how long the guards hold; several times what the plan takes if zero.
	Deadline time.Duration
	// Unguarded sends the change without guards, for a management cluster whose
	// controllers are not Capstan's.
	Unguarded bool
	// Now is the time; time.Now if nil.
	Now func() time.Time
	// Progress is called with what happens.
	Progress func(text string)
}

// run carries out one plan.
type run struct {
	Options
	saved    *planv1.SavedPlan
	change   []changeplan.Write
	guarded  []*planv1.PlanGuard
	deadline metav1.Time
}

// Refused returns why a plan cannot be carried out under a guard; nil if it can.
func Refused(s *planv1.SavedPlan) error {
	for _, c := range s.Plan.Clusters {
		of := c.Namespace + "/" + c.Name
		switch {
		case c.NotPredicted != nil:
			return fmt.Errorf("what the change does to Cluster %s was not predicted (%s): %s", of, c.NotPredicted.Reason, c.NotPredicted.Message)
		case c.Unending != nil:
			return fmt.Errorf("the change of Cluster %s never ends: it would replace machines again and again", of)
		}
		for _, p := range c.Pools {
			if p.NotPredicted != "" {
				return fmt.Errorf("what the change does to MachinePool %s of Cluster %s was not predicted: %s", p.Name, of, p.NotPredicted)
			}
		}
	}
	change, err := changeplan.Writes(s)
	for i := range s.Plan.Clusters {
		if err == nil {
			_, err = planguard.Fit(specOf(s, change, &s.Plan.Clusters[i]))
		}
	}
	return err
}

// specOf is the guard of a Cluster. Of the change, it has the objects of the namespace that
// are not those of another Cluster.
func specOf(s *planv1.SavedPlan, change []changeplan.Write, of *planv1.Cluster) planv1.PlanGuardSpec {
	spec := planv1.PlanGuardSpec{Plan: s.ID(), Cluster: of}
	for _, w := range change {
		if name := planguard.ClusterOf(w.Object); w.Object.GetNamespace() == of.Namespace && (name == "" || name == of.Name) {
			spec.Change = append(spec.Change, planv1.Object{Kind: w.Object.GetKind(), Namespace: of.Namespace, Name: w.Object.GetName()})
		}
	}
	return spec
}

// Run sends the change of a saved plan, and returns what became of each Cluster. An
// error means that the plan was not carried out; if the change was not sent, no guard is
// left.
func Run(ctx context.Context, o Options, s *planv1.SavedPlan) ([]Outcome, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &run{Options: o, saved: s}
	var err error
	if r.change, err = changeplan.Writes(s); err != nil {
		return nil, err
	}
	if err := Refused(s); err != nil {
		return nil, err
	}
	if !o.Unguarded {
		if err := r.guard(ctx); err != nil {
			return nil, errors.Join(err, r.takeBack(ctx))
		}
	}
	f, err := r.follow(ctx)
	if err != nil {
		return nil, errors.Join(err, r.takeBack(ctx))
	}
	defer f.stop()
	var names []string
	for _, w := range r.change {
		names = append(names, fmt.Sprintf("%s %s", w.Object.GetKind(), client.ObjectKeyFromObject(w.Object)))
	}
	for i, w := range r.change {
		if err := r.send(ctx, w); err != nil && i == 0 && !unanswered(err) {
			return nil, errors.Join(fmt.Errorf("nothing was changed: %s: %w", names[i], err), r.takeBack(ctx))
		} else if err != nil {
			err = fmt.Errorf("%s was refused: %w; written: %s; not written: %s", names[i], err, strings.Join(names[:i], ", "), strings.Join(names[i:], ", "))
			if !o.Unguarded {
				err = fmt.Errorf("%w; the guard stays until %s: repair that, end the plan with --release, and make it again", err, r.deadline.UTC().Format(time.RFC3339))
			}
			return nil, err
		}
		o.Progress(names[i] + " is written")
	}
	if err := r.sent(ctx); err != nil {
		return nil, err
	}
	return f.wait(ctx)
}

// send sends a write, and again if there was no answer: it does the same each time.
func (r *run) send(ctx context.Context, w changeplan.Write) error {
	again := false
	return persist(ctx, func() error {
		_, err := changeplan.Send(ctx, r.Mgmt, w, r.saved.Manager, false)
		if w.Delete && again {
			err = client.IgnoreNotFound(err)
		}
		again = true
		return err
	})
}

// attempts is how often a request is sent for which there is no answer, as while a plane
// restarts.
const attempts = 300

// persist repeats requests that are not answered.
func persist(ctx context.Context, request func() error) error {
	for i := 1; ; i++ {
		if err := request(); !unanswered(err) || i == attempts || lifecycle.Sleep(ctx, between) != nil {
			return err
		}
	}
}

// unanswered reports whether it is not known what the management cluster has done.
func unanswered(err error) bool {
	return errors.As(err, new(*url.Error)) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// guard stores a guard for each Cluster that exists, and finds out whether they hold.
func (r *run) guard(ctx context.Context) error {
	if r.Deadline == 0 {
		r.Deadline = leastDeadline
		for _, c := range r.saved.Plan.Clusters {
			r.Deadline = max(r.Deadline, slower*c.Takes.Duration)
		}
	}
	r.deadline = metav1.NewTime(r.Now().Add(r.Deadline))
	for i := range r.saved.Plan.Clusters {
		of := &r.saved.Plan.Clusters[i]
		cluster := &clusterv1.Cluster{}
		switch err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, cluster); {
		case apierrors.IsNotFound(err):
			continue // the change creates it
		case err != nil:
			return fmt.Errorf("read Cluster %s/%s: %w", of.Namespace, of.Name, err)
		}
		g, err := r.store(ctx, cluster, of)
		if err != nil {
			return err
		}
		r.guarded = append(r.guarded, g)
		if err := r.holds(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// store creates the guard of a Cluster, or gives the plan to that of a Cluster which
// requires plans.
func (r *run) store(ctx context.Context, cluster *clusterv1.Cluster, of *planv1.Cluster) (*planv1.PlanGuard, error) {
	spec, err := planguard.Fit(specOf(r.saved, r.change, of))
	if err != nil {
		return nil, err
	}
	spec.Deadline, spec.Required = r.deadline, cluster.Annotations[planv1.RequirePlanAnnotation] == "true"
	mine, err := owner.Reference(cluster, r.Mgmt)
	if err != nil {
		return nil, err
	}
	g := planguard.New(cluster, mine, spec)
	switch err := r.Mgmt.Create(ctx, g); {
	case err == nil:
		return g, nil
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the management cluster has no PlanGuards: its controllers are not Capstan's, or older; --unguarded sends the change without a guard")
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("guard Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	now := &planv1.PlanGuard{}
	if err := r.Mgmt.Get(ctx, client.ObjectKeyFromObject(g), now); err != nil {
		return nil, fmt.Errorf("guard Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	if now.Spec.Plan != "" {
		return nil, fmt.Errorf("plan %s of Cluster %s/%s is being carried out until %s: wait for it, or end it with `capstan apply --release cluster/%s -n %s`",
			now.Spec.Plan, now.Namespace, now.Name, now.Spec.Deadline.UTC().Format(time.RFC3339), now.Name, now.Namespace)
	}
	// By the status of an earlier plan, this one has been sent, and can end before it is.
	before := now.DeepCopy()
	now.Status = planv1.PlanGuardStatus{}
	err = r.Mgmt.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		now.Spec = spec
		err = r.Mgmt.Update(ctx, now)
	}
	if err != nil {
		return nil, fmt.Errorf("guard Cluster %s/%s: %w", cluster.Namespace, cluster.Name, err)
	}
	return now, nil
}

// holds tries, in a dry run, to delete a Machine that the plan does not delete.
func (r *run) holds(ctx context.Context, g *planv1.PlanGuard) error {
	var machines clusterv1.MachineList
	if err := r.Mgmt.List(ctx, &machines, client.InNamespace(g.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: g.Name}); err != nil {
		return fmt.Errorf("list the Machines of Cluster %s/%s: %w", g.Namespace, g.Name, err)
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if !m.DeletionTimestamp.IsZero() || planguard.Deletes(g, m, r.Now()) {
			continue
		}
		switch err := r.Mgmt.Delete(ctx, m, client.DryRunAll); {
		case err == nil:
			return fmt.Errorf("the guard of Cluster %s/%s does not hold: the webhooks of the management cluster are not those of this version; --unguarded sends the change without a guard", g.Namespace, g.Name)
		case apierrors.IsNotFound(err):
			continue
		case strings.Contains(err.Error(), g.Spec.Plan):
			return nil
		case apierrors.IsForbidden(err):
			r.Progress("You may not delete Machines, so this could not be tried: whether the guard holds is known to the administrator")
			return nil
		default:
			return fmt.Errorf("try the guard of Cluster %s/%s: %w", g.Namespace, g.Name, err)
		}
	}
	return nil
}

// sent notes in the guards that the change was sent: from then on they can end.
func (r *run) sent(ctx context.Context) error {
	for _, g := range r.guarded {
		before := g.DeepCopy()
		g.Status.Sent = metav1.NewTime(r.Now())
		if err := persist(ctx, func() error { return r.Mgmt.Status().Patch(ctx, g, client.MergeFrom(before)) }); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("the change was sent, and the guard of Cluster %s/%s stays until its deadline: %w", g.Namespace, g.Name, err)
		}
	}
	return nil
}

// takeBack ends the guards of a plan that was not sent.
func (r *run) takeBack(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, g := range r.guarded {
		if err := end(ctx, r.Mgmt, g); err != nil {
			errs = append(errs, fmt.Errorf("the guard of Cluster %s/%s stays until its deadline: %w", g.Namespace, g.Name, err))
		}
	}
	r.guarded = nil
	return errors.Join(errs...)
}

// end ends the plan of a guard. That of a Cluster which requires plans stays, and holds
// everything.
func end(ctx context.Context, mgmt client.Client, g *planv1.PlanGuard) error {
	if !g.Spec.Required {
		return client.IgnoreNotFound(mgmt.Delete(ctx, g, client.Preconditions{UID: &g.UID}))
	}
	before := g.DeepCopy()
	g.Spec = planv1.PlanGuardSpec{Required: true}
	return client.IgnoreNotFound(mgmt.Patch(ctx, g, client.MergeFrom(before)))
}

// Release ends the plan of a Cluster, and returns its guard.
func Release(ctx context.Context, mgmt client.Client, cluster client.ObjectKey) (*planv1.PlanGuard, error) {
	g := &planv1.PlanGuard{}
	switch err := mgmt.Get(ctx, cluster, g); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, fmt.Errorf("no plan of Cluster %s is being carried out", cluster)
	case err != nil:
		return nil, err
	case g.Spec.Plan == "":
		return nil, fmt.Errorf("no plan of Cluster %s is being carried out; it requires plans, which ends with `kubectl annotate cluster %s -n %s %s-`", cluster, cluster.Name, cluster.Namespace, planv1.RequirePlanAnnotation)
	}
	return g, mgmt.Delete(ctx, g, client.Preconditions{UID: &g.UID})
}
