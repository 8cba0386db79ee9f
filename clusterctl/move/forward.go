// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// forward does the remaining part of a move.
func (m *mover) forward(ctx context.Context) error {
	if m.main().Phase == Copying {
		if err := m.copy(ctx); err != nil {
			return err
		}
		if err := m.enter(ctx, Deleting); err != nil {
			return err
		}
	}
	if m.main().Phase == Deleting {
		if err := m.empty(ctx); err != nil {
			return err
		}
	}
	// Also if the source has entered it: the journal of the target may not have.
	if err := m.enter(ctx, Finishing); err != nil {
		return err
	}
	return m.finish(ctx)
}

const (
	// maxPasses is how often a source may change while it is copied. A second pass finds
	// what controllers wrote before they observed the pause.
	maxPasses = 6
	// blockLasts is how long a provider may block a move, as upstream has it.
	blockLasts = 2 * time.Minute
	// noticeLasts is how long controllers may take to observe a pause. Those that do not
	// run never will.
	noticeLasts = 30 * time.Second
	// longestWait is the longest interval between two reads of what is awaited. Each read
	// is smaller than the one before, and the move cannot progress meanwhile.
	longestWait = time.Second
)

// copy creates at the target what the source has, until a pass over both finds nothing to
// write: then everything has been read back, and compared. The first pass need not wait
// until controllers have observed the pause: copies are paused, and the next pass sees
// what was written meanwhile.
func (m *mover) copy(ctx context.Context) error {
	written := map[types.UID]string{} // versions at the source that this run has copied
	noticed := m.Clock.Now().Add(noticeLasts)
	for range maxPasses {
		f, p, read, err := m.lastRead(ctx)
		if err != nil {
			return err
		}
		paused, err := m.pause(ctx, p, f)
		if err != nil {
			return err
		}
		blocked, err := m.awaitProviders(ctx, p, f)
		if err != nil {
			return err
		}
		_, working := p.Awaited(f.byUID)
		n, err := m.ensure(ctx, p, f, written)
		if err != nil {
			return err
		}
		if n > 0 {
			m.Progress(fmt.Sprintf("Wrote %d objects at the target", n))
		}
		switch {
		case len(working) > 0 && m.Clock.Now().Before(noticed):
			if err := m.awaitControllers(ctx, f, working, noticed); err != nil {
				return err
			}
		case n == 0 && !paused && !blocked && read: // as it was read, everything was in steady state
			return nil
		}
	}
	return fmt.Errorf("%s: namespace %s keeps changing while it is copied: who still changes it? Nothing was deleted; move again, or with --rollback", m.source, m.Namespace)
}

// lastRead returns what was read for the plan of this run, once, and from then on reads
// again.
func (m *mover) lastRead(ctx context.Context) (f *found, p *plan.Plan, read bool, err error) {
	if f = m.found; f != nil {
		m.found = nil
		return f, m.here.plan, false, nil
	}
	f, p, err = m.read(ctx)
	return f, p, true, err
}

// read plans again: until something is deleted at the source, it decides what moves.
func (m *mover) read(ctx context.Context) (*found, *plan.Plan, error) {
	f, err := discover(ctx, m.source, m.Namespace, m.Parallel)
	if err != nil {
		return nil, nil, err
	}
	p, err := f.plan(m.Namespace)
	if err != nil {
		return nil, nil, err
	}
	if equality.Semantic.DeepEqual(p.Items, m.here.plan.Items) {
		return f, p, nil
	}
	m.Progress("What moves has changed since it was planned")
	m.Planned(p)
	if err := m.drop(ctx, p); err != nil {
		return nil, nil, err
	}
	for _, j := range []*journal{m.here, m.there} {
		if j == nil { // objects are saved to a directory
			continue
		}
		j.plan = p
		if err := j.write(ctx, nil); err != nil {
			return nil, nil, err
		}
	}
	return f, p, nil
}

// drop undoes what was done for objects that are part of the recorded plan, and no longer
// of the next one, or stay at the source by it.
func (m *mover) drop(ctx context.Context, next *plan.Plan) error {
	stay, left := m.here.plan.Dropped(next)
	here, err := readState(ctx, m.source, stay, m.Parallel)
	if err != nil {
		return err
	}
	if err := m.seal(ctx, m.source, stay, here, true); err != nil || m.there == nil {
		return err
	}
	there, err := readState(ctx, m.target, left, m.Parallel)
	if err != nil {
		return err
	}
	return m.undo(ctx, left, there)
}

// pause pauses the reconciliation of what moves at the source. What stays there is not
// paused.
func (m *mover) pause(ctx context.Context, p *plan.Plan, f *found) (bool, error) {
	var running []plan.Item
	for _, i := range p.Items {
		if plan.Pausable(i) && i.Keep == "" && !plan.Paused(i, f.byUID[i.UID]) {
			running = append(running, i)
		}
	}
	if len(running) == 0 {
		return false, nil
	}
	if err := m.step(ctx, "Pausing %d Clusters and ClusterClasses at the source", len(running)); err != nil {
		return false, err
	}
	return true, each(ctx, m.Parallel, len(running), func(ctx context.Context, n int) error {
		return m.source.Patch(ctx, f.byUID[running[n].UID], plan.Pause(running[n], true))
	})
}

// awaitProviders waits until no provider blocks the move, and reports whether one did.
func (m *mover) awaitProviders(ctx context.Context, p *plan.Plan, f *found) (waited bool, err error) {
	blocked, _ := p.Awaited(f.byUID)
	if len(blocked) == 0 {
		return false, nil
	}
	left, err := m.await(ctx, f, blocked, plan.Blocks, m.Clock.Now().Add(blockLasts), "Waiting for providers that block the move of")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s: %s still has the annotation %s after %s: what is its provider doing? Nothing was deleted; move again, or with --rollback", m.source, some(left), clusterctlv1.BlockMoveAnnotation, blockLasts)
	}
	return true, err
}

// awaitControllers waits until controllers have observed the pause, or probably never
// will.
func (m *mover) awaitControllers(ctx context.Context, f *found, working []plan.Item, noticed time.Time) error {
	_, err := m.await(ctx, f, working, plan.Works, noticed, "Waiting for controllers of the source to notice the pause of")
	return err
}

// await reads until nothing is awaited, or until end, and returns what still is. It reads
// only the kinds of what is awaited. Deleted objects are not awaited, and stay in f until
// the next pass.
func (m *mover) await(ctx context.Context, f *found, left []plan.Item, awaited func(*unstructured.Unstructured) bool, end time.Time, told string) ([]plan.Item, error) {
	if len(left) > 0 {
		if err := m.step(ctx, "%s %s", told, some(left)); err != nil {
			return nil, err
		}
	}
	for wait := 100 * time.Millisecond; len(left) > 0 && m.Clock.Now().Before(end); wait = min(2*wait, longestWait) {
		select {
		case <-m.Clock.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := m.hold(ctx); err != nil {
			return nil, err
		}
		objects, err := readPlaces(ctx, m.source, placesOf(left), m.Parallel)
		if err != nil {
			return nil, err
		}
		now := map[types.UID]*unstructured.Unstructured{}
		for _, obj := range objects {
			now[obj.GetUID()] = obj
		}
		left = slices.DeleteFunc(left, func(i plan.Item) bool {
			if now[i.UID] == nil {
				return true
			}
			f.byUID[i.UID] = now[i.UID]
			return !awaited(now[i.UID])
		})
	}
	return left, nil
}

// some names the first of many.
func some[T any](all []T) string {
	var names []string
	for _, one := range all[:min(3, len(all))] {
		names = append(names, fmt.Sprint(one))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ensure creates at the target what is missing there, and updates what differs from the
// source. It returns how many objects it wrote.
func (m *mover) ensure(ctx context.Context, p *plan.Plan, f *found, written map[types.UID]string) (int, error) {
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return 0, err
	}
	c := &copying{mover: m, there: there, uids: map[types.UID]types.UID{}, written: written}
	spaces := map[string]bool{m.Namespace: true, "": true}
	for n, group := range p.Groups() {
		for _, i := range group {
			if !spaces[i.Namespace] {
				spaces[i.Namespace] = true
				if err := m.ensureNamespace(ctx, i.Namespace); err != nil {
					return c.wrote, err
				}
			}
		}
		before := c.wrote
		if err := each(ctx, m.Parallel, len(group), func(ctx context.Context, k int) error {
			return c.ensure(ctx, group[k], f.byUID[group[k].UID])
		}); err != nil {
			return c.wrote, err
		}
		if c.wrote > before {
			if err := m.step(ctx, "Copied step %d of %d, %d objects", n+1, len(p.Groups()), c.wrote-before); err != nil {
				return c.wrote, err
			}
		}
	}
	return c.wrote, nil
}

// copying is one pass over the objects of a plan.
type copying struct {
	*mover
	mu      sync.Mutex              // guards the following fields
	uids    map[types.UID]types.UID // at the target, by those at the source
	written map[types.UID]string
	wrote   int
	there   state // is only read while objects are written
}

// ensure creates one object, or corrects it. A request that failed may have been executed
// anyway: its response may be lost. Or a controller of the target has created, written or
// deleted the object since it was read: it is read again.
func (c *copying) ensure(ctx context.Context, i plan.Item, from *unstructured.Unstructured) error {
	const rereads = 5 // of an object that controllers write before they observe the pause
	have := c.there.find(i)
	for n := 0; ; n++ {
		want, err := c.write(ctx, i, from, have)
		if err == nil || want == nil {
			return err
		}
		now, failed := c.target.Get(ctx, i.Kind, types.NamespacedName{Namespace: i.Namespace, Name: i.Name})
		stale := apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
		switch have = nil; {
		case failed == nil && plan.MarkOf(now).Operation == c.here.Operation && len(plan.Differences(want, now)) == 0:
			c.done(i, now, from.GetResourceVersion()) // it is read back with the others
			return nil
		case n == rereads || !stale || failed != nil && !apierrors.IsNotFound(failed):
			return err
		case failed == nil:
			have = now
		}
	}
}

// write writes an object, given the one at the target, which is nil if it does not exist.
// With an error it returns what it tried to write, nil if it did not get so far.
func (c *copying) write(ctx context.Context, i plan.Item, from, have *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	operation := c.here.Operation
	if have != nil && i.Global && plan.MarkOf(have).Operation != operation {
		c.done(i, have, "")
		return nil, nil
	}
	mark := plan.Mark{Operation: operation, Replaced: have != nil && (plan.MarkOf(have).Operation == "" || plan.MarkOf(have).Replaced)}
	c.mu.Lock()
	want, err := plan.Copy(i, from, mark, c.uids)
	was, before := c.written[i.UID]
	c.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		err = c.target.Create(ctx, want)
	case plan.MayReplace(i, have, operation) != nil:
		return nil, fmt.Errorf("%s: %w", c.target, plan.MayReplace(i, have, operation))
	default:
		different := plan.Differences(want, have)
		if len(different) == 0 {
			c.done(i, have, "")
			return nil, nil
		}
		if before && was == from.GetResourceVersion() {
			return nil, fmt.Errorf("%s: %s is not as it was written there (%s): it was changed; nothing was deleted: move again to write it again, or with --rollback", c.target, i, some(different))
		}
		if plan.MarkOf(have).Operation == "" {
			if err := c.keep(ctx, i, have); err != nil {
				return nil, err
			}
		}
		want.SetUID(have.GetUID())
		want.SetResourceVersion(have.GetResourceVersion())
		err = c.target.Update(ctx, want)
	}
	if err == nil {
		c.done(i, want, from.GetResourceVersion())
	}
	return want, err
}

func (c *copying) keep(ctx context.Context, i plan.Item, have *unstructured.Unstructured) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return keepReplaced(ctx, c.target, c.Namespace, i, have)
}

// done records which object represents an item, and from which version it was written.
func (c *copying) done(i plan.Item, obj *unstructured.Unstructured, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids[i.UID] = obj.GetUID()
	if version != "" {
		c.written[i.UID] = version
		c.wrote++
	}
}
