// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// facts returns the facts about the Machine, except the comparison with its
// template, which is only reported; failed is the error of the phases.
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
	if s.set != nil && s.deployment != nil { // otherwise the owner of the Machine, if any, evaluates it
		f.UpToDate = new(rollout.UpToDate(s.deployment, s.set, s.machine, s.now))
	}
	if s.pool != nil {
		f.UpToDate = new(machinepool.UpToDate(s.pool, s.machine))
	}
	healthcheck.Withdraw(s.machine, s.checks)
	machinestatus.Report(f)
}
