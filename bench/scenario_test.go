// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/bench/providers"
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

func TestAProviderThatCostsTooMuchFailsTheRun(t *testing.T) {
	t.Parallel()
	limits := Limits{ProviderSeconds: 2, ProviderMiB: 10, ProvidersIdleCores: 0.02, ServiceMilliseconds: 0.25, CrowdRatio: 3}
	good := providers.Cost{AvailableSeconds: []float64{1, 2}, FirstMiB: 10, EachMiB: 3, IdleCores: 0.02, ServiceMilliseconds: 1.25, DirectMilliseconds: 1, AloneMilliseconds: 2, CrowdedMilliseconds: 6}
	if err := (&Result{Providers: &good}).check(limits); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*providers.Cost){
		"seconds to a provider Available: 3, limit 2":                             func(c *providers.Cost) { c.AvailableSeconds = []float64{3, 1} },
		"memory of the first provider beyond its own in MiB: 11, limit 10":        func(c *providers.Cost) { c.FirstMiB = 11 },
		"memory of a further provider beyond its own in MiB: 12, limit 10":        func(c *providers.Cost) { c.EachMiB = 12 },
		"cores that idle providers cost: 0.03, limit 0.02":                        func(c *providers.Cost) { c.IdleCores = 0.03 },
		"milliseconds that a Service adds to a webhook: 0.5, limit 0.25":          func(c *providers.Cost) { c.ServiceMilliseconds = 1.5 },
		"times the 99th percentile of requests with a Pod that forks: 4, limit 3": func(c *providers.Cost) { c.CrowdedMilliseconds = 8 },
	} {
		c := good
		change(&c)
		if err := (&Result{Providers: &c}).check(limits); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestDecisionsWhenIdleFailRun(t *testing.T) {
	t.Parallel()
	r := &Result{Idle: Window{Decisions: 1}}
	if err := r.check(Limits{}); err != nil {
		t.Error(err)
	}
	if err := r.check(Limits{NoIdleWrites: true}); err == nil || err.Error() != "decisions recorded when idle: 1, want none" {
		t.Errorf("error %v", err)
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
	for _, name := range []string{"one", "demo", "ten", "hundred", "twohundred", "wide", "pool", "containers", "providers"} {
		if s, err := load("scenarios/" + name + ".yaml"); err != nil || s.Name != name {
			t.Errorf("scenario %s: %+v, %v", name, s, err)
		}
	}
}
