// SPDX-License-Identifier: Apache-2.0

// Package move moves the clusters of a namespace from one management cluster to another,
// with everything that belongs to them, and never loses one on the way.
//
// Package plan decides what moves. The objects are paused at the source, copied to the
// target, where they are paused too, read back and compared; then they are deleted at the
// source, and at last the pause ends at the target: at no moment do both sides reconcile
// a cluster. A journal at both sides records the progress. A move that was interrupted,
// at any point, is resumed by running it again, or is rolled back.
package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// Options define what moves where.
type Options struct {
	Source, Target Plane
	// Namespace is the one that moves.
	Namespace string
	// By names the process that moves: user, host and process. It must be unique.
	By string
	// Gone reports whether a process that moved before is known to have exited, so that
	// there is no need to wait for the end of its claim. By default no process is.
	Gone func(by string) bool
	// Rollback undoes a move that was not finished.
	Rollback bool
	// DryRun plans, and changes nothing. Target may be nil then.
	DryRun bool
	// Parallel is how many requests are sent at the same time; 0 means 16.
	Parallel int
	// Clock is the system clock if it is nil.
	Clock clock.Clock
	// Planned receives the plan before anything changes.
	Planned func(*plan.Plan)
	// Progress receives a line for each step.
	Progress func(string)
}

func (o *Options) complete() {
	o.Parallel = cmp.Or(o.Parallel, 16)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Gone == nil {
		o.Gone = func(string) bool { return false }
	}
	if o.Planned == nil {
		o.Planned = func(*plan.Plan) {}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// mover is one run.
type mover struct {
	Options
	source, target Plane // with retries, and written only as long as this process holds the move
	fromID, toID   string
	// here and there are the journals of the source and of the target.
	here, there *journal
	holding     sync.Mutex // guards the journals while objects are written
	// found is what the plan was computed from, until the first pass has used it.
	found *found
}

// Run runs a move, resumes one that was interrupted, or rolls it back.
func Run(ctx context.Context, o Options) error {
	o.complete()
	m := &mover{Options: o}
	m.source = persistent{o.Source, o.Clock, nil}
	if o.Target != nil {
		m.target = persistent{o.Target, o.Clock, nil}
	}
	if o.DryRun {
		_, err := m.prepare(ctx)
		return err
	}
	if err := m.identify(ctx); err != nil {
		return err
	}
	var err error
	if m.here, err = openJournal(ctx, m.source, o.Clock, o.Namespace); err != nil {
		return err
	}
	if m.there, err = openJournal(ctx, m.target, o.Clock, o.Namespace); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	m.source, m.target = persistent{o.Source, o.Clock, m.hold}, persistent{o.Target, o.Clock, m.hold}
	if m.main().Phase == RollingBack {
		err = m.rollBack(ctx)
	} else {
		err = m.forward(ctx)
	}
	if err != nil {
		m.release(ctx)
	}
	return err
}

// main is the authoritative journal: that of the source, as long as it exists.
func (m *mover) main() *journal { return cmp.Or(m.here, m.there) }

// hold ensures that this process still holds the move.
func (m *mover) hold(ctx context.Context) error {
	m.holding.Lock()
	defer m.holding.Unlock()
	return m.main().hold(ctx)
}

// identify verifies that source and target are two management clusters.
func (m *mover) identify(ctx context.Context) (err error) {
	if m.fromID, err = identity(ctx, m.source); err != nil {
		return err
	}
	if m.toID, err = identity(ctx, m.target); err != nil {
		return err
	}
	if m.fromID != "" && m.fromID == m.toID {
		return fmt.Errorf("source %s and target %s are the same management cluster: give another target", m.source, m.target)
	}
	return nil
}

// identity identifies a management cluster. It is empty if the user may not read it.
func identity(ctx context.Context, p Plane) (string, error) {
	obj, err := p.Get(ctx, namespaces, types.NamespacedName{Name: metav1.NamespaceSystem})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return string(obj.GetUID()), nil
}

// begin resumes an interrupted move or starts one.
func (m *mover) begin(ctx context.Context) error {
	switch {
	case m.here != nil:
		if m.here.Phase == Saving || !identifies(m.here.ToID, m.toID, m.here.To, m.target) {
			return fmt.Errorf("another move is not finished: %w", &BusyError{m.here.Record})
		}
	case m.there != nil:
		if m.there.Phase != Finishing || !identifies(m.there.FromID, m.fromID, m.there.From, m.source) {
			return &BusyError{m.there.Record}
		}
	case m.Rollback:
		return fmt.Errorf("there is no move of namespace %s from %s to %s to roll back", m.Namespace, m.source, m.target)
	default:
		return m.start(ctx)
	}
	if m.here != nil && m.there != nil && m.there.Operation != m.here.Operation {
		return &BusyError{m.there.Record}
	}
	return m.resume(ctx)
}

// identifies reports whether a journal names a management cluster: by its identity, or by its
// name for people if the user may not read that.
func identifies(recorded, id, name string, p Plane) bool {
	return recorded == id && (id != "" || name == p.String())
}

// resume resumes a move that was started.
func (m *mover) resume(ctx context.Context) error {
	j := m.main()
	if j.Heard != nil && j.By != m.By && !m.Gone(j.By) && m.Clock.Since(j.Heard.Time) < claimLasts {
		return &BusyError{j.Record}
	}
	switch {
	case m.Rollback && j.Phase == Finishing:
		return fmt.Errorf("every object has left %s already: move again without --rollback to finish, and then from %s to %s to have them back", m.source, m.target, m.source)
	case !m.Rollback && j.Phase == RollingBack:
		return fmt.Errorf("%s, which is being rolled back: continue with --rollback", j.who())
	}
	now := metav1.Time{Time: m.Clock.Now()}
	if err := j.write(ctx, func(r *Record) {
		r.By, r.Heard = m.By, &now
		if m.Rollback && j.Phase != Saving {
			r.Intact = r.Intact || r.Phase == Copying
			r.Phase = RollingBack
		}
	}); err != nil {
		return err
	}
	m.Progress(fmt.Sprintf("Taking up operation %s of %s (%s)", j.Operation, j.Started.UTC().Format(time.RFC3339), j.Phase))
	if m.there == nil && (j.Phase == Copying || j.Phase == Deleting) {
		return m.startThere(ctx)
	}
	return nil
}

// start plans a move and creates its journals.
func (m *mover) start(ctx context.Context) error {
	p, err := m.prepare(ctx)
	if err != nil || len(p.Items) == 0 {
		return cmp.Or(err, fmt.Errorf("namespace %s of %s has nothing to move", m.Namespace, m.source))
	}
	now := metav1.Time{Time: m.Clock.Now()}
	m.here = &journal{plane: m.source, clock: m.Clock, plan: p, Record: Record{
		Operation: string(uuid.NewUUID()), By: m.By, Heard: &now, Started: now, Namespace: m.Namespace,
		From: m.source.String(), FromID: m.fromID, To: m.target.String(), ToID: m.toID, Phase: Copying, Step: "begin",
	}}
	if err := m.here.create(ctx); err != nil {
		return err
	}
	if err := m.startThere(ctx); err != nil {
		if errors.As(err, new(*BusyError)) { // nothing was done
			return errors.Join(err, m.here.remove(ctx))
		}
		return err
	}
	return nil
}

// startThere creates the journal of the target, with its namespace.
func (m *mover) startThere(ctx context.Context) error {
	if err := m.ensureNamespace(ctx, m.Namespace); err != nil {
		return err
	}
	if err := m.here.hold(ctx); err != nil {
		return err
	}
	m.there = &journal{plane: m.target, clock: m.Clock, plan: m.here.plan, Record: m.here.Record}
	return m.there.create(ctx)
}

func (m *mover) ensureNamespace(ctx context.Context, name string) error {
	_, err := m.target.Get(ctx, namespaces, types.NamespacedName{Name: name})
	if !apierrors.IsNotFound(err) {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(namespaces.GroupVersionKind)
	obj.SetName(name)
	if err := m.target.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// prepare plans and checks, and reports the plan.
func (m *mover) prepare(ctx context.Context) (*plan.Plan, error) {
	f, err := discover(ctx, m.source, m.Namespace, m.Parallel)
	if err != nil {
		return nil, err
	}
	p, err := f.plan(m.Namespace)
	if err != nil {
		return nil, err
	}
	if m.target != nil {
		m.found = f
		err = m.check(ctx, p, f)
	}
	if err != nil && m.DryRun { // the plan is useful anyway
		p.Notes, err = append(p.Notes, "as it is now, the move would be refused: "+err.Error()), nil
	}
	if err != nil {
		return nil, err
	}
	m.Planned(p)
	return p, nil
}

// check returns everything that would stop a move in its middle.
func (m *mover) check(ctx context.Context, p *plan.Plan, f *found) error {
	from, err := readProviders(ctx, m.source)
	if err != nil {
		return err
	}
	to, err := readProviders(ctx, m.target)
	if err != nil {
		return err
	}
	if err := errors.Join(plan.Suits(from, to), p.Ready(f.objects)); err != nil {
		return err
	}
	if err := m.checkRights(ctx, p); err != nil {
		return err
	}
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	var errs []error
	for _, i := range p.Items {
		have := there.find(i)
		if have == nil || i.Global {
			continue
		}
		if err := plan.MayReplace(i, have, ""); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.target, err))
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s is at the target already, and will be replaced", i))
	}
	return errors.Join(errs...)
}

// checkRights checks whether the user has all permissions that the plan needs. For a user
// with all permissions, it sends one request.
func (m *mover) checkRights(ctx context.Context, p *plan.Plan) error {
	all := p.Rights(m.Namespace)
	sides := map[bool]Plane{false: m.source, true: m.target}
	for _, atTarget := range []bool{false, true} {
		everything, err := sides[atTarget].Allowed(ctx, "*", schema.GroupResource{Group: "*", Resource: "*"}, "")
		if err != nil {
			return err
		}
		if everything {
			all = slices.DeleteFunc(all, func(r plan.Right) bool { return r.AtTarget == atTarget })
		}
	}
	lacking := make([]error, len(all))
	err := each(ctx, m.Parallel, len(all), func(ctx context.Context, n int) error {
		r := all[n]
		allowed, err := sides[r.AtTarget].Allowed(ctx, r.Verb, r.Kind, r.Namespace)
		if err == nil && !allowed {
			where := "namespace " + r.Namespace
			if r.Namespace == "" {
				where = "the whole management cluster"
			}
			lacking[n] = fmt.Errorf("%s: no permission to %s %s in %s: ask an administrator for it", sides[r.AtTarget], r.Verb, r.Kind, where)
		}
		return err
	})
	return errors.Join(append([]error{err}, lacking...)...)
}

// enter records the next phase, at the source first.
func (m *mover) enter(ctx context.Context, phase Phase) error {
	for _, j := range []*journal{m.here, m.there} {
		if j == nil || j.Phase == phase {
			continue
		}
		if err := j.write(ctx, func(r *Record) {
			r.Phase, r.Step, r.By, r.Heard = phase, "begin", m.By, &metav1.Time{Time: m.Clock.Now()}
		}); err != nil {
			return err
		}
	}
	return nil
}

// step records what is done next, and reports it.
func (m *mover) step(ctx context.Context, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	m.Progress(text)
	return m.main().write(ctx, func(r *Record) { r.Step, r.Heard = text, &metav1.Time{Time: m.Clock.Now()} })
}

// release lets another process resume immediately. If it cannot be recorded, the claim
// expires automatically.
func (m *mover) release(ctx context.Context) {
	undoes := "the source gets back what it had"
	if m.here == nil { // from a directory
		undoes = "what was made is deleted, unless all of it was"
	}
	m.Progress(fmt.Sprintf("Stopped while %s (%s). Run the same command to continue; with --rollback %s", m.main().Phase, m.main().Step, undoes))
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	_ = m.main().write(ctx, func(r *Record) { r.Heard = nil })
}
