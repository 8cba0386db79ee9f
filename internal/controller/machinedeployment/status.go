// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import "github.com/capstan-dev/capstan/internal/pure/rollout"

// facts are those for the status; failed is what the reconcile ended with.
func (s *state) facts(failed error) rollout.Status {
	return rollout.Status{
		Deployment: s.deployment, Cluster: s.cluster, Selector: s.selector.String(), Sets: s.sets, Machines: s.machines, BySet: s.bySet,
		Blocked: s.blocked, Now: s.now, Failed: failed != nil,
	}
}
