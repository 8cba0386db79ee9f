// SPDX-License-Identifier: Apache-2.0

package machineset

import "github.com/capstan-dev/capstan/internal/pure/scaling"

// facts are those for the status; failed is what the reconcile ended with.
func (s *state) facts(failed error) scaling.Status {
	return scaling.Status{
		Set: s.set, Cluster: s.cluster, Selector: s.selector.String(), Machines: s.machines, Blocked: s.blocked, NotCreated: s.notCreated, Now: s.now, Failed: failed != nil,
	}
}
