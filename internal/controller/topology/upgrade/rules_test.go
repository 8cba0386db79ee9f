// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	t.Parallel()
	const (
		here  = "v1.33.0 Current, a v1.33.0 Current, b v1.33.0 Current, p v1.33.0 Current"
		there = "v1.34.0 Current, a v1.34.0 Current, b v1.34.0 Current, p v1.34.0 Current"
		waits = "v1.33.0 PendingUpgrade, a v1.33.0 PendingUpgrade, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade"
	)
	for name, tc := range map[string]struct {
		facts  Facts
		blocks string // this hook
		want   string
	}{
		"rest": {facts: cluster(), want: here},

		"a creation":             {facts: cluster(creating), want: here + "; AfterControlPlaneInitialized; asks BeforeClusterCreate"},
		"a creation that waits":  {facts: cluster(creating), blocks: BeforeClusterCreate, want: "wait[{BeforeClusterCreate because}] 10s; asks BeforeClusterCreate"},
		"a creation continues":   {facts: cluster(creating, func(f *Facts) { f.Creating = false }), want: here},
		"groups next to a start": {facts: cluster(provisioning, group(0, absent), pending("AfterControlPlaneInitialized")), want: here + "; AfterControlPlaneInitialized"},
		"a start":                {facts: cluster(pending("AfterControlPlaneInitialized x")), want: here + "; x; asks AfterControlPlaneInitialized"},
		"a start never blocks":   {facts: cluster(pending("AfterControlPlaneInitialized")), blocks: AfterControlPlaneInitialized, want: here + "; asks AfterControlPlaneInitialized"},
		"a new target meanwhile": {facts: cluster(provisioning, to("v1.34.0"), group(0, absent)), want: "v1.33.0 Current, a v1.34.0 PendingCreation, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade"},

		"an upgrade is held": {facts: cluster(to("v1.34.0")), blocks: BeforeClusterUpgrade, want: waits + "; BeforeClusterUpgrade blocks: because; again after 10s; asks BeforeClusterUpgrade v1.33.0 to v1.34.0"},
		"by an annotation":   {facts: cluster(to("v1.34.0"), annotated("x")), want: waits + "; BeforeClusterUpgrade blocks: annotation x is set"},
		"by annotations":     {facts: cluster(to("v1.34.0"), annotated("x", "y")), want: waits + "; BeforeClusterUpgrade blocks: annotations x, y are set"},
		"an upgrade begins": {facts: cluster(to("v1.34.0")), blocks: BeforeControlPlaneUpgrade,
			want: waits + "; step v1.33.0; BeforeControlPlaneUpgrade blocks: because; again after 10s; asks BeforeClusterUpgrade v1.33.0 to v1.34.0, BeforeControlPlaneUpgrade v1.33.0 to v1.34.0"},
		"annotations come too late": {facts: cluster(to("v1.34.0"), step("v1.33.0"), annotated("x")), blocks: BeforeControlPlaneUpgrade,
			want: waits + "; step v1.33.0; BeforeControlPlaneUpgrade blocks: because; again after 10s; asks BeforeControlPlaneUpgrade v1.33.0 to v1.34.0"},
		"it ends before it began": {facts: cluster(step("v1.33.0")), want: here},
		"a step": {facts: cluster(to("v1.34.0"), step("v1.33.0")),
			want: "v1.34.0 Upgrade, a v1.33.0 PendingUpgrade, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade; step v1.34.0; asks BeforeControlPlaneUpgrade v1.33.0 to v1.34.0"},
		"a step without workers": {facts: cluster(to("v1.34.0"), step("v1.33.0"), func(f *Facts) { f.Workers = nil }),
			want: "v1.34.0 Upgrade; AfterControlPlaneUpgrade; step v1.34.0; asks BeforeControlPlaneUpgrade v1.33.0 to v1.34.0"},
		"a step that was stored, and not taken": {facts: cluster(to("v1.34.0"), step("v1.34.0"), pending("AfterControlPlaneUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade")), blocks: BeforeControlPlaneUpgrade,
			want: waits + "; step v1.33.0; BeforeControlPlaneUpgrade blocks: because; again after 10s; asks BeforeControlPlaneUpgrade v1.33.0 to v1.34.0"},
		"a step not taken, and the way back":             {facts: cluster(step("v1.34.0"), pending("AfterControlPlaneUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade")), want: here},
		"a later step not taken, and the way back":       {facts: cluster(step("v1.34.0"), pending("AfterClusterUpgrade AfterControlPlaneUpgrade")), want: here + "; asks AfterClusterUpgrade to v1.33.0"},
		"a step that upstream took before it is noted":   {facts: cluster(step("v1.32.0"), pending("AfterClusterUpgrade AfterControlPlaneUpgrade")), want: here + "; asks AfterControlPlaneUpgrade to v1.33.0, AfterClusterUpgrade to v1.33.0"},
		"a scaling group of new machines does not count": {facts: cluster(to("v1.34.0"), func(f *Facts) { f.Workers = f.Workers[:1] }, group(0, absent)), blocks: BeforeClusterUpgrade, want: "v1.33.0 PendingUpgrade, a v1.34.0 PendingCreation; BeforeClusterUpgrade blocks: because; again after 10s; asks BeforeClusterUpgrade v1.33.0 to v1.34.0"},

		"a control plane on its way": {facts: cluster(plane("v1.34.0"), moving, to("v1.34.0"), step("v1.34.0"), pending("AfterControlPlaneUpgrade"), group(0, absent)),
			want: "v1.34.0 Current, a v1.34.0 PendingCreation, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; AfterClusterUpgrade,AfterControlPlaneUpgrade; step v1.34.0"},
		"it has come": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterControlPlaneUpgrade")), blocks: AfterControlPlaneUpgrade,
			want: "v1.34.0 Current, a v1.33.0 PendingUpgrade, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; AfterClusterUpgrade,AfterControlPlaneUpgrade; step v1.34.0; AfterControlPlaneUpgrade blocks: because; again after 10s; asks AfterControlPlaneUpgrade to v1.34.0"},
		"workers are held": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade"), group(0, absent)), blocks: BeforeWorkersUpgrade,
			want: "v1.34.0 Current, a v1.34.0 PendingCreation, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade; step v1.34.0; BeforeWorkersUpgrade blocks: because; again after 10s; asks BeforeWorkersUpgrade v1.33.0 to v1.34.0"},
		"workers go, one of a kind at a time": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade")),
			want: "v1.34.0 Current, a v1.34.0 Upgrade, b v1.33.0 PendingUpgrade, p v1.34.0 Upgrade; AfterClusterUpgrade,AfterWorkersUpgrade; step v1.34.0; asks BeforeWorkersUpgrade v1.33.0 to v1.34.0"},
		"or more":           {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), both), want: "v1.34.0 Current, a v1.34.0 Upgrade, b v1.34.0 Upgrade, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"one has gone":      {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, at("v1.34.0")), group(0, upgrading)), want: "v1.34.0 Current, a v1.34.0 Current, b v1.33.0 PendingUpgrade, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"one has come":      {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, at("v1.34.0"))), want: "v1.34.0 Current, a v1.34.0 Current, b v1.34.0 Upgrade, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"one is deferred":   {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, deferred)), want: "v1.34.0 Current, a v1.33.0 Deferred, b v1.34.0 Upgrade, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"the sequence is":   {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, held)), want: "v1.34.0 Current, a v1.33.0 Deferred, b v1.33.0 Deferred, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"by one that came":  {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, held), group(0, at("v1.34.0"))), want: "v1.34.0 Current, a v1.34.0 Current, b v1.33.0 Deferred, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"not by a later":    {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(1, held)), want: "v1.34.0 Current, a v1.34.0 Upgrade, b v1.33.0 Deferred, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"a new one is made": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, absent), group(1, deferred)), want: "v1.34.0 Current, a v1.34.0 Current, b v1.33.0 Deferred, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"one is to go":      {facts: cluster(plane("v1.34.0"), to("v1.34.0"), pending("AfterWorkersUpgrade"), group(0, unwanted), group(0, held)), want: "v1.34.0 Current, b v1.34.0 Upgrade, p v1.34.0 Upgrade; AfterWorkersUpgrade"},
		"all have come": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), workers("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterWorkersUpgrade")), blocks: AfterWorkersUpgrade,
			want: there + "; AfterClusterUpgrade,AfterWorkersUpgrade; step v1.34.0; AfterWorkersUpgrade blocks: because; again after 10s; asks AfterWorkersUpgrade to v1.34.0"},
		"all is done": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), workers("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade")), blocks: AfterClusterUpgrade,
			want: there + "; AfterClusterUpgrade; step v1.34.0; AfterClusterUpgrade blocks: because; again after 10s; asks AfterClusterUpgrade to v1.34.0"},
		"except a group": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), workers("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade"), group(2, upgrading)), want: there + "; AfterClusterUpgrade; step v1.34.0"},
		"for one that is to go": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), workers("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade"), group(2, upgrading), group(2, unwanted)),
			want: "v1.34.0 Current, a v1.34.0 Current, b v1.34.0 Current; AfterClusterUpgrade; step v1.34.0"},
		"it ends": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), workers("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade")), want: there + "; asks AfterClusterUpgrade to v1.34.0"},

		"workers keep a control plane back": {facts: cluster(plane("v1.36.0"), to("v1.37.0"), listing("v1.33.0 v1.36.0 v1.37.0"), step("v1.36.0"), pending("AfterClusterUpgrade AfterWorkersUpgrade"), group(0, deferred), group(1, at("v1.36.0"))),
			want: "v1.36.0 PendingUpgrade, a v1.33.0 Deferred, b v1.36.0 PendingUpgrade, p v1.36.0 Upgrade; AfterClusterUpgrade,AfterWorkersUpgrade; step v1.36.0"},
		"a step on its way stays as it is": {facts: cluster(plane("v1.34.0"), moving, to("v1.35.0"), listing("v1.33.0 v1.34.0 v1.35.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterControlPlaneUpgrade")),
			want: "v1.34.0 PendingUpgrade, a v1.33.0 PendingUpgrade, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; AfterClusterUpgrade,AfterControlPlaneUpgrade; step v1.34.0"},
		"one on its way there stays as it is": {facts: cluster(plane("v1.36.0"), to("v1.37.0"), listing("v1.33.0 v1.36.0 v1.37.0"), step("v1.36.0"), pending("AfterWorkersUpgrade"), group(0, at("v1.36.0")), group(0, upgrading)),
			want: "v1.36.0 PendingUpgrade, a v1.36.0 PendingUpgrade, b v1.33.0 PendingUpgrade, p v1.36.0 Upgrade; AfterWorkersUpgrade; step v1.36.0"},
		"back to a step on the way": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade")),
			want: "v1.34.0 Current, a v1.34.0 Upgrade, b v1.33.0 PendingUpgrade, p v1.34.0 Upgrade; AfterClusterUpgrade,AfterWorkersUpgrade; step v1.34.0; asks BeforeWorkersUpgrade v1.33.0 to v1.34.0"},
		"workers went away meanwhile": {facts: cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending("AfterClusterUpgrade AfterWorkersUpgrade BeforeWorkersUpgrade"), func(f *Facts) { f.Workers = nil }), want: "v1.34.0 Current; asks AfterClusterUpgrade to v1.34.0"},

		"too far":                   {facts: cluster(to("v1.35.0")), want: waits + "; cannot compute an upgrade plan from v1.33.0 to v1.35.0: list the versions on the way in spec.kubernetesVersions of the ClusterClass"},
		"an extension fails":        {facts: cluster(to("v1.35.0"), extension), want: waits + "; plan.example is down; asks GenerateUpgradePlan v1.33.0 to v1.35.0"},
		"a group past the target":   {facts: cluster(group(0, at("v1.34.0")), pending("AfterClusterUpgrade")), want: strings.Replace(here, "a v1.33.0", "a v1.34.0", 1) + "; asks AfterClusterUpgrade to v1.33.0"},
		"a group past the plane":    {facts: cluster(plane("v1.34.0"), to("v1.35.0"), group(0, at("v1.35.0")), step("v1.34.0")), blocks: BeforeControlPlaneUpgrade, want: "v1.34.0 PendingUpgrade, a v1.35.0 Current, b v1.33.0 PendingUpgrade, p v1.33.0 PendingUpgrade; step v1.34.0; BeforeControlPlaneUpgrade blocks: because; again after 10s; asks BeforeControlPlaneUpgrade v1.34.0 to v1.35.0"},
		"a version was taken away":  {facts: cluster(group(0, at(""))), want: here},
		"a version that is not one": {facts: cluster(group(0, at("latest"))), want: "v1.33.0 Current, a latest PendingUpgrade, b v1.33.0 Current, p v1.33.0 Current; MachineDeployment c-a: spec.template.spec.version: \"latest\" is no version such as v1.36.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			r, err := Planner.Make(tc.facts, func(q Question) (Answer, error) {
				text := q.Hook
				if q.From != "" {
					text += " " + q.From
				}
				if q.To != "" {
					text += " to " + q.To
				}
				asked = append(asked, text)
				switch q.Hook {
				case GenerateUpgradePlan:
					return Answer{}, errors.New("plan.example is down")
				case tc.blocks:
					return Answer{RetryAfter: 10 * time.Second, Message: "because"}, nil
				}
				return Answer{}, nil
			})
			got := words(tc.facts, r.Plan)
			if err != nil {
				got += "; " + err.Error()
			}
			if len(asked) > 0 {
				got += "; asks " + strings.Join(asked, ", ")
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestThePlanOfAnExtensionIsExamined(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]Answer{
		"[v1.34.0 v1.35.0] [v1.35.0] <nil>":         {ControlPlane: []string{"v1.34.0", "v1.35.0"}},
		"[v1.34.0 v1.35.0] [v1.34.0 v1.35.0] <nil>": {ControlPlane: []string{"v1.34.0", "v1.35.0"}, Workers: []string{"v1.34.0", "v1.35.0"}},
		"[] [] GenerateUpgradePlan of plan.example: control plane upgrade plan must end with version v1.35.0, ends with none instead":                          {},
		"[] [] GenerateUpgradePlan of plan.example: invalid ControlPlane upgrade plan: item 0; expecting a version with minor 33 or 34, found version v1.35.0": {ControlPlane: []string{"v1.35.0"}},
	} {
		f := cluster(to("v1.35.0"), extension, annotated("x"))
		r, err := Planner.Make(f, func(q Question) (Answer, error) {
			if q.FromWorkers != "v1.33.0" || q.From != "v1.33.0" || q.To != "v1.35.0" {
				t.Errorf("asked %+v", q)
			}
			return answer, nil
		})
		if got := fmt.Sprint(r.Plan.ControlPlaneUpgrades, " ", r.Plan.WorkersUpgrades, " ", err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestHooksComeInOrder checks the order of hooks, in whichever order they were marked,
// and that a plan has the same order each time.
func TestHooksComeInOrder(t *testing.T) {
	t.Parallel()
	all := []string{AfterControlPlaneUpgrade, BeforeWorkersUpgrade, AfterWorkersUpgrade, AfterClusterUpgrade}
	for range 20 {
		slices.Reverse(all)
		all = append(all[1:], all[0])
		var asked []string
		f := cluster(plane("v1.34.0"), to("v1.34.0"), step("v1.34.0"), pending(strings.Join(all, " ")))
		for range 4 {
			r, err := Planner.Make(f, func(q Question) (Answer, error) {
				asked = append(asked, q.Hook)
				return Answer{}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			f.Pending, f.Step = r.Plan.Pending, r.Plan.Step
			for i, g := range f.Workers {
				f.Workers[i].Version = r.Plan.Workers[g.Key()].Version
			}
		}
		want := "AfterControlPlaneUpgrade BeforeWorkersUpgrade AfterWorkersUpgrade AfterClusterUpgrade"
		if got := strings.Join(asked, " "); got != want || len(f.Pending) > 0 || f.Step != "" {
			t.Fatalf("asked %s, want %s; left %v, %q", got, want, f.Pending, f.Step)
		}
	}
}
