// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type change func(*clusterv1.MachineDeployment)

// deployment builds a MachineDeployment with Machines of version v2.
func deployment(want int32, changes ...change) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md"},
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: "c",
			Replicas:    &want,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"app": "x"}},
				Spec:       clusterv1.MachineSpec{ClusterName: "c", Version: "v2"},
			},
		},
	}
	for _, c := range changes {
		c(md)
	}
	return md
}

func pace(surge, unavailable string) change {
	return func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
		md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.Parse(surge))
		md.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.Parse(unavailable))
	}
}

func onDelete(md *clusterv1.MachineDeployment) {
	md.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
}

func paused(md *clusterv1.MachineDeployment) { md.Spec.Paused = new(true) }

func after(d time.Duration) change {
	return func(md *clusterv1.MachineDeployment) { md.Spec.Rollout.After = metav1.NewTime(epoch.Add(d)) }
}

var ages = map[string]time.Duration{"old": 0, "older": -time.Hour, "new": time.Hour}

// set builds a MachineSet as the planner writes it: name, version, desired replicas,
// Machines, available Machines.
func set(md *clusterv1.MachineDeployment, name, version string, spec int32, actual, available int) Set {
	from := md.DeepCopy()
	from.Spec.Template.Spec.Version = version
	s := newSet(from, name, "u-"+name)
	s.CreationTimestamp = metav1.NewTime(epoch.Add(ages[name]))
	p := newPlanner(Facts{Deployment: md})
	m := &member{Set: Set{MachineSet: s}, replicas: int(spec)}
	if version == md.Spec.Template.Spec.Version {
		p.current = m
	}
	p.members = append(p.members, m)
	rev := map[bool]string{true: "2", false: "1"}[p.current == m]
	s = p.desired(m, rev)
	if p.current != m {
		s.Annotations[clusterv1.RevisionAnnotation] = "1"
	}
	return Set{MachineSet: s, Actual: actual, Available: available}
}

func going(s Set, n int) Set {
	s.Going = n
	return s
}

func told(s Set, want string) Set {
	s.Annotations[clusterv1.DesiredReplicasAnnotation] = want
	return s
}

// Plan is the plan where nothing can be updated in place.
func Plan(f Facts) Result {
	made, err := Planner.Make(f, func(Question) (Answer, error) { return Answer{}, nil })
	if err != nil {
		panic(err)
	}
	return made.Plan
}

func plan(md *clusterv1.MachineDeployment, blocked []string, sets ...Set) []string {
	var out []string
	for _, a := range Plan(Facts{Deployment: md, Sets: sets, Blocked: blocked, Now: epoch.Add(2 * time.Hour), Name: "md-n1", FieldOwner: "test"}).Actions {
		out = append(out, a.String())
	}
	return out
}

// planCase is a MachineDeployment with its MachineSets, and the expected actions.
type planCase struct {
	md      *clusterv1.MachineDeployment
	sets    func(*clusterv1.MachineDeployment) []Set
	blocked []string
	want    []string
}

func testPlan(t *testing.T, tests map[string]planCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var have []Set
			if tc.sets != nil {
				have = tc.sets(tc.md)
			}
			if diff := cmp.Diff(tc.want, plan(tc.md, tc.blocked, have...)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	testPlan(t, map[string]planCase{
		"in steady state nothing happens": {
			md:   deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "new", "v2", 3, 3, 3)} },
		},
		"more are wanted": {
			md:   deployment(5),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "new", "v2", 3, 3, 3)} },
			want: []string{"scale up new from 3 to 5: want 5, at most 6 at a time"},
		},
		"fewer are wanted": {
			md:   deployment(1),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "new", "v2", 3, 3, 3)} },
			want: []string{"scale down new from 3 to 1: want 1"},
		},
		"a rollout starts with the surge": {
			md:   deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
			want: []string{"create md-n1 with 1 replicas: no MachineSet matches the template"},
		},
		"nothing goes before the new one is available": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3), set(md, "new", "v2", 1, 1, 0)}
			},
		},
		"then one goes": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 3 to 2: 4 available, at least 3 required"},
		},
		"a Machine on its way out still takes room": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{going(set(md, "old", "v1", 2, 3, 2), 1), set(md, "new", "v2", 1, 1, 1)}
			},
		},
		"once it has gone the next comes": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 2, 2, 2), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale up new from 1 to 2: want 3, at most 4 at a time"},
		},
		"unavailable ones may go at once, as many as allowed": {
			md: deployment(4, pace("0", "2")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 4, 4, 4)}
			},
			want: []string{"scale down old from 4 to 2: 4 available, at least 2 required", "create md-n1 with 0 replicas: no MachineSet matches the template"},
		},
		"the oldest shrinks first": {
			md: deployment(4, pace("0", "1")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 2, 2, 2), set(md, "older", "v0", 2, 2, 2), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"scale down older from 2 to 1: 4 available, at least 3 required"},
		},
		"a MachineSet without available Machines shrinks before an older one": {
			md: deployment(3, pace("1", "0")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "older", "v0", 2, 2, 2), set(md, "old", "v1", 1, 1, 0), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 1 to 0: 3 available, at least 3 required"},
		},
		"unavailable Machines go before available ones of an older MachineSet": {
			md: deployment(6, pace("0", "2")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "older", "v0", 3, 3, 3), set(md, "old", "v1", 2, 2, 1), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 2 to 0: 5 available, at least 4 required"},
		},
		"unavailable Machines of several MachineSets go together, within the limit": {
			md: deployment(8, pace("1", "3")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "older", "v0", 4, 4, 3), set(md, "old", "v1", 4, 4, 2), set(md, "new", "v2", 2, 2, 2)}
			},
			want: []string{"scale down older from 4 to 3: 7 available, at least 5 required", "scale down old from 4 to 3: 7 available, at least 5 required"},
		},
		"Machines of which none is available go as fast as others come": {
			md: deployment(10, pace("5", "0")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 10, 10, 0), set(md, "new", "v2", 5, 5, 5)}
			},
			want: []string{"scale down old from 10 to 5: 5 available, at least 10 required"},
		},
		"as many as may be unavailable go before the new one is available": {
			md: deployment(10, pace("1", "2")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 10, 10, 0), set(md, "new", "v2", 1, 1, 0)}
			},
			want: []string{"scale down old from 10 to 8: 0 available, at least 8 required"},
		},
		"Machines that an old MachineSet cannot create do not hold up a rollout": {
			md: deployment(2),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 2, 1, 1), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 2 to 1: what is not made yet need not be"},
		},
		"what is missing goes also while too few are available": {
			md: deployment(4),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 4, 2, 2), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 4 to 3: what is not made yet need not be"},
		},
		"unavailable Machines do not hold up a rollout for ever": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 2), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 3 to 2: Machines that are not available hold up the rollout"},
		},
		"but nothing is forced while something moves": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{going(set(md, "old", "v1", 2, 3, 1), 1), set(md, "new", "v2", 1, 1, 1)}
			},
		},
		"nor while the new one is not available": {
			md: deployment(3),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 2), set(md, "new", "v2", 1, 1, 0)}
			},
		},
		"percentages: surge rounds up, unavailable rounds down": {
			md: deployment(10, pace("25%", "25%")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 10, 10, 10), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"scale down old from 10 to 8: 10 available, at least 8 required", "scale up new from 0 to 3: want 10, at most 13 at a time"},
		},
		"neither surge nor unavailable means one unavailable": {
			md: deployment(3, pace("0%", "0%")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"scale down old from 3 to 2: 3 available, at least 2 required"},
		},
	})
}

func TestCurrentMachineSet(t *testing.T) {
	t.Parallel()
	testPlan(t, map[string]planCase{
		"the first MachineSet has all replicas at once": {
			md:   deployment(3),
			want: []string{"create md-n1 with 3 replicas: no MachineSet matches the template"},
		},
		"after the rollout empty MachineSets go": {
			md: deployment(1),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 0, 0, 0), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"delete old: the rollout is complete"},
		},
		"not before": {
			md: deployment(1),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 0, 0, 0), set(md, "new", "v2", 1, 1, 0)}
			},
		},
		"not while one still has a Machine": {
			md: deployment(1),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{going(set(md, "old", "v1", 0, 1, 0), 1), set(md, "new", "v2", 1, 1, 1)}
			},
		},
		"the template went back: the earlier MachineSet is current again": {
			md: deployment(2),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				back, ahead := set(md, "old", "v2", 1, 1, 1), set(md, "new", "v3", 1, 1, 1)
				back.Annotations[clusterv1.RevisionAnnotation], ahead.Annotations[clusterv1.RevisionAnnotation] = "1", "2"
				return []Set{back, ahead}
			},
			want: []string{"scale up old from 1 to 2: want 2, at most 3 at a time"},
		},
		"of two that match the larger is current": {
			md: deployment(3, pace("1", "0")),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				a, b := set(md, "old", "v2", 1, 1, 1), set(md, "new", "v2", 3, 3, 3)
				a.Annotations[clusterv1.RevisionAnnotation] = "1"
				return []Set{a, b}
			},
			want: []string{"scale down old from 1 to 0: 4 available, at least 3 required"},
		},
		"a MachineSet being deleted is not current": {
			md: deployment(2),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				s := going(set(md, "new", "v2", 2, 2, 0), 2)
				s.DeletionTimestamp = new(metav1.NewTime(epoch))
				return []Set{s}
			},
			want: []string{"create md-n1 with 1 replicas: no MachineSet matches the template"},
		},
		"after a time everything older is replaced": {
			md:   deployment(1, after(90*time.Minute)),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "new", "v2", 1, 1, 1)} },
			want: []string{"create md-n1 with 1 replicas: no MachineSet matches the template"},
		},
		"what is younger than that stays": {
			md:   deployment(1, after(30*time.Minute)),
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "new", "v2", 1, 1, 1)} },
		},
	})
}

func TestOnDelete(t *testing.T) {
	t.Parallel()
	testPlan(t, map[string]planCase{
		"OnDelete replaces nothing by itself": {
			md: deployment(3, onDelete),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{disabled(set(md, "old", "v1", 3, 3, 3)), set(md, "new", "v2", 0, 0, 0)}
			},
		},
		"OnDelete keeps the others from making Machines": {
			md: deployment(3, onDelete),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				s := set(deployment(3), "old", "v1", 3, 3, 3)
				s.Annotations[clusterv1.MaxReplicasAnnotation] = "3"
				return []Set{s, set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"update old: bring in what changed in place"},
		},
		"OnDelete replaces what another client deleted": {
			md: deployment(3, onDelete),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{disabled(set(md, "old", "v1", 3, 2, 2)), set(md, "new", "v2", 0, 0, 0)}
			},
			want: []string{"scale down old from 3 to 2: its Machines were deleted", "scale up new from 0 to 1: want 3, of which others have the rest"},
		},
		"OnDelete waits until it has gone": {
			md: deployment(3, onDelete),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{disabled(going(set(md, "old", "v1", 3, 3, 2), 1)), set(md, "new", "v2", 0, 0, 0)}
			},
		},
		"OnDelete scales down the others first": {
			md: deployment(2, onDelete),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{disabled(set(md, "old", "v1", 3, 3, 3)), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"scale down old from 3 to 2: want 2", "scale down new from 1 to 0: want 2, of which others have the rest"},
		},
	})
}

func TestPaused(t *testing.T) {
	t.Parallel()
	testPlan(t, map[string]planCase{
		"paused, nothing is rolled out": {
			md: deployment(3, paused),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3)}
			},
		},
		"paused, no first MachineSet is made": {md: deployment(3, paused)},
		"paused, a single MachineSet is scaled": {
			md: deployment(5, paused),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3)}
			},
			want: []string{"scale up old from 3 to 5: want 5"},
		},
		"paused in the middle of a rollout, growth is shared": {
			md: deployment(20, paused),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{told(set(md, "old", "v1", 6, 6, 6), "10"), told(set(md, "new", "v2", 5, 5, 5), "10")}
			},
			want: []string{"scale up old from 6 to 12: want 20, while paused", "scale up new from 5 to 9: want 20, while paused"},
		},
		"paused in the middle of a rollout, shrinking is shared": {
			md: deployment(1, paused),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{told(set(md, "old", "v1", 6, 6, 6), "10"), told(set(md, "new", "v2", 5, 5, 5), "10")}
			},
			want: []string{"scale down old from 6 to 1: want 1, while paused", "scale down new from 5 to 1: want 1, while paused"},
		},
		"paused in the middle of a rollout, without a change of replicas nothing moves": {
			md: deployment(10, paused),
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 6, 6, 6), set(md, "new", "v2", 5, 5, 5)}
			},
		},
	})
}

func TestBlocked(t *testing.T) {
	t.Parallel()
	blocked := []string{"HostTemplate typo does not exist"}
	testPlan(t, map[string]planCase{
		"no first MachineSet is made": {md: deployment(3), blocked: blocked},
		"no Machine is taken for a MachineSet that cannot grow": {
			md: deployment(3, pace("1", "1")), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
		},
		"a started rollout stops": {
			md: deployment(3, pace("1", "1")), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 2, 2, 2), set(md, "new", "v2", 1, 1, 1)}
			},
		},
		"more replicas do not grow what is outdated": {
			md: deployment(5), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 3, 3, 3)}
			},
		},
		"fewer replicas shrink it": {
			md: deployment(1), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set { return []Set{set(md, "old", "v1", 3, 3, 3)} },
			want: []string{"scale down old from 3 to 1: want 1"},
		},
		"what has replaced nothing is not made superfluous": {
			md: deployment(3, onDelete), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{disabled(set(md, "old", "v1", 3, 2, 2))}
			},
		},
		"a rollout that is done is tidied up": {
			md: deployment(1), blocked: blocked,
			sets: func(md *clusterv1.MachineDeployment) []Set {
				return []Set{set(md, "old", "v1", 0, 0, 0), set(md, "new", "v2", 1, 1, 1)}
			},
			want: []string{"delete old: the rollout is complete"},
		},
	})
}

func disabled(s Set) Set {
	s.Annotations[clusterv1.DisableMachineCreateAnnotation] = "true"
	return s
}

// TestWhatV1beta1CannotSayIsNotWritten has a MachineSet as upstream's 1.10 stored it for
// a MachineDeployment with only defaults.
func TestWhatV1beta1CannotSayIsNotWritten(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.Spec.Template.Spec.MinReadySeconds = new(int32(0))
	stored := set(md, "new", md.Spec.Template.Spec.Version, 1, 1, 1)
	stored.Spec.Template.Spec.MinReadySeconds, stored.Spec.Deletion.Order = nil, clusterv1.RandomMachineSetDeletionOrder
	if r := Plan(Facts{Deployment: md, Sets: []Set{stored}, Name: "md-n1", FieldOwner: "test"}); len(r.Actions) > 0 || r.Current != "new" {
		t.Errorf("actions %v, current %q", r.Actions, r.Current)
	}
}

func TestWhatChangesInPlaceGoesToEveryMachineSet(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	old, current := set(md, "old", "v1", 1, 1, 1), set(md, "new", "v2", 1, 1, 0)
	md.Annotations = map[string]string{"note": "1", clusterv1.RevisionAnnotation: "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
	md.Spec.Template.Labels["team"] = "red"
	md.Spec.Template.Spec.MinReadySeconds = new(int32(9))
	md.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
	r := Plan(Facts{Deployment: md, Sets: []Set{old, current}, Name: "md-n1", FieldOwner: "test"})
	if len(r.Actions) != 2 || r.Current != "new" || r.Revision != "2" {
		t.Fatalf("result %+v", r)
	}
	for _, a := range r.Actions {
		s := a.(Update).Set
		if s.Labels["team"] != "red" || s.Spec.Template.Labels["team"] != "red" || s.Annotations["note"] != "1" ||
			*s.Spec.Template.Spec.MinReadySeconds != 9 || s.Spec.Deletion.Order != clusterv1.OldestMachineSetDeletionOrder {
			t.Errorf("%s: %+v %+v", s.Name, s.ObjectMeta, s.Spec)
		}
		if _, copied := s.Annotations["kubectl.kubernetes.io/last-applied-configuration"]; copied {
			t.Errorf("%s has kubectl's record", s.Name)
		}
		if want := map[string]string{"old": "v1", "new": "v2"}[s.Name]; s.Spec.Template.Spec.Version != want {
			t.Errorf("%s has version %s, want %s", s.Name, s.Spec.Template.Spec.Version, want)
		}
		if s.Spec.Template.Labels[clusterv1.MachineDeploymentUniqueLabel] != "u-"+s.Name {
			t.Errorf("%s lost its unique label", s.Name)
		}
	}
}

func TestMachinesAreCountedAsAStatusCountsThem(t *testing.T) {
	t.Parallel()
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := &clusterv1.Machine{Status: clusterv1.MachineStatus{Conditions: []metav1.Condition{{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue}}}}
		change(m)
		return m
	}
	got := Counted(nil, []*clusterv1.Machine{
		machine(func(*clusterv1.Machine) {}),
		machine(func(m *clusterv1.Machine) { m.Status.Conditions = nil }),
		machine(func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(epoch)) }),
		machine(func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
		}),
	})
	if want := (Set{Actual: 4, Going: 1, Available: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestANameIsNeededWhenAMachineSetIsMade(t *testing.T) {
	t.Parallel()
	md, idle := deployment(1), deployment(1, paused)
	for name, tc := range map[string]struct {
		f    Facts
		want bool
	}{
		"none matches":          {Facts{Deployment: md, Sets: []Set{set(md, "old", "v1", 1, 1, 1)}}, true},
		"there is none":         {Facts{Deployment: md}, true},
		"one matches":           {Facts{Deployment: md, Sets: []Set{set(md, "new", "v2", 1, 1, 1)}}, false},
		"none may be made":      {Facts{Deployment: md, Blocked: []string{"no template"}}, false},
		"nothing is rolled out": {Facts{Deployment: idle}, false},
	} {
		if got := tc.f.Lacking(); got != tc.want {
			t.Errorf("%s: lacking %v, want %v", name, got, tc.want)
		}
		for _, a := range Plan(tc.f).Actions {
			if _, made := a.(Create); made {
				t.Errorf("%s: %s, without a name", name, a)
			}
		}
		tc.f.Name = "md-n1"
		if made := len(Plan(tc.f).Actions) > 0 && Plan(tc.f).Current == "md-n1"; made != tc.want {
			t.Errorf("%s: made %v, want %v", name, made, tc.want)
		}
	}
}

func TestTheFirstMachineSetIsComplete(t *testing.T) {
	t.Parallel()
	r := Plan(Facts{Deployment: deployment(2), Name: "md-n1"})
	s := r.Actions[0].(Create).Set
	unique := s.Labels[clusterv1.MachineDeploymentUniqueLabel]
	if !strings.HasSuffix(unique, "-n1") || len(unique) < 6 {
		t.Errorf("unique label %q", unique)
	}
	want := map[string]string{"app": "x", clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineDeploymentUniqueLabel: unique}
	if diff := cmp.Diff(want, s.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{clusterv1.RevisionAnnotation: "1", clusterv1.DesiredReplicasAnnotation: "2", clusterv1.MaxReplicasAnnotation: "3", clusterv1.DisableMachineCreateAnnotation: "false"}
	if diff := cmp.Diff(wantAnnotations, s.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if s.Spec.Selector.MatchLabels[clusterv1.MachineDeploymentUniqueLabel] != unique || s.Spec.Template.Labels[clusterv1.MachineDeploymentUniqueLabel] != unique {
		t.Errorf("selector %v, labels of the template %v: both need %s", s.Spec.Selector, s.Spec.Template.Labels, unique)
	}
}

func TestPlanWaitsForRolloutAfter(t *testing.T) {
	t.Parallel()
	md := deployment(1, after(3*time.Hour))
	r := Plan(Facts{Deployment: md, Sets: []Set{set(md, "new", "v2", 1, 1, 1)}, Now: epoch.Add(2 * time.Hour), Name: "md-n1", FieldOwner: "test"})
	if want := epoch.Add(3 * time.Hour); !r.RequeueAt.Equal(want) || len(r.Actions) > 0 {
		t.Errorf("requeue at %s, actions %v; want %s and none", r.RequeueAt, r.Actions, want)
	}
}

// recorded is a plan with its input, in a form that can be stored.
type recorded[R any] struct {
	Facts Facts
	Plan  R
}

func TestARecordedPlanIsMadeAgain(t *testing.T) {
	t.Parallel()
	md := deployment(3)
	for name, f := range map[string]Facts{
		"recorded-creation": {Deployment: md, Sets: []Set{set(md, "old", "v1", 3, 3, 3)}, Now: epoch, Name: "md-x7k2p", FieldOwner: "test"},
		"recorded-rollout":  {Deployment: md, Sets: []Set{set(md, "old", "v1", 3, 3, 3), set(md, "new", "v2", 1, 1, 1)}, Now: epoch, FieldOwner: "test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(recorded[Result]{f, Plan(f)}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, name+".json", string(text)+"\n")
			var r recorded[any]
			if text, err = os.ReadFile(filepath.Join("testdata", name+".json")); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			var again any
			if text, err = json.Marshal(Plan(r.Facts)); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Plan, again); diff != "" {
				t.Errorf("plan (-recorded +made again):\n%s", diff)
			}
		})
	}
}
