// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// inputs are what discovery depends on.
type inputs struct {
	uid         types.UID
	generation  int64
	annotations string
	misplaced   string // what is wrong with the certificate authority to inject
}

// attempts has the last discovery of each ExtensionConfig, and whether it must be
// repeated. The zero value is ready to use.
type attempts struct {
	mu sync.Mutex // guards of
	of map[string]attempt
}

type attempt struct {
	inputs
	due      time.Time
	failures int
}

// wait returns how long the result of the last attempt is still valid.
func (a *attempts) wait(config string, in inputs, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.of[config]
	if !ok || last.inputs != in {
		return 0
	}
	return max(0, last.due.Sub(now))
}

// note records an attempt that ended now and returns how long its result is valid.
// random is in [0,1).
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
	counted := next.failures
	if in.misplaced != "" {
		counted = 0 // the watch of the Secret triggers a reconcile earlier
	}
	wait := extensionconfig.AskAgain(counted, random)
	next.due = now.Add(wait)
	a.of[config] = next
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
