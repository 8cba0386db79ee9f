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

// Patience joins status writes of one object that come in quick succession and
// that nobody waits for: counters, and conditions that are not good news. Such
// a write is put off for a moment; whatever comes in between goes out
// with it. Everything else is written at once, and takes what was put off along.
//
// The more objects have a write put off, the longer each may wait: when a
// hundred clusters come up at once every step of theirs takes seconds, and
// telling each of them would be half of the work.
//
// A Patience of nil, or of zero length, puts nothing off.
type Patience struct {
	length time.Duration
	clock  clock.PassiveClock

	mu    sync.Mutex // guards since
	since map[types.UID]time.Time
}

// NewPatience makes a Patience that puts writes off for at most that long.
func NewPatience(length time.Duration, c clock.PassiveClock) *Patience {
	return &Patience{length: length, clock: c, since: map[types.UID]time.Time{}}
}

// Patiently lets a commit put off the status write. It then returns a
// PostponedError, which kit/controller turns into another reconcile.
func Patiently(p *Patience) Option { return func(c *commit) { c.patience = p } }

// PostponedError says that a status was not written yet, and when to come again.
type PostponedError struct{ After time.Duration }

// Error implements error.
func (e *PostponedError) Error() string { return fmt.Sprintf("status is written in %s", e.After) }

const (
	// crowd is how many objects double the time that writes may wait.
	crowd = 20
	// longest is how long a write may wait in the largest crowd.
	longest = 10 * time.Second
)

// maxPostponed is how many objects are remembered before those are dropped that
// were deleted while their write was put off.
const maxPostponed = 10_000

// postpone returns how long a write may still wait; 0 means that it is due.
func (p *Patience) postpone(uid types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	since, ok := p.since[uid]
	others := len(p.since)
	if ok {
		others--
	}
	length := max(p.length, min(longest, p.length+p.length*time.Duration(others)/crowd))
	if !ok {
		if len(p.since) >= maxPostponed {
			maps.DeleteFunc(p.since, func(_ types.UID, t time.Time) bool { return now.Sub(t) > time.Minute })
		}
		p.since[uid] = now
		return length
	}
	return max(0, length-now.Sub(since))
}

func (p *Patience) done(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, uid)
}

// patient are the fields of a status that tell, and that nothing else waits for.
var patient = []string{
	"conditions", "observedGeneration", "phase", "lastUpdated", "selector", "versions", "version", "nodeInfo",
	"replicas", "readyReplicas", "availableReplicas", "upToDateReplicas", "controlPlane", "workers",
}

// mayWait reports whether a change of status can be put off.
func (p *commit) mayWait(status any) bool {
	if p.patience == nil || p.patience.length == 0 || !p.obj.GetDeletionTimestamp().IsZero() {
		return false
	}
	fields, ok := status.(map[string]any)
	if !ok {
		return false
	}
	for field := range fields {
		if !slices.Contains(patient, field) {
			return false
		}
	}
	return !goodNews(p.before, p.obj)
}

// goodNews reports whether Ready or Available has become True: that is what
// owners, and users, wait for.
func goodNews(before, after client.Object) bool {
	was, ok := before.(conditions.Getter)
	if !ok {
		return true // what is not known to be patient is not put off
	}
	is := after.(conditions.Getter)
	return slices.ContainsFunc([]string{clusterv1.ReadyCondition, clusterv1.AvailableCondition}, func(t string) bool {
		return conditions.IsTrue(is, t) && !conditions.IsTrue(was, t)
	})
}

// putOff returns a PostponedError if the status write can and may still wait.
func (p *commit) putOff(status any) error {
	if !p.mayWait(status) {
		return nil
	}
	if after := p.patience.postpone(p.obj.GetUID()); after > 0 {
		return &PostponedError{after}
	}
	return nil
}
