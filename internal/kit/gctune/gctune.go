// SPDX-License-Identifier: Apache-2.0

// Package gctune tunes the garbage collector for a process that has much memory
// for little data at first, and may hold a whole fleet later.
package gctune

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"
)

// live is what the last collection found in use.
const live = "/gc/heap/live:bytes"

var (
	tuned    atomic.Pointer[Growth] // nil before Tune
	expected atomic.Uint64
	busy     atomic.Bool // it was collected a moment ago, and the time before a moment earlier
)

// Growth defines how far a heap may grow before it is collected, and how closely it
// is watched.
type Growth struct {
	// Floor is in bytes: below it nothing is collected. A fixed percentage would
	// collect every few megabytes while a process starts.
	Floor uint64
	// Small is, in percent of what is in use, how much a heap may grow that does
	// not become larger than Large bytes thereby: memory is there, and half as
	// many collections cost half as much.
	Small int
	Large uint64
	// Kept is in bytes: any other heap may double except for these, so that a fleet
	// ten times as large does not cost ten times as many collections.
	Kept uint64
	// Soon is how long after another a collection shows that the heap is busy:
	// until there was none for so long, the heap may triple except for what is
	// kept, if half the memory that the computer has available suffices. What a
	// burst allocates is collected less often, and the memory given back when it is
	// over.
	Soon time.Duration
	// Sample is of how many allocated bytes one has the stack noted that allocated
	// it, for profiles of the heap. 0 leaves it at Go's half a megabyte.
	Sample int
}

// Tune sets the growth of this process's heap. It holds for the rest of the
// process: call it once, at its start.
func Tune(g Growth) {
	if g.Sample > 0 {
		runtime.MemProfileRate = g.Sample
	}
	tuned.Store(&g)
	adjust()
	again(&g, time.Time{}, time.AfterFunc(math.MaxInt64, func() {
		if busy.Swap(false) {
			adjust()
			debug.FreeOSMemory()
		}
	}))
}

// Expect sets how many bytes will soon be in use. As long as fewer are, the heap
// may become as large as it may with that many: while a process reads its data all
// of it is in use, and repeated collections find nothing. 0 expects nothing any
// longer. Where Tune was not called it changes nothing.
func Expect(inUse uint64) {
	expected.Store(inUse)
	adjust()
}

// again adjusts after each collection: only that runs the finalizer of an
// unreachable object.
func again(g *Growth, last time.Time, over *time.Timer) {
	runtime.SetFinalizer(&struct{ _ [16]byte }{}, func(any) {
		if tuned.Load() != g {
			return
		}
		now := time.Now()
		busy.Store(now.Sub(last) < g.Soon)
		over.Reset(g.Soon)
		adjust()
		again(g, now, over)
	})
}

func adjust() {
	g := tuned.Load()
	if g == nil {
		return
	}
	sample := []metrics.Sample{{Name: live}}
	metrics.Read(sample)
	var spare uint64
	if busy.Load() {
		spare = available() / 2
	}
	debug.SetGCPercent(g.percent(sample[0].Value.Uint64(), expected.Load(), spare))
}

// available is how many bytes of memory the computer could still provide, 0 if it
// does not report it.
func available() uint64 {
	content, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kib uint64
	_, after, _ := strings.Cut(string(content), "MemAvailable:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0
	}
	return kib << 10
}

// percent is by how much a heap may grow that has so much in use. spare is in
// bytes, what it may take because it is busy.
func (g Growth) percent(inUse, expected, spare uint64) int {
	inUse = max(inUse, 4<<20)     // from which Go counts, also before the first collection
	to := func(size uint64) int { // that size
		if inUse >= size {
			return 0
		}
		return int(min((size-inUse)*100/inUse, math.MaxInt32))
	}
	percent := max(to(g.Floor), min(g.Small, to(g.Large)), to(2*inUse-min(g.Kept, inUse)), to(min(3*inUse-min(g.Kept, inUse), inUse+spare)))
	if expected > inUse {
		percent = max(percent, to(expected+expected*uint64(g.percent(expected, 0, 0))/100))
	}
	return percent
}
