// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cluster is at v1.33.0 with two MachineDeployments and a MachinePool, and has
// nothing to do.
func cluster(change ...func(*Facts)) Facts {
	group := func(kind, name string) Group {
		return Group{Kind: kind, Name: name, Object: "c-" + name, Wanted: true, Exists: true, Version: "v1.33.0"}
	}
	f := Facts{
		Target: "v1.33.0", Initialized: true, Concurrency: 1,
		ControlPlane: ControlPlane{Kind: "Plane", Exists: true, Version: "v1.33.0", Reported: "v1.33.0"},
		Workers:      []Group{group(MachineDeployment, "a"), group(MachineDeployment, "b"), group(MachinePool, "p")},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// Changes of facts.
func to(version string) func(*Facts)   { return func(f *Facts) { f.Target = version } }
func step(version string) func(*Facts) { return func(f *Facts) { f.Step = version } }
func pending(hooks string) func(*Facts) {
	return func(f *Facts) { f.Pending = strings.Fields(hooks) }
}
func listing(versions string) func(*Facts) {
	return func(f *Facts) { f.Versions = strings.Fields(versions) }
}
func plane(version string) func(*Facts) {
	return func(f *Facts) { f.ControlPlane.Version, f.ControlPlane.Reported = version, version }
}
func group(i int, change func(*Group)) func(*Facts) {
	return func(f *Facts) { change(&f.Workers[i]) }
}
func at(version string) func(*Group) { return func(g *Group) { g.Version = version } }
func workers(version string) func(*Facts) {
	return func(f *Facts) {
		for i := range f.Workers {
			f.Workers[i].Version = version
		}
	}
}
func creating(f *Facts) {
	f.Creating, f.Initialized, f.ControlPlane = true, false, ControlPlane{Kind: "Plane"}
	for i, g := range f.Workers {
		f.Workers[i] = Group{Kind: g.Kind, Name: g.Name, Wanted: true}
	}
}
func moving(f *Facts)       { f.ControlPlane.Upgrading, f.ControlPlane.Reported = true, "v1.32.0" }
func provisioning(f *Facts) { f.ControlPlane.Reported, f.Initialized = "", false }
func annotated(names ...string) func(*Facts) {
	return func(f *Facts) { f.Annotations = names }
}
func upgrading(g *Group) { g.Upgrading = true }
func deferred(g *Group)  { g.Deferred = true }
func held(g *Group)      { g.Held = true }
func absent(g *Group)    { g.Exists, g.Object, g.Version = false, "", "" }
func unwanted(g *Group)  { g.Wanted = false }
func both(f *Facts)      { f.Concurrency = 2 }
func extension(f *Facts) { f.PlanExtension = "plan.example" }

// words formats a plan: the control plane, the groups, the values to store, the blocking
// hooks.
func words(f Facts, p Plan) string {
	if p.Wait {
		return fmt.Sprint("wait", p.Blocking, " ", p.RetryAfter)
	}
	out := fmt.Sprintf("%s %s", p.ControlPlane.Version, p.ControlPlane.State)
	for _, g := range f.Workers {
		if d, ok := p.Workers[g.Key()]; ok {
			out += fmt.Sprintf(", %s %s %s", g.Name, d.Version, d.State)
		}
	}
	if len(p.Pending) > 0 {
		out += fmt.Sprintf("; %s", strings.Join(p.Pending, ","))
	}
	if p.Step != "" {
		out += "; step " + p.Step
	}
	for _, b := range p.Blocking {
		out += fmt.Sprintf("; %s blocks: %s", b.Hook, b.Message)
	}
	if p.RetryAfter > 0 {
		out += "; again after " + p.RetryAfter.String()
	}
	return out
}

// TestAnUpgradeOverThreeMinors is the story of an upgrade in which each hook blocks
// once.
func TestAnUpgradeOverThreeMinors(t *testing.T) {
	t.Parallel()
	f := Facts{
		Target: "v1.34.0", Concurrency: 1, Versions: strings.Fields("v1.31.0 v1.32.0 v1.33.0 v1.34.0"),
		ControlPlane: ControlPlane{Kind: "Plane", Exists: true, Version: "v1.31.0", Reported: "v1.31.0"},
		Workers: []Group{
			{Kind: MachineDeployment, Name: "a", Object: "c-a", Wanted: true, Exists: true, Version: "v1.31.0"},
			{Kind: MachineDeployment, Name: "b", Object: "c-b", Wanted: true, Exists: true, Version: "v1.31.0"},
		},
	}
	var story []string
	told := func(format string, args ...any) { story = append(story, fmt.Sprintf(format, args...)) }
	blocked := map[Question]bool{}
	for range 100 {
		// Steps that were started are complete by now.
		f.ControlPlane.Reported, f.ControlPlane.Upgrading = f.ControlPlane.Version, false
		for i := range f.Workers {
			f.Workers[i].Upgrading = false
		}
		r, err := Planner.Make(f, func(q Question) (Answer, error) {
			blocks := !blocked[q]
			blocked[q] = true
			told("%s %s %s, ahead: %s; %s, blocks: %v", q.Hook, q.From, q.To, q.ControlPlaneUpgrades, q.WorkersUpgrades, blocks)
			if blocks {
				return Answer{RetryAfter: time.Second}, nil
			}
			return Answer{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Plan
		if !cmp.Equal(p.Pending, f.Pending) || p.Step != f.Step {
			told("store %s, step %q", strings.Join(p.Pending, ","), p.Step)
			f.Pending, f.Step = p.Pending, p.Step
		}
		if v := p.ControlPlane.Version; v != f.ControlPlane.Version {
			told("control plane to %s", v)
			f.ControlPlane.Version, f.ControlPlane.Upgrading = v, true
		}
		for i, g := range f.Workers {
			if d := p.Workers[g.Key()]; d.Version != g.Version {
				told("%s to %s", g.Object, d.Version)
				f.Workers[i].Version, f.Workers[i].Upgrading = d.Version, true
			}
		}
		if f.Step == "" && p.ControlPlane.Version == f.Target && len(p.Blocking) == 0 {
			break
		}
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(overThreeMinors), "\n"), story); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const overThreeMinors = `
BeforeClusterUpgrade v1.31.0 v1.34.0, ahead: v1.32.0,v1.33.0,v1.34.0; v1.34.0, blocks: true
BeforeClusterUpgrade v1.31.0 v1.34.0, ahead: v1.32.0,v1.33.0,v1.34.0; v1.34.0, blocks: false
BeforeControlPlaneUpgrade v1.31.0 v1.32.0, ahead: v1.32.0,v1.33.0,v1.34.0; v1.34.0, blocks: true
store , step "v1.31.0"
BeforeControlPlaneUpgrade v1.31.0 v1.32.0, ahead: v1.32.0,v1.33.0,v1.34.0; v1.34.0, blocks: false
store AfterControlPlaneUpgrade, step "v1.32.0"
control plane to v1.32.0
AfterControlPlaneUpgrade  v1.32.0, ahead: v1.33.0,v1.34.0; v1.34.0, blocks: true
store AfterClusterUpgrade,AfterControlPlaneUpgrade, step "v1.32.0"
AfterControlPlaneUpgrade  v1.32.0, ahead: v1.33.0,v1.34.0; v1.34.0, blocks: false
BeforeControlPlaneUpgrade v1.32.0 v1.33.0, ahead: v1.33.0,v1.34.0; v1.34.0, blocks: true
store AfterClusterUpgrade, step "v1.32.0"
BeforeControlPlaneUpgrade v1.32.0 v1.33.0, ahead: v1.33.0,v1.34.0; v1.34.0, blocks: false
store AfterClusterUpgrade,AfterControlPlaneUpgrade, step "v1.33.0"
control plane to v1.33.0
AfterControlPlaneUpgrade  v1.33.0, ahead: v1.34.0; v1.34.0, blocks: true
AfterControlPlaneUpgrade  v1.33.0, ahead: v1.34.0; v1.34.0, blocks: false
BeforeControlPlaneUpgrade v1.33.0 v1.34.0, ahead: v1.34.0; v1.34.0, blocks: true
store AfterClusterUpgrade, step "v1.33.0"
BeforeControlPlaneUpgrade v1.33.0 v1.34.0, ahead: v1.34.0; v1.34.0, blocks: false
store AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade, step "v1.34.0"
control plane to v1.34.0
AfterControlPlaneUpgrade  v1.34.0, ahead: ; v1.34.0, blocks: true
AfterControlPlaneUpgrade  v1.34.0, ahead: ; v1.34.0, blocks: false
BeforeWorkersUpgrade v1.31.0 v1.34.0, ahead: ; v1.34.0, blocks: true
store AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade, step "v1.34.0"
BeforeWorkersUpgrade v1.31.0 v1.34.0, ahead: ; v1.34.0, blocks: false
store AfterClusterUpgrade,AfterWorkersUpgrade, step "v1.34.0"
c-a to v1.34.0
c-b to v1.34.0
AfterWorkersUpgrade  v1.34.0, ahead: ; , blocks: true
AfterWorkersUpgrade  v1.34.0, ahead: ; , blocks: false
AfterClusterUpgrade  v1.34.0, ahead: ; , blocks: true
store AfterClusterUpgrade, step "v1.34.0"
AfterClusterUpgrade  v1.34.0, ahead: ; , blocks: false
store , step ""
`
