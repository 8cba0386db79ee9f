// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// firstBackoff follows the second failure in a row and doubles with each.
	firstBackoff = time.Second
	maxBackoff   = time.Minute
)

// evidence is what the result of a call shows about the server.
type evidence int

const (
	unknown  evidence = iota // the call did not reach it, or was canceled
	answered                 // even if it refused
	inTrouble
)

// gate blocks calls to a server that keeps failing.
//
//	open --2nd failure--> shut --time is over--> one try --success--> open
//	                       ^-----------failure------'
//
// The first failure has no effect: a server may restart.
type gate struct {
	clock clock.PassiveClock

	// mu guards the fields below.
	mu       sync.Mutex
	failures int       // in a row
	step     uint64    // incremented with each change of failures
	until    time.Time // shut until then
	trying   bool      // the one try of this step is in progress
	last     error
}

// pass permits a call. Calls that start at the same step and fail together count as
// one failure.
type pass struct {
	step uint64
	try  bool
}

// refused returns a *refusal if a call would not be admitted now.
func (g *gate) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal()
}

// admit admits a call or returns the reason why not. settle must follow a pass.
func (g *gate) admit(probe bool) (pass, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if probe || g.failures < 2 {
		return pass{step: g.step}, nil
	}
	if err := g.refusal(); err != nil {
		return pass{}, err
	}
	g.trying = true
	return pass{step: g.step, try: true}, nil
}

func (g *gate) refusal() error {
	if g.failures < 2 {
		return nil
	}
	now := g.clock.Now()
	switch {
	case now.Before(g.until):
		return &refusal{failures: g.failures, retry: g.until, last: g.last}
	case g.trying:
		return &refusal{failures: g.failures, retry: now.Add(firstBackoff), last: g.last}
	}
	return nil
}

// settle records the result of an admitted call.
func (g *gate) settle(p pass, v evidence, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case v == answered && g.failures > 0:
		g.failures, g.last = 0, nil
		g.step++
		g.trying = false
	case p.step != g.step: // another call has already been counted
	case v == inTrouble:
		g.failures++
		g.step++
		g.trying, g.last = false, err
		if g.failures >= 2 {
			g.until = g.clock.Now().Add(backoff(g.failures))
		}
	case p.try: // the result is unknown, so another call may try
		g.trying = false
	}
}

// backoff returns how long to wait after that many failures in a row, two or more.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for range failures - 2 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// refusal is the reason why a call was not admitted. It does not wrap the last
// failure, which belongs to another call.
type refusal struct {
	failures int
	retry    time.Time
	last     error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("not called before %s after %d failures in a row, the last: %v", r.retry.UTC().Format(time.RFC3339), r.failures, r.last)
}
