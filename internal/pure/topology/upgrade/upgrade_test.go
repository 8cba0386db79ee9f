// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAnUpgradeOverThreeMinors tells of an upgrade in which each hook blocks once.
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
		// What was begun is done by now.
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
