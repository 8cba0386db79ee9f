// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestGrowth(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tests := map[string]struct {
		inUse uint64
		want  int
	}{
		"nothing collected yet":       {0, 7400},
		"a little grows to the floor": {100 * mib, 200},
		"below the floor, but near":   {250 * mib, 80},
		"above the floor":             {1000 * mib, 80},
		"at the floor":                {300 * mib, 80},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := growth(tc.inUse, 300*mib, 80); got != tc.want {
				t.Errorf("growth %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTuneFollowsTheHeap(t *testing.T) {
	old := debug.SetGCPercent(100)
	defer debug.SetGCPercent(old)
	Tune(1<<40, 80)
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
