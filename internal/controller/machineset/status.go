// SPDX-License-Identifier: Apache-2.0

package machineset

import "github.com/capstan-dev/capstan/internal/pure/scaling"

// report fills the status from the state. failed is what the reconcile ended
// with.
func report(s *state, failed error) {
	scaling.Report(scaling.Status{
		Set: s.set, Cluster: s.cluster, Selector: s.selector.String(), Machines: s.machines, Blocked: s.blocked, Now: s.now, Failed: failed != nil,
	})
}
