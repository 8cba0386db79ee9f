// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func owned(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: name}}
}

func machine(name string, owners []metav1.OwnerReference, ready metav1.ConditionStatus) Machine {
	return Machine{Object: Object{Kind: "Machine", Name: name, Owners: owners, Conditions: []metav1.Condition{{Type: "Ready", Status: ready, Reason: "R"}}}}
}

// rows writes a tree as indented titles.
func rows(n *Node, indent string) []string {
	out := []string{indent + n.Title}
	for _, c := range n.Children {
		out = append(out, rows(c, indent+"  ")...)
	}
	return out
}

func TestBuild(t *testing.T) {
	cp := &Object{Kind: "ControlPlane", Name: "cp"}
	in := func(machines ...Machine) Input {
		return Input{
			Cluster: Object{Kind: "Cluster", Name: "c"}, ControlPlane: cp,
			MachineDeployments: []Object{{Kind: "MachineDeployment", Name: "w", UID: "w"}},
			MachineSets:        []Object{{Kind: "MachineSet", Name: "w-1", Owners: owned("MachineDeployment", "w")}, {Kind: "MachineSet", Name: "alone"}},
			Machines:           machines,
			Templates:          map[string][]Object{"w": {{Kind: "HostTemplate", Name: "t"}}},
		}
	}
	ofClass := in()
	ofClass.Class = &Object{Kind: "ClusterClass", Name: "x", UID: "x"}
	ofClass.Templates = map[string][]Object{"x": {{Kind: "HostsTemplate", Name: "h"}, {Kind: "PlaneTemplate", Name: "p"}}}
	base := []string{"Cluster/c", "  ControlPlane/cp", "  Workers", "    MachineDeployment/w", "  Other", "    MachineSet/alone"}
	tests := map[string]struct {
		in   Input
		o    Options
		want []string
	}{
		"without machines": {in(), Options{}, base},
		"machines that say the same share a row": {
			in(machine("a", owned("ControlPlane", "cp"), "True"), machine("b", owned("ControlPlane", "cp"), "True"), machine("x", owned("ControlPlane", "cp"), "False")),
			Options{Grouping: true},
			[]string{"Cluster/c", "  ControlPlane/cp", "    2 Machines...", "    Machine/x", "  Workers", "    MachineDeployment/w", "  Other", "    MachineSet/alone"},
		},
		"sets and templates on demand": {
			in(machine("a", owned("MachineSet", "w-1"), "True")), Options{ShowMachineSets: true, ShowTemplates: true},
			[]string{"Cluster/c", "  ControlPlane/cp", "  Workers", "    MachineDeployment/w", "      HostTemplate/t", "      MachineSet/w-1", "        Machine/a", "  Other", "    MachineSet/alone"},
		},
		"a class": {ofClass, Options{}, append([]string{"Cluster/c", "  ClusterClass/x"}, base[1:]...)},
		"a class with its templates": {ofClass, Options{ShowTemplates: true},
			append([]string{"Cluster/c", "  ClusterClass/x", "    HostsTemplate/h", "    PlaneTemplate/p"}, base[1:]...)},
		"a machine without owner": {in(machine("a", nil, "True")), Options{}, append(base[:len(base):len(base)], "    Machine/a")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rows(Build(tc.in, tc.o), "")); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

// BenchmarkBuild arranges a cluster of 1,000 workers in ten deployments.
func BenchmarkBuild(b *testing.B) {
	var in Input
	in.Cluster = Object{Kind: "Cluster", Name: "c"}
	for d := range 10 {
		deployment, set := fmt.Sprintf("d%d", d), fmt.Sprintf("d%d-1", d)
		in.MachineDeployments = append(in.MachineDeployments, Object{Kind: "MachineDeployment", Name: deployment})
		in.MachineSets = append(in.MachineSets, Object{Kind: "MachineSet", Name: set, Owners: owned("MachineDeployment", deployment)})
		for m := range 100 {
			in.Machines = append(in.Machines, machine(fmt.Sprintf("%s-%d", set, m), owned("MachineSet", set), "True"))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		Build(in, Options{Grouping: true})
	}
}
