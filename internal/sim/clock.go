// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// Clock is the time of a World, which advances it to when something is due; else it
// stands still. Functions that wait for it are never called: when the time
// advances, everything is reconciled anyway, in a fixed order.
type Clock struct {
	*testclock.FakeClock

	mu     sync.Mutex // guards timers
	timers map[*timer]time.Time
}

// NewClock creates a clock that shows a time.
func NewClock(start time.Time) *Clock {
	return &Clock{FakeClock: testclock.NewFakeClock(start), timers: map[*timer]time.Time{}}
}

// AfterFunc implements clock.WithDelayedExecution.
func (c *Clock) AfterFunc(d time.Duration, _ func()) clock.Timer {
	t := &timer{c}
	t.Reset(d)
	return t
}

// Await has the time stop after d, if nothing else stops it before.
func (c *Clock) Await(d time.Duration) { (&timer{c}).Reset(d) }

// due returns the time of the next timer; zero if there is none.
func (c *Clock) due() (first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, at := range c.timers {
		if !at.After(c.Now()) {
			delete(c.timers, t)
			continue
		}
		first = sooner(first, at)
	}
	return first
}

// sooner returns the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// timer only registers with the clock when it is due.
type timer struct{ clock *Clock }

// C implements clock.Timer. It never receives anything.
func (t *timer) C() <-chan time.Time { return nil }

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, waiting := t.clock.timers[t]
	delete(t.clock.timers, t)
	return waiting
}

// Reset implements clock.Timer.
func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	_, waiting := t.clock.timers[t]
	t.clock.timers[t] = t.clock.Now().Add(d)
	return waiting
}
