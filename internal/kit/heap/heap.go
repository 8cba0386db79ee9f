// SPDX-License-Identifier: Apache-2.0

// Package heap tunes the garbage collector for a process that has much memory
// for little data at first, and may hold a whole fleet later.
package heap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// live is what the last collection found in use.
const live = "/gc/heap/live:bytes"

// Growth says how far a heap may grow before it is collected.
type Growth struct {
	// Floor is in bytes: below it nothing is collected. A fixed percentage would
	// collect every few megabytes while a process starts.
	Floor uint64
	// Small is, in percent of what is in use, how much a heap may grow that does
	// not become larger than Large bytes thereby: memory is there, and half as
	// many collections cost half as much.
	Small int
	Large uint64
	// Percent is how much any other may grow.
	Percent int
}

// Tune lets the heap of this process grow so. It holds for the rest of the
// process: call it once.
func Tune(g Growth) {
	adjust(g)
	again(g)
}

// again adjusts after each collection: only that runs the finalizer of an
// object that nobody refers to.
func again(g Growth) {
	runtime.SetFinalizer(&struct{ _ [16]byte }{}, func(any) {
		adjust(g)
		again(g)
	})
}

func adjust(g Growth) {
	sample := []metrics.Sample{{Name: live}}
	metrics.Read(sample)
	debug.SetGCPercent(g.percent(sample[0].Value.Uint64()))
}

// percent is by how much a heap may grow that has so much in use.
func (g Growth) percent(inUse uint64) int {
	if inUse == 0 { // before the first collection Go counts from 4 MiB
		inUse = 4 << 20
	}
	to := func(size uint64) int { // that size
		if inUse >= size {
			return 0
		}
		return int(min((size-inUse)*100/inUse, math.MaxInt32))
	}
	return max(g.Percent, to(g.Floor), min(g.Small, to(g.Large)))
}
