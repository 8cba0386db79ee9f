// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"time"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

const (
	// What is not applied is tried again from firstRetry, doubling, to lastRetry:
	// a kind is served a moment after its definition was applied, and what a user
	// has to mend goes on soon after it is mended.
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute

	// passLimit ends a pass over everything that is to be applied, so that what was
	// done is written down.
	passLimit = 20 * time.Second
)

// progress is how far this process has come with what is not applied to a
// cluster. A restart begins anew, which does no harm.
type progress struct {
	of, before map[resource]*attempt // of this pass, and of the one before
}

// resource is one of a ClusterResourceSet.
type resource struct {
	set string
	addonsv1.ResourceRef
}

// attempt is how far a resource has come that has a hash.
type attempt struct {
	hash     string
	done     map[int]bool // objects that are applied, by their place
	failures int          // in a row
	tried    time.Time    // when it failed last
	due      time.Time    // when to try again; zero for at once
	awaits   bool         // a kind that is not served
	message  string       // why
	useless  bool         // to try again, before the hash is another one
}

// begin begins a pass: what nobody asks for in it is forgotten at its end. When
// kinds were defined, what awaits one is tried again soon: it is served a moment
// after its definition came.
func (p *progress) begin(defined bool) {
	p.before, p.of = p.of, map[resource]*attempt{}
	for _, a := range p.before {
		if soon := a.tried.Add(firstRetry); defined && a.awaits && soon.Before(a.due) {
			a.failures, a.due = 0, soon
		}
	}
}

// awaits reports whether a kind is awaited.
func (p *progress) awaits() bool {
	for _, a := range p.of {
		if a.awaits {
			return true
		}
	}
	return false
}

// attempt returns how far a resource with that hash has come.
func (p *progress) attempt(r resource, hash string) *attempt {
	a := p.before[r]
	if a == nil || a.hash != hash {
		a = &attempt{hash: hash, done: map[int]bool{}}
	}
	p.of[r] = a
	return a
}

// fail notes that an attempt failed at a time.
func (a *attempt) fail(at time.Time, message string) {
	a.message, a.tried = message, at
	a.due = at.Add(min(firstRetry<<min(a.failures, 10), lastRetry))
	a.failures++
}

// next is in which time something is due after a pass. What was applied may be
// what the rest waits for, which therefore is tried again soon.
func (p *progress) next(s *state, now time.Time) (after time.Duration) {
	switch {
	case s.workload == nil:
		return 0 // the connection, or the end of the pause, wakes us
	case s.more:
		return time.Millisecond
	}
	for _, a := range p.of {
		switch {
		case a.due.IsZero() || a.useless:
			continue
		case s.down && a.due.Before(s.retry): // nobody else is answered either
			a.due = s.retry
		}
		if len(s.applied) > 0 && !s.down {
			a.failures, a.due = 0, now.Add(firstRetry)
		}
		after = phase.Sooner(after, max(a.due.Sub(now), time.Millisecond))
	}
	return after
}
