// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// report fills the status from the state. failed is what the reconcile ended
// with.
func report(s *state, failed error) {
	status := localpool.Status{
		Pool: s.Pool, Facts: s.facts, Cluster: s.cluster, Now: s.now, Members: s.members, Waiting: s.waiting, Blocked: s.blocked,
	}
	if failed != nil {
		status.Failed = failed.Error()
	}
	if s.backend != nil {
		offer := s.backend.Offer(localpool.MachineSpec(s.Local))
		status.Capacity, status.NodeInfo = offer.Capacity, offer.NodeInfo
		status.ProviderID = s.backend.ProviderID(types.NamespacedName{Namespace: s.Local.Namespace, Name: "pool/" + s.Local.Name}, s.Cluster)
	}
	status.Note()
	status.Generation = patch.Generation(s.Local, s.before, s.Local.Spec)
	localpool.Report(status)
}
