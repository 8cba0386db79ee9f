// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

func TestDifferencesNameMachinesAndOwners(t *testing.T) {
	t.Parallel()
	machine := func(name string, action planv1.Action, wave int) planv1.Machine {
		return planv1.Machine{Name: name, Owner: "MachineDeployment md", Action: action, Wave: wave}
	}
	cluster := func(fewest int, machines ...planv1.Machine) planv1.Cluster {
		return planv1.Cluster{Groups: []planv1.Group{{Owner: "MachineDeployment md", FewestAvailable: fewest}}, Machines: machines}
	}
	plan := cluster(2, machine("a", planv1.Replaced, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Kept, 0), machine("1", planv1.Created, 0))
	tests := map[string]struct {
		happened planv1.Cluster
		want     []string
	}{
		"as planned":     {cluster(2, machine("b", planv1.Replaced, 2), machine("a", planv1.Replaced, 1), machine("c", planv1.Kept, 0), machine("x", planv1.Created, 0)), nil},
		"more available": {cluster(3, machine("a", planv1.Replaced, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Kept, 0), machine("x", planv1.Created, 0)), nil},
		"a Machine that was to stay": {
			cluster(2, machine("a", planv1.Replaced, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Deleted, 3), machine("x", planv1.Created, 0)),
			[]string{"Machine c: kept in the plan, and gone"},
		},
		"fewer new Machines": {
			cluster(2, machine("a", planv1.Deleted, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Kept, 0), machine("x", planv1.Created, 0)),
			[]string{"MachineDeployment md: 3 new Machines in the plan, and 2"},
		},
		"another order": {
			cluster(2, machine("a", planv1.Replaced, 2), machine("b", planv1.Replaced, 1), machine("c", planv1.Kept, 0), machine("x", planv1.Created, 0)),
			[]string{"Machine a: next to be deleted in the plan, and it was b"},
		},
		"fewer available": {
			cluster(1, machine("a", planv1.Replaced, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Kept, 0), machine("x", planv1.Created, 0)),
			[]string{"MachineDeployment md: at least 2 Machines available in the plan, and 1"},
		},
		"a Machine of which the plan knows nothing": {
			cluster(2, machine("a", planv1.Replaced, 1), machine("b", planv1.Replaced, 2), machine("c", planv1.Kept, 0), machine("d", planv1.Kept, 0), machine("x", planv1.Created, 0)),
			[]string{"Machine d: unknown in the plan, and kept"},
		},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, Differences(ResultOf(plan), ResultOf(tc.happened))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestOrderWithinAWaveIsNoDifference deletes a and b in one wave, and then c.
func TestOrderWithinAWaveIsNoDifference(t *testing.T) {
	t.Parallel()
	result := func(names ...string) (r Result) {
		r.Fates = map[string]string{"a": "gone", "b": "gone", "c": "gone"}
		for _, name := range names {
			r.Order = append(r.Order, []string{name})
		}
		return r
	}
	predicted := result()
	predicted.Order = [][]string{{"a", "b"}, {"c"}}
	for order, want := range map[[3]string]string{
		{"a", "b", "c"}: "",
		{"b", "a", "c"}: "",
		{"b", "c", "a"}: "Machine a: next to be deleted in the plan, and it was c",
		{"c", "a", "b"}: "Machine b: next to be deleted in the plan, and it was c",
	} {
		got := Differences(predicted, result(order[:]...))
		if (want == "") != (len(got) == 0) || want != "" && got[0] != want {
			t.Errorf("%v: %q, want %q", order, got, want)
		}
	}
}
