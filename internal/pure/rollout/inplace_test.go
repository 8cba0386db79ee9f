// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// bootstrapped sets a bootstrap config on Machines, as nearly all have one.
func bootstrapped(md *clusterv1.MachineDeployment) *clusterv1.MachineDeployment {
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "BootTemplate", Name: "boot"}
	return md
}

// moved are Machines that a set was given and has not counted.
func moved(s Set, names ...string) Set {
	s.Moved = names
	return s
}

func annotated(s Set, key, value string) Set {
	s.Annotations[key] = value
	return s
}

const (
	moveTo      = clusterv1.MachineSetMoveMachinesToMachineSetAnnotation
	receiveFrom = clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation
	counted     = clusterv1.AcknowledgedMoveAnnotation
)

// lines are the actions of a plan, with the annotations of moves.
func lines(r Result) (out []string) {
	for _, a := range r.Actions {
		line := a.String()
		var on map[string]string
		switch a := a.(type) {
		case Create:
			on = a.Set.Annotations
		case Update:
			on = a.Set.Annotations
		}
		for _, mark := range [][2]string{{moveTo, ", moves to "}, {receiveFrom, ", receives from "}, {counted, ", has counted "}} {
			if v, ok := on[mark[0]]; ok {
				line += mark[1] + v
			}
		}
		out = append(out, line)
	}
	return out
}

func TestMachinesAreHandedOver(t *testing.T) {
	t.Parallel()
	yes, no := Answer{Answer: inplace.Answer{Possible: true}}, Answer{Answer: inplace.Answer{Why: "no"}}
	unknown := Answer{Failure: questions.Failed(errors.New("connection refused"))}
	tests := map[string]struct {
		md        *clusterv1.MachineDeployment
		sets      func(*clusterv1.MachineDeployment) []Set
		answer    Answer
		asked     []string
		want      []string
		undecided bool
	}{
		"without room for one more, the first goes at once": {
			md: deployment(3, pace("0", "1")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
			want: []string{
				"create md-n1 with 0 replicas: no MachineSet matches the template, receives from old",
				"scale down old from 3 to 2: 3 available, at least 2 required, moves to md-n1",
			},
		},
		"where none may be unavailable, one more comes first": {
			md: deployment(3, pace("2", "0")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
			want: []string{
				"create md-n1 with 1 replicas: no MachineSet matches the template, receives from old",
				"update old: bring in what changed in place, moves to md-n1",
			},
		},
		"what was handed over is counted": {
			md: deployment(3, pace("0", "1")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 2, 2, 2), moveTo, "new"), moved(annotated(set(md, "new", "v2", 0, 1, 0), receiveFrom, "old"), "m1")}
			},
			want: []string{"scale up new from 0 to 1: it takes over m1, receives from old, has counted m1"},
		},
		"and counted once": {
			md: deployment(3, pace("0", "1")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 2, 2, 2), moveTo, "new"),
					moved(annotated(annotated(set(md, "new", "v2", 1, 1, 0), receiveFrom, "old"), counted, "m1"), "m1")}
			},
		},
		"also while paused": {
			md: func() *clusterv1.MachineDeployment { md := deployment(3); md.Spec.Paused = new(true); return md }(),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 2, 2, 2), moveTo, "new"), moved(annotated(set(md, "new", "v2", 0, 1, 0), receiveFrom, "old"), "m1")}
			},
			want: []string{"scale up new from 0 to 1: it takes over m1, receives from old, has counted m1"},
		},
		"more that are wanted are made": {
			md: deployment(5, pace("0", "1")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 3, 3, 3), moveTo, "new"), annotated(set(md, "new", "v2", 0, 0, 0), receiveFrom, "old")}
			},
			want: []string{"scale up new from 0 to 2: want 5, at most 5 at a time, receives from old"},
		},
		"those that cannot be updated are replaced": {
			md: deployment(3, pace("0", "1")), answer: no, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
			want: []string{
				"scale down old from 3 to 2: 3 available, at least 2 required",
				"create md-n1 with 0 replicas: no MachineSet matches the template",
			},
		},
		"while the answer is unknown, all stays": {
			md: deployment(3), answer: unknown, asked: []string{"old"}, undecided: true,
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 2, 3, 3), moveTo, "new"), annotated(set(md, "new", "v2", 1, 1, 1), receiveFrom, "old")}
			},
		},
		"the template goes back in the middle": {
			md: deployment(3, pace("0", "1")), answer: yes, asked: []string{"old"},
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "new", "v2", 2, 2, 2), moveTo, "old"), annotated(set(md, "old", "v1", 1, 1, 0), receiveFrom, "new")}
			},
			want: []string{
				"update new: bring in what changed in place, receives from old",
				"scale down old from 1 to 0: 2 available, at least 2 required, moves to new",
			},
		},
		"with OnDelete nothing is handed over": {
			md: func() *clusterv1.MachineDeployment {
				md := deployment(1)
				md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
				return md
			}(),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{annotated(set(md, "old", "v1", 1, 1, 1), moveTo, "new"), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"update old: bring in what changed in place"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := bootstrapped(tc.md)
			f := Facts{Deployment: md, Sets: tc.sets(md), Now: epoch.Add(2 * time.Hour), Name: "md-n1", FieldOwner: "test"}
			var asked []string
			made, err := Planner.Make(f, func(q Question) (Answer, error) {
				asked = append(asked, q.From)
				return tc.answer, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, lines(made.Plan)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if got := len(made.Plan.Undecided) > 0; got != tc.undecided {
				t.Errorf("undecided %q", made.Plan.Undecided)
			}
			madeAgain(t, made)
		})
	}
}

// madeAgain encodes a record and replays it.
func madeAgain(t *testing.T, made questions.Record[Facts, Question, Answer, Result]) {
	t.Helper()
	text, err := json.Marshal(struct {
		Facts   Facts
		Answers questions.Answers[Question, Answer]
	}{made.Facts, made.Answers})
	if err != nil {
		t.Fatal(err)
	}
	var read questions.Record[Facts, Question, Answer, Result]
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	got, err := Planner.Again(read)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(made.Plan), lines(got)); diff != "" {
		t.Errorf("plan (-recorded +made again):\n%s", diff)
	}
}

func TestWhoIsAskedWhetherMachinesCanBeUpdated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*clusterv1.MachineDeployment)
		asked  bool
	}{
		"a set whose template differs": {change: func(*clusterv1.MachineDeployment) {}, asked: true},
		"not one of another kind of machines": {change: func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.InfrastructureRef.Kind = "OtherTemplate"
		}},
		"not one of another kind of bootstrap config": {change: func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.Bootstrap.ConfigRef.Kind = "OtherTemplate"
		}},
		"not one whose bootstrap data users bring": {change: func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("other")}
		}},
		"not one that a deadline replaces": {change: func(md *clusterv1.MachineDeployment) {
			md.Spec.Rollout.After = metav1.NewTime(epoch.Add(90 * time.Minute))
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := bootstrapped(deployment(1))
			sets := []Set{set(md, "old", "v1", 1, 1, 1)}
			tc.change(md)
			asked := false
			_, err := Planner.Make(Facts{Deployment: md, Sets: sets, Now: epoch.Add(2 * time.Hour), Name: "md-n1", FieldOwner: "test"}, func(Question) (Answer, error) {
				asked = true
				return Answer{}, nil
			})
			if err != nil || asked != tc.asked {
				t.Errorf("asked %t, error %v", asked, err)
			}
		})
	}
}
