// SPDX-License-Identifier: Apache-2.0

package machineset

import "github.com/capstan-dev/capstan/internal/pure/scaling"

// report fills the status from the state. failed is what the reconcile ended
// with.
func report(s *state, failed error) { scaling.Report(s.facts(failed)) }

// reportDeprecated fills what clients of v1beta1 read of it.
func reportDeprecated(s *state, failed error) { scaling.ReportDeprecated(s.facts(failed)) }

func (s *state) facts(failed error) scaling.Status {
	return scaling.Status{
		Set: s.set, Cluster: s.cluster, Selector: s.selector.String(), Machines: s.machines, Blocked: s.blocked, NotCreated: s.notCreated, Now: s.now, Failed: failed != nil,
	}
}
