// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"testing"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestWritesOfACluster holds what a cluster costs the API server, so that a
// request that was saved does not come back. Time stands still while somebody
// has something to do, so a status that only informs is written when all is
// done. The users' own requests are counted too.
func TestWritesOfACluster(t *testing.T) {
	w := newDebounced(t, time.Second/2)
	before := map[string]int{}
	tell := func() {
		total, now := 0, w.Requests()
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if n := now[what] - before[what]; n > 0 {
				w.Tell("%d %s", n, what)
				total += n
			}
		}
		w.Tell("%d in all", total)
		before = now
	}
	create(t, w, "demo", 1, 1)
	w.RunFor(time.Minute)
	tell()
	w.Tell("# delete demo")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	tell()
	w.Golden("writes-of-a-cluster.txt")
}
