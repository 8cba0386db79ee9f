// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"cmp"
	"fmt"
	"slices"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Host is an infrastructure machine of a pool. Its Machine has the same name.
type Host struct {
	Name   string
	Going  bool   // it is being deleted
	Holder string // the owner of it, or of the name of its Machine, if that is not the pool
}

// Actions make the Machines of a pool match its infrastructure machines.
type Actions struct {
	Create   []string
	Delete   []*clusterv1.Machine // their infrastructure machines were deleted
	Problems []string
}

// Remediation decides about the Machines that a health check marked for replacement,
// except for those whose request is held.
func Remediation(machines []*clusterv1.Machine, held []string) []scaling.Decision {
	all := scaling.Remediation(scaling.Unhealthy{Machines: machines, Held: held, MaxInFlight: -1})
	for _, v := range all {
		if v.Delete {
			v.Condition.Message = healthcheck.Because(v.Machine, "Machine is being deleted and the provider of its MachinePool will replace it")
		}
	}
	return all
}

// Machines plans a Machine for each infrastructure machine, and the deletion of Machines
// without one: a Machine was created for an infrastructure machine, so one without has
// lost it, whether or not it was ever provisioned. At most one batch is planned; the
// next plan continues.
func Machines(kind string, hosts []Host, machines []*clusterv1.Machine) (a Actions) {
	there := make(map[string]bool, len(hosts))
	have := make(map[string]bool, len(machines))
	for _, m := range machines {
		have[m.Name] = true
	}
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	batch := scaling.Batch(len(machines))
	for _, h := range hosts {
		there[h.Name] = true
		switch {
		case h.Holder != "":
			a.Problems = append(a.Problems, fmt.Sprintf("%s %s has the label of the pool, and belongs to %s: remove the label, or that owner", kind, h.Name, h.Holder))
		case !have[h.Name] && !h.Going && len(a.Create) < batch:
			a.Create = append(a.Create, h.Name)
		}
	}
	for _, m := range machines {
		if m.DeletionTimestamp.IsZero() && !there[m.Name] && len(a.Delete) < batch {
			a.Delete = append(a.Delete, m)
		}
	}
	return a
}
