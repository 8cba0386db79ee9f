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

// verdict is what the end of a call says about the server.
type verdict int

const (
	unknown  verdict = iota // the call never got there, or its caller gave up
	answered                // even if with a refusal
	inTrouble
)

// gate holds calls back from a server that keeps failing.
//
//	open --2nd failure--> shut --time is over--> one try --success--> open
//	                       ^-----------failure------'
//
// The first failure costs nothing: a server may restart.
type gate struct {
	clock clock.PassiveClock

	// mu guards what is below.
	mu       sync.Mutex
	failures int       // in a row
	step     uint64    // grows with every change of failures
	until    time.Time // shut till then
	trying   bool      // the one try of this step is under way
	last     error
}

// pass is the leave to make a call. Calls that set out at the same step and
// fail together count as one failure.
type pass struct {
	step uint64
	try  bool
}

// refused is a *refusal if a call would not be let through now.
func (g *gate) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refusal()
}

// admit lets a call through or says why not. settle must follow a pass.
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

// settle takes the outcome of a call that was let through.
func (g *gate) settle(p pass, v verdict, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case v == answered && g.failures > 0:
		g.failures, g.last = 0, nil
		g.step++
		g.trying = false
	case p.step != g.step: // others have told of this
	case v == inTrouble:
		g.failures++
		g.step++
		g.trying, g.last = false, err
		if g.failures >= 2 {
			g.until = g.clock.Now().Add(backoff(g.failures))
		}
	case p.try: // it says nothing, so another may try
		g.trying = false
	}
}

// backoff is how long to wait after so many failures in a row, two or more.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for range failures - 2 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// refusal is why a call was not let through. It does not wrap the last
// failure: that one was another call's.
type refusal struct {
	failures int
	retry    time.Time
	last     error
}

func (r *refusal) Error() string {
	return fmt.Sprintf("not called before %s after %d failures in a row, the last: %v", r.retry.UTC().Format(time.RFC3339), r.failures, r.last)
}
