// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
)

// facts returns the facts for the status; failed is the error of the phases.
func (s *state) facts(failed error) clusterstatus.Facts {
	c, h := s.cluster, s.health
	return clusterstatus.Facts{
		Cluster: c, Generation: patch.Generation(c, s.specBefore, c.Spec), Now: s.now, Failed: failed != nil,
		Infrastructure: s.infra.Known(), ControlPlane: s.controlPlane.Known(), Replicas: s.replicas, Versions: s.versions,
		Members: s.members, Deletion: s.deletion, ClassGates: s.gates, Guard: s.guard,
		Connection: clusterstatus.Connection{
			Failing: !h.Connected || h.Failures > 0, LastProbe: h.LastProbeSuccess, Why: h.Why(),
			GraceStarts: h.GraceStarts(ptr.Deref(c.Status.Initialization.ControlPlaneInitialized, false)),
		},
	}
}
