// SPDX-License-Identifier: Apache-2.0

package machinedeployment

import "github.com/capstan-dev/capstan/internal/pure/rollout"

// report fills the status from the state. failed is what the reconcile ended
// with.
func report(s *state, failed error) { rollout.Report(s.facts(failed)) }

// reportDeprecated fills what clients of v1beta1 read of it.
func reportDeprecated(s *state, failed error) { rollout.ReportDeprecated(s.facts(failed)) }

func (s *state) facts(failed error) rollout.Status {
	return rollout.Status{
		Deployment: s.deployment, Cluster: s.cluster, Selector: s.selector.String(), Sets: s.sets, Machines: s.machines, BySet: s.bySet,
		Blocked: s.blocked, Now: s.now, Failed: failed != nil,
	}
}
