// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"
)

// errDied is the error of all requests of a process that has ended.
var errDied = errors.New("the process crashed")

// lives is how long a process runs: how many writes it makes, of all controllers or
// of the one that is named.
type lives struct {
	of     string
	writes func(process int) int
}

// onceEach lets each process write once: a crash follows every write.
func onceEach(int) int { return 1 }

// longer lets processes run for one to eight writes in turn. What must be started
// again after a crash, as the three objects of a control plane machine, needs more
// than one.
func longer(process int) int { return 1 + process%8 }

// crashes runs processes that crash one after another on the same objects, until is
// returns true. It returns the story of the one that continues.
func crashes(w *story, l lives, change func(*Options), is func(*story) bool) *story {
	w.t.Helper()
	for process := range 500 {
		w.store.refuse, w.store.of, w.store.spare = errDied, l.of, l.writes(process)
		_ = w.World.RunFor(w.t.Context(), time.Second) // the process crashes
		if is(w) {
			w.t.Logf("%d processes", process+1)
			w.store.refuse = nil
			w.Run()
			return w
		}
		objects, err := w.Objects(w.t.Context())
		w.must(err)
		w.leave()
		o := Options{Clock: w.Clock, Backends: w.machines, Objects: objects, Tokens: w.Tokens}
		change(&o)
		w = begin(w.t, o)
	}
	w.t.Fatalf("it does not end:\n%s", w.Story())
	return nil
}
