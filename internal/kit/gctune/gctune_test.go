// SPDX-License-Identifier: Apache-2.0

package gctune

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tests := map[string]struct {
		inUse, expected, spare uint64
		want                   int
	}{
		"nothing collected yet":                           {0, 0, 0, 7400},
		"a little grows to the floor":                     {100 * mib, 0, 0, 200},
		"near the floor it is small":                      {250 * mib, 0, 0, 120},
		"a small one":                                     {400 * mib, 0, 0, 120},
		"almost a large one":                              {500 * mib, 0, 0, 80},
		"a large one":                                     {600 * mib, 0, 0, 60},
		"far above":                                       {3000 * mib, 0, 0, 92},
		"a little that is expected to stay so":            {100 * mib, 110 * mib, 0, 200},
		"a little grows to what a small one would":        {100 * mib, 250 * mib, 0, 450},
		"a little grows to what almost a large one would": {100 * mib, 500 * mib, 0, 800},
		"a little grows to what one far above would":      {100 * mib, 3000 * mib, 0, 5660},
		"as much as was expected":                         {500 * mib, 500 * mib, 0, 80},
		"more than was expected":                          {600 * mib, 500 * mib, 0, 60},
		"a busy one":                                      {400 * mib, 0, 4000 * mib, 140},
		"a busy one that is large":                        {3000 * mib, 0, 8000 * mib, 192},
		"a busy one takes what there is":                  {3000 * mib, 0, 4500 * mib, 150},
		"a busy one without memory to take":               {3000 * mib, 0, 300 * mib, 92},
	}
	g := Growth{Floor: 300 * mib, Small: 120, Large: 900 * mib, Kept: 240 * mib}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := g.percent(tc.inUse, tc.expected, tc.spare); got != tc.want {
				t.Errorf("growth %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTuneFollowsTheHeap(t *testing.T) {
	old, rate := debug.SetGCPercent(100), runtime.MemProfileRate
	defer func() {
		tuned.Store(nil)
		debug.SetGCPercent(old)
		runtime.MemProfileRate = rate
	}()
	runtime.GC() // what other tests had in use is not any more
	Tune(Growth{Floor: 1 << 40, Sample: 4 << 20})
	if runtime.MemProfileRate != 4<<20 {
		t.Errorf("one of %d bytes is noted, want one of %d", runtime.MemProfileRate, 4<<20)
	}
	set := func() int {
		n := debug.SetGCPercent(100)
		debug.SetGCPercent(n)
		return n
	}
	first := set()
	if first <= 100 {
		t.Fatalf("percentage %d at first, want a large one", first)
	}
	keep := make([]byte, 64<<20)
	for range 1000 {
		runtime.GC()
		runtime.Gosched() // to the goroutine of the finalizers
		if got := set(); got < first && got > 100 {
			runtime.KeepAlive(keep)
			return
		}
	}
	t.Errorf("percentage %d after the heap has grown, want less than %d", set(), first)
}

func TestABusyHeapGrowsUntilItIsQuiet(t *testing.T) {
	old := debug.SetGCPercent(100)
	defer func() {
		tuned.Store(nil)
		busy.Store(false)
		debug.SetGCPercent(old)
	}()
	if available() == 0 {
		t.Skip("this computer does not report its available memory")
	}
	Tune(Growth{Kept: 16 << 20, Soon: 200 * time.Millisecond})
	keep := make([]byte, 64<<20)
	grown := func() int {
		n := debug.SetGCPercent(100)
		debug.SetGCPercent(n)
		return n
	}
	for range 1000 {
		runtime.GC()
		runtime.Gosched() // to the goroutine of the finalizers
		if grown() > 100 {
			break
		}
	}
	if got := grown(); got <= 100 {
		t.Errorf("percentage %d of a heap that is collected again and again, want more than 100", got)
	}
	for busy.Load() || grown() > 100 { // until the timer has ended the burst
		runtime.Gosched()
	}
	runtime.KeepAlive(keep)
}

func TestWhatIsExpectedCountsUntilItIsNotAnyMore(t *testing.T) {
	old := debug.SetGCPercent(100)
	defer func() {
		tuned.Store(nil)
		debug.SetGCPercent(old)
	}()
	percent := func(expected uint64) int {
		Expect(expected)
		n := debug.SetGCPercent(100)
		debug.SetGCPercent(n)
		return n
	}
	if got := percent(1 << 40); got != 100 {
		t.Errorf("percentage %d of a process that is not tuned, want its own", got)
	}
	Tune(Growth{Floor: 16 << 30})
	if low, high, end := percent(0), percent(1<<40), percent(0); high <= low || end >= high {
		t.Errorf("percentages %d, %d and %d, want the second to be the largest", low, high, end)
	}
}
