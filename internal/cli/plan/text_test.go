// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

func after(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// changed is a Cluster with a Machine of each action.
var changed = planv1.Cluster{
	Namespace: "ns", Name: "demo", Takes: metav1.Duration{Duration: 90 * time.Second},
	Groups: []planv1.Group{
		{Owner: "KubeadmControlPlane cp", ControlPlane: true, Before: 1, Then: 1, AvailableBefore: 1, FewestAvailable: 1, MostDeleting: 1},
		{Owner: "MachineDeployment md", Before: 3, Then: 4, AvailableBefore: 3, FewestAvailable: 2, MostDeleting: 1},
		{Owner: "MachineDeployment other", Before: 1, Then: 1, AvailableBefore: 1, FewestAvailable: 1},
	},
	Machines: []planv1.Machine{
		{Name: "cp-a", Owner: "KubeadmControlPlane cp", Action: planv1.Replaced, By: "cp-1", Wave: 1, After: after(0), Cause: "Version v1.35.0,\nv1.36.0 required"},
		{Name: "md-a", Owner: "MachineDeployment md", Action: planv1.Deleted, Wave: 2, After: after(time.Hour)},
		{Name: "md-1", Owner: "MachineDeployment md", Action: planv1.Created, After: after(61 * time.Second)},
		{Name: "md-b", Owner: "MachineDeployment md", Action: planv1.Changed, Fields: []planv1.Field{{Path: "a", From: "1", To: "2"}, {Path: "b", To: "3"}, {Path: "c", From: "4"}, {Path: "d"}}},
		{Name: "md-c", Owner: "MachineDeployment md", Action: planv1.Kept},
		{Name: "md-2", Owner: "MachineDeployment md", Action: planv1.Transient, After: after(0)},
		{Name: "other-a", Owner: "MachineDeployment other", Action: planv1.Kept},
	},
	Hooks:    []planv1.Hook{{Hook: "BeforeClusterUpgrade", Handler: "a", After: metav1.Duration{Duration: 2 * time.Minute}}},
	Blocked:  []planv1.Blocked{{Kind: "Machine", Name: "m", Type: "Deleting", Reason: "R", Message: "* waits\n  for x"}},
	Unending: &planv1.Unending{Period: metav1.Duration{Duration: 2 * time.Minute}, Machines: 3},
	Objects:  []planv1.Object{{Kind: "MachineSet", Name: "s", Action: planv1.Changed, Fields: []planv1.Field{{Path: "spec.replicas", From: "1", To: "2"}}}},
}

func TestShowDescribesAPlan(t *testing.T) {
	t.Parallel()
	const start = `Cluster ns/demo
  KubeadmControlPlane cp: 1 machines; at least 1 of 1 available, at most 1 deleted at once
    ± cp-a is replaced by cp-1, wave 1 after 0s: Version v1.35.0, v1.36.0 required
  MachineDeployment md: 3 machines, then 4; at least 2 of 3 available, at most 1 deleted at once
    - md-a is deleted, wave 2 after 1h
    + md-1 is created after 1m1s
    ~ md-b is changed in place
        a: 1 → 2
        b: 3
        c: 4 is removed
        d
`
	for name, tc := range map[string]struct {
		plan    planv1.Plan
		details bool
		want    string
	}{
		"no Cluster": {plan: planv1.Plan{Assumptions: []string{"x"}}, want: "Note: x\nThe change reaches no Cluster.\n"},
		"each action": {
			plan: planv1.Plan{Clusters: []planv1.Cluster{changed}, Assumptions: []string{"Machines boot in 1s."}, Summary: planv1.Summary{Kept: 2, Changed: 1, Replaced: 1, Deleted: 1, Created: 1, Transient: 1}},
			want: start + `    ± md-2 is created and deleted again
  hook after 2m: BeforeClusterUpgrade a
  blocked: Machine m, Deleting: * waits for x
  never ends: about 3 machines are replaced every 2m
  takes 1m30s
Note: Machines boot in 1s.
Machines: 2 kept, 1 changed in place, 1 replaced, 1 deleted, 1 created, 1 created and deleted again
`,
		},
		"details": {
			plan: planv1.Plan{Clusters: []planv1.Cluster{changed}}, details: true,
			want: start + `      md-c is kept
    ± md-2 is created and deleted again
  MachineDeployment other: 1 machines
      other-a is kept
  hook after 2m: BeforeClusterUpgrade a
  blocked: Machine m, Deleting: * waits for x
  never ends: about 3 machines are replaced every 2m
  writes: MachineSet s changed
      spec.replicas: 1 → 2
  takes 1m30s
Machines: 0 kept, 0 changed in place, 0 replaced, 0 deleted, 0 created
`,
		},
		"not predicted": {
			plan: planv1.Plan{
				Summary: planv1.Summary{NotPredicted: 2},
				Clusters: []planv1.Cluster{{Namespace: "ns", Name: "a", Machines: []planv1.Machine{{Name: "m", Owner: "MachineDeployment md"}}, NotPredicted: &planv1.NotPredicted{
					Reason: planv1.NotAtRest, Message: "It changes.", Objects: changed.Objects,
				}}},
			},
			want: `Cluster ns/a
  not predicted (NotAtRest): It changes.
  moves: MachineSet s changed
      spec.replicas: 1 → 2
Machines: 0 kept, 0 changed in place, 0 replaced, 0 deleted, 0 created, 2 not predicted
`,
		},
		"pools": {
			plan: planv1.Plan{Summary: planv1.Summary{NotPredicted: 1}, Clusters: []planv1.Cluster{{
				Namespace: "ns", Name: "a", Groups: []planv1.Group{{Owner: "MachinePool p", Before: 1, Then: 1}},
				Machines: []planv1.Machine{{Name: "m", Owner: "MachinePool p"}},
				Pools: []planv1.Pool{
					{Name: "p", Before: 1, Then: 1, Fields: []planv1.Field{{Path: "spec.x", From: "1", To: "2"}}, NotPredicted: "its provider decides"},
					{Name: "q", Before: 1, Then: 3},
				},
			}}},
			want: `Cluster ns/a
  MachinePool p: 1 machines
    ? m is not predicted
  MachinePool p: 1 replicas; not predicted: its provider decides
        spec.x: 1 → 2
  MachinePool q: 1 replicas, then 3
Machines: 0 kept, 0 changed in place, 0 replaced, 0 deleted, 0 created, 1 not predicted
`,
		},
		"the guard of a large plan": {
			plan: planv1.Plan{Clusters: []planv1.Cluster{{
				Namespace: "ns", Name: "a", Groups: []planv1.Group{{Owner: "MachineDeployment md", Before: 2, Then: 2, AvailableBefore: 2, FewestAvailable: 1, MostDeleting: 1}},
				Machines: []planv1.Machine{
					{Name: "m", Owner: "MachineDeployment md", Action: planv1.Replaced, Wave: 1}, {Name: "n", Owner: "MachineDeployment md", Action: planv1.Deleted, Wave: 2},
					{Name: "1", Owner: "MachineDeployment md", Action: planv1.Created}, {Name: "x", Owner: "MachineDeployment md", Action: "Vanished"},
				},
			}}},
			want: `Cluster ns/a
  MachineDeployment md: 2 machines; at least 1 of 2 available, at most 1 deleted at once
    ± m is replaced by another one, wave 1 after 0s
    - n is deleted, wave 2 after 0s
    + 1 is created after 0s
     x
Machines: 0 kept, 0 changed in place, 0 replaced, 0 deleted, 0 created
`,
		},
		"an escape sequence of a user": {
			plan: planv1.Plan{Clusters: []planv1.Cluster{{Namespace: "ns", Name: "a", NotPredicted: &planv1.NotPredicted{Reason: "R", Message: "\x1b[2J\nMachines: 0 kept"}}}},
			want: "Cluster ns/a\n  not predicted (R): \\x1b[2J Machines: 0 kept\nMachines: 0 kept, 0 changed in place, 0 replaced, 0 deleted, 0 created\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			show(&command.Env{Out: &out}, &tc.plan, tc.details)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
