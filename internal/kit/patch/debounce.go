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

	mu    sync.Mutex // guards since
	since map[types.UID]time.Time
}

// NewStatusDebounce makes a StatusDebounce that puts writes off for at most that long.
func NewStatusDebounce(length time.Duration, c clock.PassiveClock) *StatusDebounce {
	return &StatusDebounce{length: length, clock: c, since: map[types.UID]time.Time{}}
}

// Beside makes one that is as long, for another writer of the same objects: what
// one of them writes takes nothing along that the other has put off.
func (d *StatusDebounce) Beside() *StatusDebounce {
	if d == nil {
		return nil
	}
	return NewStatusDebounce(d.length, d.clock)
}

// Debounced lets a commit put off the status write. It then returns a
// PostponedError, which kit/controller turns into another reconcile. The fields
// are those that for this kind only inform as well; see informative.
func Debounced(d *StatusDebounce, fields ...string) Option {
	return func(c *commit) { c.debounce, c.informs = d, fields }
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

// postpone returns how long a write may still wait; 0 means that it is due.
func (d *StatusDebounce) postpone(uid types.UID) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	since, ok := d.since[uid]
	others := len(d.since)
	if ok {
		others--
	}
	length := max(d.length, min(longest, d.length+d.length*time.Duration(others)/loadFactor))
	if !ok {
		if len(d.since) >= maxPostponed {
			maps.DeleteFunc(d.since, func(_ types.UID, t time.Time) bool { return now.Sub(t) > time.Minute }) // longer than any write waits
		}
		d.since[uid] = now
		return length
	}
	return max(0, length-now.Sub(since))
}

func (d *StatusDebounce) done(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.since, uid)
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
	if after := p.debounce.postpone(p.obj.GetUID()); after > 0 {
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
