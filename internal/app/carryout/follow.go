// SPDX-License-Identifier: Apache-2.0

package carryout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
)

// Ends of a plan.
const (
	CarriedOut = "carried out"
	Expired    = "not carried out before its deadline"
	Released   = "ended by a user"
	HeldBack   = "carried out; other objects were held back"
	// EndsBlocked is the end of a plan that foresees it: what is left waits.
	EndsBlocked = "carried out, and now it waits, as the plan foresees"
)

// Outcome is what became of a plan for one Cluster.
type Outcome struct {
	Cluster client.ObjectKey
	// End is one of the ends of a plan.
	End string
	// Held are what the guard has refused.
	Held []planv1.Held
	// Blocked is what the change still waits for, by the plan.
	Blocked []planv1.Blocked
	// Differences say how what happened differs from the plan, the first one first.
	Differences []string
}

// followed is what is known about a Cluster while its plan is carried out.
type followed struct {
	guard    *planv1.PlanGuard
	plan     *planv1.Cluster
	machines map[types.UID]*clusterv1.Machine
	observed outcome.Observations
	listed   bool
	held     int // that were reported
	end      string
}

// follower follows the Clusters of a plan.
type follower struct {
	*run
	started  time.Time
	clusters map[client.ObjectKey]*followed
	events   chan watch.Event
	stop     context.CancelFunc
}

// between is how long a watch that has ended waits before it starts again.
const between = time.Second

// follow starts to follow the Clusters that are guarded, before anything is sent.
func (r *run) follow(ctx context.Context) (*follower, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{run: r, started: r.Now(), clusters: map[client.ObjectKey]*followed{}, events: make(chan watch.Event), stop: stop}
	namespaces := map[string][]string{} // and the Clusters in each
	for _, g := range r.guarded {
		i := slices.IndexFunc(r.saved.Plan.Clusters, func(c planv1.Cluster) bool { return c.Namespace == g.Namespace && c.Name == g.Name })
		c := &followed{guard: g, plan: &r.saved.Plan.Clusters[i], machines: map[types.UID]*clusterv1.Machine{}}
		f.clusters[client.ObjectKeyFromObject(g)] = c
		if err := f.list(ctx, c); err != nil {
			stop()
			return nil, err
		}
		namespaces[g.Namespace] = append(namespaces[g.Namespace], g.Name)
	}
	var running sync.WaitGroup
	for namespace, clusters := range namespaces {
		of := []client.ListOption{client.InNamespace(namespace)}
		if len(clusters) == 1 { // among those of all others
			of = append(of, client.MatchingLabels{clusterv1.ClusterNameLabel: clusters[0]})
		}
		running.Go(recovery.Func(ctx, func() { f.watch(ctx, func() client.ObjectList { return &clusterv1.MachineList{} }, of...) }))
		running.Go(recovery.Func(ctx, func() { f.watch(ctx, func() client.ObjectList { return &planv1.PlanGuardList{} }, of[0]) }))
	}
	return f, nil
}

// list reads the Machines of a Cluster.
func (f *follower) list(ctx context.Context, c *followed) error {
	var all clusterv1.MachineList
	if err := f.Mgmt.List(ctx, &all, client.InNamespace(c.guard.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.guard.Name}); err != nil {
		return fmt.Errorf("list the Machines of Cluster %s/%s: %w", c.guard.Namespace, c.guard.Name, err)
	}
	exist := map[types.UID]bool{}
	for i := range all.Items {
		m := &all.Items[i]
		exist[m.UID] = true
		if c.listed {
			f.changed(c, m, watch.Modified)
		}
		c.machines[m.UID] = m
	}
	for uid, m := range c.machines {
		if !exist[uid] {
			f.changed(c, m, watch.Deleted)
		}
	}
	c.listed = true
	f.observe(c)
	return nil
}

func (f *follower) observe(c *followed) {
	c.observed.Add(f.Now().Sub(f.started), slices.SortedFunc(maps.Values(c.machines), func(a, b *clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}))
}

// watch sends the events of the objects of a kind. A Bookmark means that events may be
// missing.
func (f *follower) watch(ctx context.Context, list func() client.ObjectList, of ...client.ListOption) {
	send := func(e watch.Event) bool {
		select {
		case f.events <- e:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for ctx.Err() == nil {
		w, err := f.Mgmt.Watch(ctx, list(), of...)
		if err == nil && send(watch.Event{Type: watch.Bookmark}) {
			for e := range w.ResultChan() {
				if e.Type != watch.Error && !send(e) {
					break
				}
			}
			w.Stop()
		}
		_ = lifecycle.Sleep(ctx, between) // its end ends the loop, too
	}
}

// wait follows the Clusters until the plan has ended for all of them.
func (f *follower) wait(ctx context.Context) ([]Outcome, error) {
	if f.Unguarded {
		return nil, nil
	}
	deadline := time.NewTimer(f.deadline.Sub(f.Now()) + between)
	defer deadline.Stop()
	settled := time.NewTimer(time.Until(f.settled()) + between)
	defer settled.Stop()
	for !f.ended() {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the plan is still being carried out, and its guard holds until %s: see `capstan plan list`: %w", f.deadline.UTC().Format(time.RFC3339), context.Cause(ctx))
		case <-deadline.C:
			for _, c := range f.clusters {
				if c.end == "" {
					c.end = Expired
				}
			}
		case <-settled.C:
			f.heldBack()
		case e := <-f.events:
			if err := f.event(ctx, e); err != nil && ctx.Err() == nil {
				return nil, err
			}
		}
	}
	return f.outcomes(ctx)
}

func (f *follower) ended() bool {
	for _, c := range f.clusters {
		if c.end == "" {
			return false
		}
	}
	return true
}

func (f *follower) event(ctx context.Context, e watch.Event) error {
	switch obj := e.Object.(type) {
	case *clusterv1.Machine:
		if c := f.clusters[client.ObjectKey{Namespace: obj.Namespace, Name: obj.Spec.ClusterName}]; c != nil {
			f.changed(c, obj, e.Type)
			f.observe(c)
		}
	case *planv1.PlanGuard:
		if c := f.clusters[client.ObjectKeyFromObject(obj)]; c != nil {
			f.guardChanged(c, obj, e.Type == watch.Deleted)
		}
	default: // a watch has started: what was before it may have been missed
		for key, c := range f.clusters {
			g, exists := &planv1.PlanGuard{}, true
			err := persist(ctx, func() error {
				err := f.Mgmt.Get(ctx, key, g)
				exists = err == nil
				return errors.Join(f.list(ctx, c), client.IgnoreNotFound(err))
			})
			if err != nil {
				return err
			}
			f.guardChanged(c, g, !exists)
		}
	}
	f.heldBack()
	return nil
}

// heldBack ends to follow a Cluster whose plan has been carried out, and whose guard
// holds something back until its deadline.
func (f *follower) heldBack() {
	for _, c := range f.clusters {
		if c.end == "" && len(c.guard.Status.Held) > 0 && planguard.Done(c.guard, slices.Collect(maps.Values(c.machines)), f.Now()) {
			c.end = HeldBack
		}
	}
}

func (f *follower) reached(c *followed) bool {
	return planguard.Reached(c.guard, slices.Collect(maps.Values(c.machines)))
}

// settled is when the last guard can end.
func (f *follower) settled() (at time.Time) {
	for _, c := range f.clusters {
		if next := planguard.Settled(c.guard); next.After(at) {
			at = next
		}
	}
	return at
}

// changed reports what has changed about a Machine.
func (f *follower) changed(c *followed, m *clusterv1.Machine, event watch.EventType) {
	was := c.machines[m.UID]
	switch {
	case event == watch.Deleted:
		delete(c.machines, m.UID)
		f.Progress(fmt.Sprintf("Machine %s/%s is deleted", m.Namespace, m.Name))
	case was == nil:
		c.machines[m.UID] = m
		f.Progress(fmt.Sprintf("Machine %s/%s is created", m.Namespace, m.Name))
	default:
		c.machines[m.UID] = m
		if was.DeletionTimestamp.IsZero() && !m.DeletionTimestamp.IsZero() {
			f.Progress(fmt.Sprintf("Machine %s/%s is being deleted", m.Namespace, m.Name))
		}
	}
}

func (f *follower) guardChanged(c *followed, g *planv1.PlanGuard, gone bool) {
	switch {
	case c.end != "":
	case !gone && g.Spec.Plan == f.saved.ID():
		c.guard = g
		for ; c.held < len(g.Status.Held); c.held++ {
			f.Progress(planguard.Sentence(g, g.Status.Held[c.held]))
		}
	case !f.Now().Before(f.deadline.Time):
		c.end = Expired
	case f.reached(c):
		c.end = CarriedOut
	default:
		c.end = Released
	}
}

// outcomes compare what happened with the plan.
func (f *follower) outcomes(ctx context.Context) (all []Outcome, _ error) {
	for _, key := range slices.SortedFunc(maps.Keys(f.clusters), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) }) {
		c := f.clusters[key]
		if err := persist(ctx, func() error { return f.list(ctx, c) }); err != nil {
			return nil, err
		}
		if c.end == Released && f.reached(c) {
			c.end = CarriedOut // the events of the last Machines came after that of the guard
		}
		if c.end == CarriedOut && len(c.plan.Blocked) > 0 {
			c.end = EndsBlocked
		}
		happened := planv1.Cluster{Machines: c.observed.Machines(), Groups: c.observed.Groups()}
		all = append(all, Outcome{
			Cluster: key, End: c.end, Held: c.guard.Status.Held, Blocked: c.plan.Blocked,
			Differences: outcome.Differences(outcome.ResultOf(*c.plan), outcome.ResultOf(happened)),
		})
	}
	return all, nil
}
