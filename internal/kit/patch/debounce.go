// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// StatusDebounce joins status writes of one object in quick succession for which no
// client waits: counters, and conditions that do not become good. Such a write is
// delayed for a moment, and changes in between are written with it. Everything else
// is written immediately, together with what was delayed. The last write of a
// deletion, which removes the finalizer, has no status: an object that is deleted
// quickly never reports its progress, one that is not reports what it waits for.
//
// The more objects have a delayed write, the longer each may wait: when a hundred
// clusters start together every step of theirs takes seconds, and reporting each of
// them would be half of the work.
//
// A StatusDebounce of nil, or of zero length, delays nothing.
type StatusDebounce struct {
	length time.Duration
	clock  clock.PassiveClock
	writer int // of those that share waiting
	*waiting
}

// waiting are the objects that have a delayed write, by any writer.
type waiting struct {
	mu      sync.Mutex // guards all below
	writers int
	of      map[types.UID][]postponed
	swept   time.Time
}

// postponed is the delayed write of one writer.
type postponed struct {
	writer       int
	since, until time.Time
	carry        func(to client.Object) // writes it to a copy of the object; may be nil
}

// NewStatusDebounce creates a StatusDebounce that delays writes by at most that
// long.
func NewStatusDebounce(length time.Duration, c clock.PassiveClock) *StatusDebounce {
	return &StatusDebounce{length: length, clock: c, waiting: &waiting{writers: 1, of: map[types.UID][]postponed{}}}
}

// Sibling returns one of the same length, for another writer of the same objects: a
// write of one of them does not restart the delay of the other, and includes only
// what the other has Carried.
func (d *StatusDebounce) Sibling() *StatusDebounce {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	beside := *d
	beside.writer, d.writers = d.writers, d.writers+1
	return &beside
}

// Debounced lets a commit delay the status write. It then returns a PostponedError,
// which kit/controller turns into another reconcile. The fields are those that for
// this kind only inform as well; see informative.
func Debounced(d *StatusDebounce, fields ...string) Option {
	return func(c *commit) { c.debounce, c.informs = d, fields }
}

// Immediately lets a commit delay nothing, and end the delay of earlier ones, if it is
// true.
func Immediately(is bool) Option {
	return func(c *commit) { c.immediate = is }
}

// Carried lets other writers of the object include what this one has delayed, which
// saves its own request: carry copies what from reports to their copy, to. It may
// be called until the next commit of this writer, and changes no other field than
// those that are this writer's.
func Carried(carry func(from, to client.Object)) Option {
	return func(c *commit) { c.carry = carry }
}

// PostponedError means that a status was not written yet, and when to reconcile
// again.
type PostponedError struct{ After time.Duration }

// Error implements error.
func (e *PostponedError) Error() string { return fmt.Sprintf("status is written in %s", e.After) }

const (
	// loadFactor is how many objects with a delayed write double the time that
	// writes may wait.
	loadFactor = 20
	// longest is how long a write may wait, for any number of others: users who
	// watch a fleet start still see each object progress. Together these keep
	// writes that only inform at forty a second until 2,400 objects have a delayed
	// one; with a shorter wait each of many clusters would be reported more often
	// the longer all of them take, and a burst of 600 choke on it.
	longest = time.Minute
)

// abandonedAfter is how long after its time a write counts as one of an object that was
// deleted meanwhile. Each of these would have others wait longer.
const abandonedAfter = 5 * time.Minute

// postpone returns how long a write may still wait; 0 means that it is due. A write
// that was given a long delay keeps it when others have reached steady state, too:
// later changes until then are of the same kind.
func (d *StatusDebounce) postpone(uid types.UID, carry func(to client.Object)) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	if now.Sub(d.swept) >= longest {
		d.swept = now
		maps.DeleteFunc(d.of, func(_ types.UID, all []postponed) bool {
			return !slices.ContainsFunc(all, func(p postponed) bool { return now.Sub(p.until) < abandonedAfter })
		})
	}
	others := len(d.of)
	if others > 0 && d.of[uid] != nil {
		others--
	}
	length := max(d.length, min(longest, d.length+d.length*time.Duration(others)/loadFactor))
	all, n := d.find(uid)
	if n < 0 {
		d.of[uid] = append(all, postponed{d.writer, now, now.Add(length), carry})
		return length
	}
	p := &all[n]
	p.carry = carry
	if until := p.since.Add(length); until.After(p.until) {
		p.until = until
	}
	return max(0, p.until.Sub(now))
}

// find returns the delayed writes of an object, and the index of this writer's; -1
// if it has none. It needs the lock.
func (d *StatusDebounce) find(uid types.UID) ([]postponed, int) {
	all := d.of[uid]
	return all, slices.IndexFunc(all, func(p postponed) bool { return p.writer == d.writer })
}

// takeAlong copies what other writers have delayed to an object.
func (d *StatusDebounce) takeAlong(obj client.Object) {
	if d == nil {
		return
	}
	d.mu.Lock()
	var carry []func(to client.Object)
	for _, p := range d.of[obj.GetUID()] {
		if p.writer != d.writer && p.carry != nil {
			carry = append(carry, p.carry)
		}
	}
	d.mu.Unlock()
	for _, tell := range carry {
		tell(obj)
	}
}

func (d *StatusDebounce) done(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, n := d.find(uid)
	switch {
	case n < 0:
	case len(all) == 1:
		delete(d.of, uid)
	default:
		d.of[uid] = slices.Delete(all, n, n+1)
	}
}

// informative are the fields of a status that only inform: nothing waits for them.
var informative = []string{
	"conditions", "observedGeneration", "phase", "lastUpdated", "selector", "versions", "version", "nodeInfo",
	"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas", "controlPlane", "workers", "deprecated",
}

// mayWait reports whether a change of those fields of status can be delayed.
func (p *commit) mayWait(fields []string) bool {
	if p.immediate || p.debounce == nil || p.debounce.length == 0 {
		return false
	}
	for _, field := range fields {
		if !slices.Contains(informative, field) && !slices.Contains(p.informs, field) {
			return false
		}
	}
	return !awaited(p.before, p.obj)
}

// hooks are the reasons why a deletion waits for another controller, which may be
// waiting for the deletion to reach that point.
var hooks = []string{clusterv1.MachineDeletingWaitingForPreDrainHookReason, clusterv1.MachineDeletingWaitingForPreTerminateHookReason}

// awaited reports whether a change is one that a client waits for: owners and users
// wait until Ready or Available becomes True, or all Machines are ready, the
// controllers that set hooks until a deletion reaches them, and the clients that
// pause an object until that is noticed.
func awaited(before, after client.Object) bool {
	was, ok := before.(conditions.Getter)
	if !ok {
		return true // a change that is not known to be informative is not delayed
	}
	is := after.(conditions.Getter)
	turns := func(condition, reason string) bool {
		return conditions.Reason(is, condition) == reason && conditions.Reason(was, condition) != reason
	}
	if slices.ContainsFunc(hooks, func(reason string) bool { return turns(clusterv1.DeletingCondition, reason) }) {
		return true
	}
	// A client that pauses an object does so to change it, or to move it to another
	// management cluster, and waits until that is noticed. No client waits for an
	// object that was created paused.
	if conditions.IsFalse(was, clusterv1.PausedCondition) && conditions.IsTrue(is, clusterv1.PausedCondition) {
		return true
	}
	// By its reason: that no Machine exists that is not ready is nothing to wait
	// for.
	if turns(clusterv1.MachinesReadyCondition, clusterv1.ReadyReason) {
		return true
	}
	// What has Machines becomes available a moment before they are all ready: that
	// is reported with it, or if it does not follow, after the usual wait.
	if conditions.Has(is, clusterv1.MachinesReadyCondition) && conditions.Reason(is, clusterv1.MachinesReadyCondition) != clusterv1.ReadyReason {
		return false
	}
	return slices.ContainsFunc([]string{clusterv1.ReadyCondition, clusterv1.AvailableCondition}, func(t string) bool {
		return conditions.IsTrue(is, t) && !conditions.IsTrue(was, t)
	})
}

// postpone returns a PostponedError if the status write can and may still wait.
func (p *commit) postpone(fields []string) error {
	if !p.mayWait(fields) {
		return nil
	}
	var carry func(to client.Object)
	if p.carry != nil {
		from := p.obj
		carry = func(to client.Object) { p.carry(from, to) }
	}
	if after := p.debounce.postpone(p.obj.GetUID(), carry); after > 0 {
		return &PostponedError{after}
	}
	return nil
}

// settled records that no status write is delayed any longer.
func (p *commit) settled() {
	if p.debounce != nil {
		p.debounce.done(p.obj.GetUID())
	}
}
