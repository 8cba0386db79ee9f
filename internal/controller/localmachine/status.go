// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
)

// report fills the conditions from the state. failed is what the reconcile
// ended with.
func report(s *state, failed error) {
	localstatus.ReportMachine(localstatus.Machine{
		Local: s.local, Cluster: s.cluster, Generation: patch.Generation(s.local, s.before, s.local.Spec), Now: s.now,
		Waiting: s.waiting, Seen: s.seen, Stopped: text(s.stopped), Failed: text(failed),
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
