// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
)

// TestWritesOfACluster records what a cluster costs the API server, so that a
// request that was saved does not come back. Time stands still while a controller
// has something to do, so a status that only informs is written when all is done.
// The users' own requests are counted too.
func TestWritesOfACluster(t *testing.T) {
	w := newDebounced(t, time.Second/2)
	tell := requests(w)
	w.Record("# capstan create cluster demo with 1 control plane and 1 worker machines")
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", WorkerMachines: new(int32(1))})
	w.must(err)
	w.must(clusterctl.NewWithClient(w.Mgmt).Create(t.Context(), doc, func(clusterctl.Event) {}))
	w.Run()
	w.RunFor(time.Minute)
	tell()
	w.Record("# delete demo")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	tell()
	w.Golden("writes-of-a-cluster.txt")
}

// TestWritesOfAnUpdateInPlace holds what it costs to update four workers, one at a
// time.
func TestWritesOfAnUpdateInPlace(t *testing.T) {
	t.Parallel()
	x := newUpdater()
	x.w = newWith(t, func(o *Options) { o.Updates, o.StatusDebounce = x, time.Second/2 })
	w := x.w
	create(t, w, "demo", 1, 4)
	pace(t, w, 0, 1)
	w.must(w.Mgmt.Create(t.Context(), filesTemplate(t, w, "demo-workers-2", 2)))
	w.RunFor(time.Minute)
	tell := requests(w)
	use(t, w, "demo-workers-2")
	w.RunFor(2 * time.Minute)
	if len(x.changed) != 4 {
		t.Errorf("updated: %v", x.changed)
	}
	tell()
	w.Golden("writes-of-an-update-in-place.txt")
}

// requests returns a function that writes the requests since its last call.
func requests(w *story) func() {
	before := w.Requests()
	return func() {
		total, now := 0, w.Requests()
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if n := now[what] - before[what]; n > 0 {
				w.Record("%d %s", n, what)
				total += n
			}
		}
		w.Record("%d in all", total)
		before = now
	}
}
