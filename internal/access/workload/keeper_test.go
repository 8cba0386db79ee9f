// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"
)

func TestProbesAreMadeTogetherAndNeverLate(t *testing.T) {
	t.Parallel()
	moments := map[time.Time]int{}
	now := time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)
	for range 1000 { // clusters that connected one after another in a second
		now = now.Add(time.Millisecond)
		d := untilProbe(now)
		if d > 11*time.Second || d < 8500*time.Millisecond {
			t.Fatalf("a probe after %s, want 8.5s to 11s", d)
		}
		moments[now.Add(d)]++
	}
	if len(moments) > 7 { // from 9 to 12 s, each half second
		t.Errorf("1000 clusters are probed in %d moments, want 7 or fewer", len(moments))
	}
}
