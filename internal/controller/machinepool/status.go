// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
)

// facts returns the facts for the status; failed is the error of the phases.
func (s *state) facts(failed error) machinepool.Facts {
	f := machinepool.Facts{
		Pool: s.pool, Cluster: s.cluster, Generation: patch.Generation(s.pool, s.specBefore, s.pool.Spec), Now: s.now, Failed: failed != nil,
		BootstrapConfig: s.bootstrapConfig.Known(), Infrastructure: s.infra.Known(), DataLacks: s.dataLacks, Report: s.infraReport,
		Machines: s.machines, Problems: s.problems, Leaving: s.leaving,
	}
	if !s.withMachines() {
		f.Machines, f.StandIns = s.standIns, true
		if !s.remote.seen && s.pool.DeletionTimestamp.IsZero() {
			f.Unseen, f.Until = "The Nodes could not be read", s.remote.until
			switch {
			case s.remote.unseen != "":
				f.Unseen = s.remote.unseen
			case failed != nil:
				f.Unseen = failed.Error()
			}
		}
	}
	return f
}
