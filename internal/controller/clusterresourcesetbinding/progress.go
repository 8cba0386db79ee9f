// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"time"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const (
	// A resource that is not applied is retried from firstRetry, doubling, to
	// lastRetry: a kind is served a moment after its definition was applied, and a
	// resource that a user corrects is applied soon after the correction.
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute

	// passLimit ends a pass over all pending resources, so that the results are
	// recorded.
	passLimit = 20 * time.Second
)

// progress is what this process has done so far to apply the pending resources of a
// cluster. After a restart the next process starts from zero, which is harmless.
type progress struct {
	of, before map[resource]*attempt // of this pass, and of the previous one
}

// resource is one of a ClusterResourceSet.
type resource struct {
	set string
	addonsv1.ResourceRef
}

// attempt is the progress of a resource with a hash.
type attempt struct {
	hash     string
	done     map[int]bool // applied objects, by their position
	failures int          // in a row
	tried    time.Time    // when it failed last
	due      time.Time    // when to try again; zero for immediately
	awaits   bool         // it waits for a kind that is not served
	message  string       // why
	useless  bool         // to try again before the hash changes
}

// begin starts a pass: attempts that are not used in it are dropped at its end.
// After kinds were defined, attempts that await a kind are retried soon: a kind is
// served a moment after its definition was stored.
func (p *progress) begin(defined bool) {
	p.before, p.of = p.of, map[resource]*attempt{}
	for _, a := range p.before {
		if soon := a.tried.Add(firstRetry); defined && a.awaits && soon.Before(a.due) {
			a.failures, a.due = 0, soon
		}
	}
}

// awaits reports whether any attempt awaits a kind.
func (p *progress) awaits() bool {
	for _, a := range p.of {
		if a.awaits {
			return true
		}
	}
	return false
}

// attempt returns the progress of a resource with that hash.
func (p *progress) attempt(r resource, hash string) *attempt {
	a := p.before[r]
	if a == nil || a.hash != hash {
		a = &attempt{hash: hash, done: map[int]bool{}}
	}
	p.of[r] = a
	return a
}

// fail records a failed attempt.
func (a *attempt) fail(at time.Time, message string) {
	a.message, a.tried = message, at
	a.due = at.Add(min(firstRetry<<min(a.failures, 10), lastRetry))
	a.failures++
}

// next is the delay until the next attempt after a pass. The pending resources may
// depend on what was just applied, and are therefore retried soon.
func (p *progress) next(s *state, now time.Time) (after time.Duration) {
	switch {
	case s.workload == nil:
		return 0 // the connection, or the end of the pause, triggers a reconcile
	case s.more:
		return time.Millisecond
	}
	for _, a := range p.of {
		switch {
		case a.due.IsZero() || a.useless:
			continue
		case s.down && a.due.Before(s.retry): // no other request is answered either
			a.due = s.retry
		}
		if len(s.applied) > 0 && !s.down {
			a.failures, a.due = 0, now.Add(firstRetry)
		}
		after = reconciler.Sooner(after, max(a.due.Sub(now), time.Millisecond))
	}
	return after
}
