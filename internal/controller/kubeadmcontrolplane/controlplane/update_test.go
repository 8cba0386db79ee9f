// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// markUpdating marks the machine of that name as in the middle of an update; written says that
// its desired state is written completely.
func markUpdating(f *Facts, name string, written bool) *Machine {
	for _, m := range f.Machines {
		if m.Name == name {
			inplace.Mark(m)
			if written {
				inplace.Begin(m.Machine)
			}
			return m
		}
	}
	panic("no machine " + name)
}

func hasFailed(m *Machine) {
	report(m, metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineInPlaceUpdateFailedReason})
}

func TestAnOutdatedMachineIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	yes, no := Reply{Answer: inplace.Answer{Possible: true}}, Reply{Answer: inplace.Answer{Why: "no"}}
	unknown := Reply{Failure: questions.Failed(errors.New("connection refused"))}
	single := func(f *Facts) { f.ControlPlane.Spec.Replicas = new(int32(1)) }
	const inPlace, replaced = "update a in place: 1 of 3 are not up to date", "delete a: 1 of 3 are not up to date"
	tests := map[string]struct {
		machines string
		change   func(*Facts)
		reply    Reply
		asked    bool
		want     string
		blocked  []string
	}{
		"if that is possible": {machines: "a old,b,c", reply: yes, asked: true, want: inPlace},
		"else it is replaced": {machines: "a old,b,c", reply: no, asked: true, want: replaced},
		"while the answer is unknown, it stays": {
			machines: "a old,b,c", reply: unknown, asked: true, want: replaced,
			blocked: []string{"it is not known whether Machine a can be updated in place: connection refused"},
		},
		"not if it is unhealthy":                {machines: "a old failing,b,c", reply: yes, want: replaced},
		"not if it is to go anyhow":             {machines: "a old marked,b,c", reply: yes, want: replaced},
		"not if the user requested remediation": {machines: "a old chosen,b,c", reply: yes, want: replaced},
		"not if its time has come": {machines: "a old,b,c", reply: yes, want: replaced, change: func(f *Facts) {
			f.Machines[0].Why = []string{certificatesDue}
		}},
		"not if its config is unknown": {machines: "a old,b,c", reply: yes, want: replaced, change: func(f *Facts) { f.Machines[0].Config = nil }},
		"not if there are enough without it": {
			machines: "a old,b,c,d", reply: yes, want: "delete a: 1 of 4 are not up to date",
			change: func(f *Facts) { f.ControlPlane.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = nil },
		},
		"not while another one is updated": {
			machines: "a old,b,c", change: func(f *Facts) { markUpdating(f, "b", true) }, want: replaced,
			blocked: []string{"waiting for Machine b to be updated in place"},
		},
		"not while the last update has failed": {
			machines: "a old,b,c", change: func(f *Facts) { hasFailed(markUpdating(f, "b", true)) }, want: replaced,
			blocked: []string{"waiting for Machine b to be updated in place"},
		},
		"one that the spec wants otherwise meanwhile is waited for": {
			machines: "a old,b,c", change: func(f *Facts) { markUpdating(f, "a", true) }, want: replaced,
			blocked: []string{"waiting for Machine a to be updated in place"},
		},
		"and replaced if its update has failed": {machines: "a old,b,c", change: func(f *Facts) { hasFailed(markUpdating(f, "a", true)) }, want: replaced},
		"a started update is continued": {
			machines: "a,b old,c", change: func(f *Facts) { markUpdating(f, "b", false) }, reply: yes, asked: true,
			want: "update b in place: its update in place was started",
		},
		"but not before the workload cluster is connected": {
			machines: "a,b old,c", change: func(f *Facts) { markUpdating(f, "b", false); f.Workload.Connected = false }, reply: yes,
			want: "delete b: its update in place was started and cannot be continued", blocked: []string{"waiting for a connection to the workload cluster"},
		},
		"or replaced, if that is not possible any more": {
			machines: "a,b old,c", change: func(f *Facts) { markUpdating(f, "b", false) }, reply: no, asked: true,
			want: "delete b: its update in place was started and cannot be continued",
		},
		"the only one may be": {machines: "a old", change: single, reply: yes, asked: true, want: "update a in place: 1 of 1 are not up to date"},
		"but it is never deleted": {
			machines: "a old", change: single, reply: no, asked: true, want: "delete a: 1 of 1 are not up to date",
			blocked: []string{"Machine a is the only one: set spec.rollout.strategy.rollingUpdate.maxSurge to 1, so that another one joins first"},
		},
		"with more machines to come nothing is asked": {
			machines: "a old,b", reply: yes, want: "create a machine that joins: 1 of 2 are not up to date",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(3, tc.machines)
			noSurge(&f)
			for _, m := range f.Machines {
				m.Config, m.Source = &bootstrapv1.KubeadmConfig{}, &Source{}
			}
			if tc.change != nil {
				tc.change(&f)
			}
			asked := false
			made, err := Planner.Make(f, func(Question) (Reply, error) {
				asked = true
				return tc.reply, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if made.Plan.Action != nil {
				got = made.Plan.Action.String()
			}
			if got != tc.want || asked != tc.asked {
				t.Errorf("got %q, asked %t; want %q, %t", got, asked, tc.want, tc.asked)
			}
			if diff := cmp.Diff(tc.blocked, made.Plan.Blocked); diff != "" {
				t.Errorf("blocked (-want +got):\n%s", diff)
			}
			again, err := Planner.Again(made)
			if err != nil || again.Action == nil || again.Action.String() != got {
				t.Errorf("made again: %v, %v", again.Action, err)
			}
		})
	}
}

func TestAMachineInTheMiddleOfAnUpdateIsNotUpToDate(t *testing.T) {
	t.Parallel()
	f := facts(3, "a,b,c")
	m := markUpdating(&f, "b", true)
	if c := upToDate(m); c.Status != metav1.ConditionFalse || c.Reason != clusterv1.MachineUpToDateUpdatingReason || c.Message != "* Update in place is in progress" {
		t.Errorf("UpToDate is %s %s: %s", c.Status, c.Reason, c.Message)
	}
	r := &reporter{Facts: f, Outcome: Outcome{Action: Delete{}, Blocked: []string{"no answer"}}}
	if c := r.rollingOut(); c.Message != "Rolling out 1 not up-to-date replica\n* Update in place is in progress\n* no answer" {
		t.Errorf("RollingOut says %q", c.Message)
	}
}

func TestAConfigKeepsItsFormInPlace(t *testing.T) {
	t.Parallel()
	kcp := controlPlane(1)
	kcp.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.Name = "n"
	kcp.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Name = "n"
	for name, init := range map[string]bool{"that of init": true, "that of join": false} {
		got := ConfigInPlace(kcp, ConfigSpec(kcp, init))
		if diff := cmp.Diff(ConfigSpec(kcp, init), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
