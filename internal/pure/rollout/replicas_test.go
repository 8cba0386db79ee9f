// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestPlanWithoutReplicasKeepsMachines has objects that were stored while no webhook set
// spec.replicas: that a number is missing is no wish for zero Machines.
func TestPlanWithoutReplicasKeepsMachines(t *testing.T) {
	t.Parallel()
	unset := func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = nil }
	rolling := func(md *clusterv1.MachineDeployment) []Set {
		return []Set{set(md, "old", "v1", 2, 2, 2), set(md, "new", "v2", 1, 1, 1)}
	}
	unscaled := func(version string) func(*clusterv1.MachineDeployment) []Set {
		return func(md *clusterv1.MachineDeployment) []Set {
			s := set(md, "old", version, 3, 3, 3)
			s.Spec.Replicas = nil
			return []Set{s}
		}
	}
	testPlan(t, map[string]planCase{
		"of the MachineDeployment":                     {md: deployment(3, unset), sets: rolling},
		"of the MachineDeployment, which has no set":   {md: deployment(3, unset)},
		"of the MachineDeployment, paused":             {md: deployment(3, unset, paused), sets: rolling},
		"of the MachineDeployment, with OnDelete":      {md: deployment(3, unset, onDelete), sets: rolling},
		"of the MachineDeployment, without a template": {md: deployment(3, unset), sets: rolling, blocked: []string{"no template"}},
		"of the current MachineSet":                    {md: deployment(3), sets: unscaled("v2"), want: []string{"update old: bring in what changed in place"}},
		"of another MachineSet": {
			md: deployment(3), sets: unscaled("v1"),
			want: []string{"update old: bring in what changed in place", "create md-n1 with 1 replicas: no MachineSet matches the template"},
		},
		"of a MachineSet, with OnDelete": {
			md: deployment(3, onDelete), sets: unscaled("v1"),
			want: []string{"update old: bring in what changed in place", "create md-n1 with 0 replicas: no MachineSet matches the template"},
		},
	})
}

func TestPlanAllowsMoreUnavailableThanWanted(t *testing.T) {
	t.Parallel()
	testPlan(t, map[string]planCase{
		"by a number": {
			md: deployment(2, pace("0", "5")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 2, 2, 2), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"scale down old from 2 to 0: 2 available, at least 0 required"},
		},
	})
}
