// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const before = `# HELP apiserver_request_total Counter of apiserver requests
apiserver_request_total{code="200",component="apiserver",dry_run="",group="cluster.x-k8s.io",resource="machines",scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 7
`

const after = `apiserver_request_total{code="200",component="apiserver",dry_run="",group="cluster.x-k8s.io",resource="machines",scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 5
apiserver_request_total{code="409",component="apiserver",dry_run="",group="cluster.x-k8s.io",resource="machines",scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 9
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="secrets",scope="namespace",subresource="",verb="LIST",version="v1"} 1
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="secrets",scope="namespace",subresource="",verb="WATCH",version="v1"} 4
apiserver_request_total{code="201",component="apiserver",dry_run="All",group="cluster.x-k8s.io",resource="clusters",scope="resource",subresource="",verb="POST",version="v1beta2"} 1
apiserver_request_duration_seconds_count{verb="POST"} 12
`

func TestRequestsAreCountedFromTheServersMetrics(t *testing.T) {
	t.Parallel()
	from, err := parse(strings.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	to, err := parse(strings.NewReader(after))
	if err != nil {
		t.Fatal(err)
	}
	d := to.since(from)
	want := []Count{{"PATCH", "machines.cluster.x-k8s.io/status", 4}, {"LIST", "secrets", 1}}
	if diff := cmp.Diff(want, d.counts(counted)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if got := d.sum(isWrite); got != 4 {
		t.Errorf("%v writes, want 4", got)
	}
	if got := d.sum(isConflict); got != 1 {
		t.Errorf("%v conflicts, want 1", got)
	}
}

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

func TestScenariosAreSound(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "demo", "ten", "hundred", "twohundred", "wide", "pool"} {
		if s, err := load("scenarios/" + name + ".yaml"); err != nil || s.Name != name {
			t.Errorf("scenario %s: %+v, %v", name, s, err)
		}
	}
}
