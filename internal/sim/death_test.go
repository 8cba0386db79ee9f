// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"time"
)

// errDied is what a process gets that is no more.
var errDied = errors.New("the process has died")

// lives says how long a process lives: how many writes it makes, of all controllers
// or of the one that is named.
type lives struct {
	of     string
	writes func(process int) int
}

// onceEach lets each process write once: there is no moment between two writes in
// which it does not die.
func onceEach(int) int { return 1 }

// longer lets processes live for one to eight writes in turn. What must be begun
// anew after a death, as the three objects of a control plane machine, needs more
// than one.
func longer(process int) int { return 1 + process%8 }

// dies lets process after process die on the same objects, until something is so.
// It returns the world of the one that lives on.
func dies(w *story, l lives, change func(*Options), is func(*story) bool) *story {
	w.t.Helper()
	for process := range 500 {
		w.store.refuse, w.store.of, w.store.spare = errDied, l.of, l.writes(process)
		_ = w.World.RunFor(w.t.Context(), time.Second) // the process dies
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
