// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/pool"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// facts are what is known of the Machine but how it compares with its template,
// which is only reported; failed is what the phases returned.
func (s *state) facts(failed error) machinestatus.Facts {
	f := machinestatus.Facts{
		Machine: s.machine, Cluster: s.cluster, Generation: patch.Generation(s.machine, s.specBefore, s.machine.Spec), Now: s.now, Failed: failed != nil,
		BootstrapConfig: s.bootstrapConfig.Known(), Infrastructure: s.infraMachine.Known(), DataLacks: s.dataLacks, HostLacks: s.hostLacks,
		Node:     s.seen,
		Deletion: machinestatus.Stage{Reason: s.deletion.plan.Reason, Message: s.deletion.plan.Message},
		Update:   machinestatus.Stage{Reason: s.update.Reason, Message: s.update.Message},
	}
	if s.nodeErr != nil {
		f.Node.Failure = s.nodeErr.Error()
	}
	return f
}

// report fills the status from the state.
func report(s *state, failed error) {
	f := s.facts(failed)
	if s.set != nil && s.deployment != nil { // else it is judged by whoever manages it, or by nobody
		f.UpToDate = new(rollout.UpToDate(s.deployment, s.set, s.machine, s.now))
	}
	if s.pool != nil {
		f.UpToDate = new(pool.UpToDate(s.pool, s.machine))
	}
	healthcheck.Withdraw(s.machine, s.checks)
	machinestatus.Report(f)
}

// reportLegacy fills what clients of v1beta1 read of it.
func reportLegacy(s *state, failed error) { machinestatus.ReportLegacy(s.facts(failed)) }

// deadline is when time alone changes the status next; zero if it never does.
func (s *state) deadline() time.Time { return machinestatus.Deadline(s.facts(nil)) }
