// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBuildShowsEachMachineOnce, with owners that are missing, that own themselves or each
// other, and that are several.
func TestBuildShowsEachMachineOnce(t *testing.T) {
	t.Parallel()
	set := func(name, owner string) Object {
		return Object{Kind: "MachineSet", Name: name, Owners: owned("MachineSet", owner)}
	}
	in := Input{
		Cluster: Object{Kind: "Cluster", Name: "c", Owners: owned("Cluster", "c")}, ControlPlane: &Object{Kind: "Plane", Name: "cp", Owners: owned("Machine", "m1")},
		MachineDeployments: []Object{{Kind: "MachineDeployment", Name: "w2"}, {Kind: "MachineDeployment", Name: "w1"}},
		MachineSets:        []Object{set("s1", "s2"), set("s2", "s1"), {Kind: "MachineSet", Name: "lost", Owners: owned("MachineDeployment", "gone")}},
		MachinePools:       []Machine{{Object: Object{Kind: "MachinePool", Name: "p"}}},
		Machines: []Machine{
			machine("m5", owned("MachinePool", "p"), "True"), machine("m4", owned("MachineSet", "lost"), "True"), machine("m3", owned("Machine", "m3"), "True"),
			machine("m2", append(owned("Plane", "cp"), owned("MachineSet", "s1")...), "True"), machine("m1", owned("MachineSet", "s2"), "True"),
		},
	}
	want := []string{
		"Cluster/c", "  Plane/cp", "    Machine/m2", "  Workers", "    MachineDeployment/w1", "    MachineDeployment/w2", "    MachinePool/p", "      Machine/m5",
		"  Other", "    MachineSet/s1", "    MachineSet/s2", "      Machine/m1", "    Machine/m3", "    Machine/m4",
	}
	for range 2 { // for another order of the objects, too
		if diff := cmp.Diff(want, rows(Build(in, Options{}), "")); diff != "" {
			t.Errorf("tree (-want +got):\n%s", diff)
		}
		slices.Reverse(in.Machines)
		slices.Reverse(in.MachineSets)
		slices.Reverse(in.MachineDeployments)
	}
}

func TestBuildShowsPartsThatReportMoreThanTheirMachine(t *testing.T) {
	t.Parallel()
	part := func(kind string, conditions ...metav1.Condition) *Object {
		return &Object{Kind: kind, Name: "x", Conditions: conditions}
	}
	is := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
	}
	for name, tc := range map[string]struct {
		machine, part *Object
		echo          bool
		want          bool
	}{
		"one that is ready":             {part("Machine", is("Ready", "False", "R")), part("Host", is("Ready", "True", "R")), false, false},
		"one with the same reason":      {part("Machine", is("Ready", "False", "R")), part("Host", is("Ready", "False", "R")), false, false},
		"one with another reason":       {part("Machine", is("Ready", "False", "R")), part("Host", is("Ready", "False", "S")), false, true},
		"one with another status":       {part("Machine", is("Ready", "False", "R")), part("Host", is("Ready", "Unknown", "R")), false, true},
		"one of a silent machine":       {part("Machine"), part("Host", is("Ready", "False", "R")), false, true},
		"one without the condition":     {part("Machine", is("Ready", "False", "R")), part("Host", is("Other", "False", "S")), false, false},
		"a ready one that is requested": {part("Machine", is("Ready", "True", "R")), part("Host", is("Ready", "True", "R")), true, true},
	} {
		m := Machine{Object: *tc.machine, Infrastructure: tc.part, Bootstrap: tc.part}
		got := Build(Input{Cluster: Object{Kind: "Cluster", Name: "c"}, Machines: []Machine{m}}, Options{Echo: tc.echo}).Children[0].Children[0]
		var roles []string
		for _, child := range got.Children {
			roles = append(roles, child.Role)
		}
		want := map[bool][]string{true: {"MachineInfrastructure", "BootstrapConfig"}}[tc.want]
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Errorf("%s: parts (-want +got):\n%s", name, diff)
		}
	}
}

func TestGroupsHaveMachinesThatReportTheSame(t *testing.T) {
	t.Parallel()
	with := func(name string, change func(*Object)) Machine {
		m := machine(name, owned("MachineSet", "s-"+name[:1]), "True")
		change(&m.Object)
		return m
	}
	same := func(*Object) {}
	machines := []Machine{
		with("a1", same), with("a2", same), with("b1", same), with("a3", func(o *Object) { o.Version = "v1.37.0" }), with("a4", func(o *Object) { o.Paused = true }),
		with("b2", func(o *Object) { o.Deleted = new(metav1.Now()) }), with("b3", func(o *Object) { o.Conditions[0].Reason = "Other" }), with("b4", func(o *Object) { o.Labels = map[string]string{"x": "y"} }),
		with("b5", func(o *Object) { o.Conditions[0].Message = "only a text" }),
	}
	broken := with("b6", same)
	broken.Infrastructure = &Object{Kind: "Host", Name: "b6", Conditions: []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Lost"}}}
	in := Input{
		Cluster: Object{Kind: "Cluster", Name: "c"}, MachineDeployments: []Object{{Kind: "MachineDeployment", Name: "w"}}, Machines: append(machines, broken),
		MachineSets: []Object{{Kind: "MachineSet", Name: "s-a", Owners: owned("MachineDeployment", "w")}, {Kind: "MachineSet", Name: "s-b", Owners: owned("MachineDeployment", "w")}},
	}
	group := func(o Options) (got []string) {
		o.Grouping = true
		for _, row := range Build(in, o).Children[0].Children[0].Children {
			got = append(got, row.Title+": "+strings.Join(row.Members, " "))
		}
		return got
	}
	want := []string{"5 Machines...: a1 a2 b1 b4 b5", "Machine/a3: a3", "Machine/a4: a4", "Machine/b2: b2", "Machine/b3: b3", "Machine/b6: "}
	if diff := cmp.Diff(want, group(Options{})); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	want = []string{"4 Machines...: a1 b1 b4 b5", "Machine/a2: ", "Machine/a3: a3", "Machine/a4: a4", "Machine/b2: b2", "Machine/b3: b3", "Machine/b6: "}
	if diff := cmp.Diff(want, group(Options{Alone: func(o *Object) bool { return o.Name == "a2" }})); diff != "" {
		t.Errorf("with one that stays alone (-want +got):\n%s", diff)
	}
}

func TestInputObjectsAreAllButThoseThatAreMissing(t *testing.T) {
	t.Parallel()
	of := func(name string) Object { return Object{Name: name} }
	in := Input{
		Cluster: of("cluster"), Infrastructure: new(of("infrastructure")), MachineDeployments: []Object{of("md")}, MachineSets: []Object{of("ms")},
		MachinePools: []Machine{{Object: of("pool"), Bootstrap: new(of("config of the pool"))}}, ResourceSets: []Object{of("crs")}, HealthChecks: []Object{of("mhc")},
		Machines: []Machine{{Object: of("m"), Infrastructure: new(of("host"))}}, Templates: map[string][]Object{"x": {of("template")}},
	}
	var got []string
	for _, o := range in.Objects() {
		got = append(got, o.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"cluster", "config of the pool", "crs", "host", "infrastructure", "m", "md", "mhc", "ms", "pool", "template"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
