// SPDX-License-Identifier: Apache-2.0

package planes

import (
	"strings"
	"testing"

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
	d := to.Since(from)
	want := []Count{{"PATCH", "machines.cluster.x-k8s.io/status", 4}, {"LIST", "secrets", 1}}
	if diff := cmp.Diff(want, d.Counts(Counted)); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if got := d.Sum(IsWrite); got != 4 {
		t.Errorf("%v writes, want 4", got)
	}
	if got := d.Sum(IsConflict); got != 1 {
		t.Errorf("%v conflicts, want 1", got)
	}
}
