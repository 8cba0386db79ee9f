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

// StatusDebounce joins status writes of one object that come in quick succession
// and that nobody waits for: counters, and conditions that are not good news. Such
// a write is put off for a moment; whatever comes in between goes out
// with it. Everything else is written at once, and takes what was put off along.
// The last write of a deletion, which removes the finalizer, has no status: an
// object that goes quickly never tells how far it has come, one that does not go
// tells what it waits for.
//
// The more objects have a write put off, the longer each may wait: when a
// hundred clusters come up at once every step of theirs takes seconds, and
// telling each of them would be half of the work.
//
// A StatusDebounce of nil, or of zero length, puts nothing off.
type StatusDebounce struct {
	length time.Duration
	clock  clock.PassiveClock
	writer int // of those who share waiting
	*waiting
}

// waiting are the objects that have a write put off, by whichever writer.
type waiting struct {
	mu      sync.Mutex // guards all below
	writers int
	of      map[types.UID][]postponed
}

// postponed is what one writer has put off.
type postponed struct {
	writer       int
	since, until time.Time
	carry        func(to client.Object) // tells it in a copy of the object; may be nil
}

// NewStatusDebounce makes a StatusDebounce that puts writes off for at most that long.
func NewStatusDebounce(length time.Duration, c clock.PassiveClock) *StatusDebounce {
	return &StatusDebounce{length: length, clock: c, waiting: &waiting{writers: 1, of: map[types.UID][]postponed{}}}
}

// Beside makes one that is as long, for another writer of the same objects: what
// one of them writes does not make the other begin to wait anew, and takes along
// only what the other has Carried.
func (d *StatusDebounce) Beside() *StatusDebounce {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	beside := *d
	beside.writer, d.writers = d.writers, d.writers+1
	return &beside
}

// Debounced lets a commit put off the status write. It then returns a
// PostponedError, which kit/controller turns into another reconcile. The fields
// are those that for this kind only inform as well; see informative.
func Debounced(d *StatusDebounce, fields ...string) Option {
	return func(c *commit) { c.debounce, c.informs = d, fields }
}

// Carried lets other writers of the object take along what this one has put off,
// instead of a request of its own: carry tells in their copy, to, what from tells of
// it. It may be called until the next commit of this writer, and changes no other field
// than those that are this writer's.
func Carried(carry func(from, to client.Object)) Option {
	return func(c *commit) { c.carry = carry }
}

// PostponedError says that a status was not written yet, and when to come again.
type PostponedError struct{ After time.Duration }

// Error implements error.
func (e *PostponedError) Error() string { return fmt.Sprintf("status is written in %s", e.After) }

const (
	// loadFactor is how many objects with a write put off double the time that
	// writes may wait.
	loadFactor = 20
	// longest is how long a write may wait, however many others do: users who
	// watch a fleet come up still see each object move. Together these keep
	// writes that only inform at forty a second until 2,400 objects have one put
	// off; with a shorter wait each of many clusters would be told of more often
	// the longer all of them take, and a burst of 600 choke on it.
	longest = time.Minute
)

// maxPostponed is how many objects are remembered before those are dropped that
// were deleted while their write was put off.
const maxPostponed = 10_000

// postpone returns how long a write may still wait; 0 means that it is due. What
// was once to wait for long does so when others have come to rest, too: what comes
// in until then is news of the same kind.
func (d *StatusDebounce) postpone(uid types.UID, carry func(to client.Object)) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	others := len(d.of)
	if others > 0 && d.of[uid] != nil {
		others--
	}
	length := max(d.length, min(longest, d.length+d.length*time.Duration(others)/loadFactor))
	if others >= maxPostponed {
		maps.DeleteFunc(d.of, func(_ types.UID, all []postponed) bool { // waits longer than any write does
			return now.Sub(all[0].since) > time.Minute
		})
	}
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

// find is what is put off of an object, and which of it this writer has; -1 for
// nothing. It needs the lock.
func (d *StatusDebounce) find(uid types.UID) ([]postponed, int) {
	all := d.of[uid]
	return all, slices.IndexFunc(all, func(p postponed) bool { return p.writer == d.writer })
}

// takeAlong tells in an object what other writers have put off to tell of it.
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

// mayWait reports whether a change of those fields of status can be put off.
func (p *commit) mayWait(fields []string) bool {
	if p.debounce == nil || p.debounce.length == 0 {
		return false
	}
	for _, field := range fields {
		if !slices.Contains(informative, field) && !slices.Contains(p.informs, field) {
			return false
		}
	}
	return !awaited(p.before, p.obj)
}

// hooks are the reasons why a deletion waits for somebody else, who may be
// waiting for it to come that far.
var hooks = []string{clusterv1.MachineDeletingWaitingForPreDrainHookReason, clusterv1.MachineDeletingWaitingForPreTerminateHookReason}

// awaited reports whether a change is one that others wait for: owners and
// users that Ready or Available becomes True, or all Machines ready, those who
// set hooks that a deletion comes to them, and those who pause that it is noticed.
func awaited(before, after client.Object) bool {
	was, ok := before.(conditions.Getter)
	if !ok {
		return true // what is not known to be informative is not put off
	}
	is := after.(conditions.Getter)
	turns := func(condition, reason string) bool {
		return conditions.Reason(is, condition) == reason && conditions.Reason(was, condition) != reason
	}
	if slices.ContainsFunc(hooks, func(reason string) bool { return turns(clusterv1.DeletingCondition, reason) }) {
		return true
	}
	// Who pauses what is looked after does so to change it himself, or to move it
	// elsewhere, and waits until that is noticed. Nobody waits for what was made
	// paused.
	if conditions.IsFalse(was, clusterv1.PausedCondition) && conditions.IsTrue(is, clusterv1.PausedCondition) {
		return true
	}
	// By its reason: that there is no Machine that is not ready is no news.
	if turns(clusterv1.MachinesReadyCondition, clusterv1.ReadyReason) {
		return true
	}
	// What has Machines becomes available a moment before they are all ready:
	// that is told with it, or if it does not come, after the usual wait.
	if conditions.Has(is, clusterv1.MachinesReadyCondition) && conditions.Reason(is, clusterv1.MachinesReadyCondition) != clusterv1.ReadyReason {
		return false
	}
	return slices.ContainsFunc([]string{clusterv1.ReadyCondition, clusterv1.AvailableCondition}, func(t string) bool {
		return conditions.IsTrue(is, t) && !conditions.IsTrue(was, t)
	})
}

// putOff returns a PostponedError if the status write can and may still wait.
func (p *commit) putOff(fields []string) error {
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

// settled notes that no status write is put off any more.
func (p *commit) settled() {
	if p.debounce != nil {
		p.debounce.done(p.obj.GetUID())
	}
}
