// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestALimitFailsTheRun(t *testing.T) {
	t.Parallel()
	r := &Result{WallSeconds: 5, PeakMiB: 100, Clusters: summarise([]time.Duration{3 * time.Second, time.Second, 2 * time.Second})}
	if err := r.check(Limits{PeakMiB: 100}); err != nil {
		t.Error(err)
	}
	if err := r.check(Limits{WallSeconds: 4, PeakMiB: 99}); err == nil || err.Error() != "seconds to all clusters Available: 5, limit 4\npeak of resident memory in MiB: 100, limit 99" {
		t.Errorf("error %v", err)
	}
	if want := (Spread{2, 2, 3}); r.Clusters != want {
		t.Errorf("spread %v, want %v", r.Clusters, want)
	}
}

func TestPlainClustersStayAsMany(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ plain, want int }{{200, 60}, {5, 5}, {0, 0}} {
		s := &Scenario{Clusters: 200, Plain: tc.plain}
		if s.resize(60); s.Clusters != 60 || s.Plain != tc.want {
			t.Errorf("%d plain ones: %d and %d plain ones, want 60 and %d", tc.plain, s.Clusters, s.Plain, tc.want)
		}
	}
}

func TestScenariosAreSound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "demo", "ten", "hundred", "twohundred", "wide", "pool", "containers"} {
		if s, err := load("scenarios/" + name + ".yaml"); err != nil || s.Name != name {
			t.Errorf("scenario %s: %+v, %v", name, s, err)
		}
	}
}
