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

// Tune lets the heap grow to floor bytes before it is collected, and from there
// on by percent of what is in use. A fixed percentage would either collect
// every few megabytes while a process starts, or double a heap that is large.
// It holds for the rest of the process: call it once.
func Tune(floor uint64, percent int) {
	adjust(floor, percent)
	again(floor, percent)
}

// again adjusts after each collection: only that runs the finalizer of an
// object that nobody refers to.
func again(floor uint64, percent int) {
	runtime.SetFinalizer(&struct{ _ [16]byte }{}, func(any) {
		adjust(floor, percent)
		again(floor, percent)
	})
}

func adjust(floor uint64, percent int) {
	sample := []metrics.Sample{{Name: live}}
	metrics.Read(sample)
	debug.SetGCPercent(growth(sample[0].Value.Uint64(), floor, percent))
}

// growth is the percentage by which a heap may grow that has so much in use.
func growth(inUse, floor uint64, percent int) int {
	if inUse == 0 { // before the first collection Go counts from 4 MiB
		inUse = 4 << 20
	}
	if inUse >= floor {
		return percent
	}
	return max(percent, int(min((floor-inUse)*100/inUse, math.MaxInt32)))
}
