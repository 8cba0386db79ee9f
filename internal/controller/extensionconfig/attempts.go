// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// slowPeriod is how often an extension is asked whose ExtensionConfig does
	// not change: a new release of it may answer other hooks.
	slowPeriod = 10 * time.Minute

	// A failed attempt is repeated after firstRetry, doubling, to lastRetry.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute

	// jitter is the part of a wait by which it is longer or shorter.
	jitter = 0.1
)

// inputs are what discovery depends on.
type inputs struct {
	uid         types.UID
	generation  int64
	annotations string
	misplaced   string // what is wrong with the certificate authority to inject
}

// attempts holds for each ExtensionConfig when it was asked last, and whether
// it has to be asked again. The zero value is ready to use.
type attempts struct {
	mu sync.Mutex // guards of
	of map[string]attempt
}

type attempt struct {
	inputs
	due      time.Time
	failures int
}

// wait returns how long the result of the last attempt still counts.
func (a *attempts) wait(config string, in inputs, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.of[config]
	if !ok || last.inputs != in {
		return 0
	}
	return max(0, last.due.Sub(now))
}

// note remembers an attempt that ended now and returns how long its result
// counts. random is in [0,1).
func (a *attempts) note(config string, in inputs, failed bool, now time.Time, random float64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]attempt{}
	}
	next := attempt{inputs: in}
	if failed {
		next.failures = 1
		if last := a.of[config]; last.inputs == in {
			next.failures += last.failures
		}
	}
	wait := time.Duration(float64(next.wait()) * (1 - jitter + 2*jitter*random))
	next.due = now.Add(wait)
	a.of[config] = next
	return wait
}

func (a attempt) wait() time.Duration {
	if a.failures == 0 || a.misplaced != "" { // the watch of the Secret wakes us earlier
		return slowPeriod
	}
	wait := firstRetry
	for range a.failures - 1 {
		if wait *= 2; wait >= lastRetry {
			return lastRetry
		}
	}
	return wait
}

func (a *attempts) forget(config string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, config)
}

func (a *attempts) has(config string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.of[config]
	return ok
}
