// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
)

// report fills the conditions from the state. failed is what the reconcile
// ended with.
func report(s *state, failed error) {
	c := localstatus.Cluster{Local: s.local, Cluster: s.cluster, Generation: patch.Generation(s.local, s.before, s.local.Spec), Now: s.now, Waiting: s.waiting}
	if failed != nil {
		c.Failed = failed.Error()
	}
	if s.refused != nil {
		c.Refused = s.refused.Error()
	}
	localstatus.ReportCluster(c)
}
