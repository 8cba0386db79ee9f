// SPDX-License-Identifier: Apache-2.0

package planguard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

var now = time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)

// newGuard is the guard of a plan that replaces a, deletes b, updates c and keeps d.
func newGuard(changes ...func(*planv1.PlanGuard)) *planv1.PlanGuard {
	machine := func(name string, action planv1.Action) planv1.Machine {
		return planv1.Machine{Name: name, UID: types.UID(name), Owner: "MachineDeployment md", Action: action}
	}
	g := &planv1.PlanGuard{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec: planv1.PlanGuardSpec{
			Plan: "p1", Deadline: metav1.NewTime(now.Add(time.Hour)),
			Change: []planv1.Object{{Kind: "MachineDeployment", Namespace: "ns", Name: "md"}, {Kind: "ClusterClass", Name: "class"}},
			Cluster: &planv1.Cluster{
				Namespace: "ns", Name: "demo",
				Machines: []planv1.Machine{
					machine("a", planv1.Replaced), machine("b", planv1.Deleted), machine("c", planv1.Changed), machine("d", planv1.Kept),
					{Name: "1", Owner: "MachineDeployment md", Action: planv1.Created},
				},
				Groups: []planv1.Group{{Owner: "MachineDeployment md", Before: 4, Then: 3}, {Owner: "MachinePool pool", Then: 2}},
				Pools:  []planv1.Pool{{Name: "pool", Before: 3, Then: 2}},
			},
		},
		Status: planv1.PlanGuardStatus{Sent: metav1.NewTime(now.Add(-time.Minute))},
	}
	for _, change := range changes {
		change(g)
	}
	return g
}

func newMachine(name string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
		Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: "md"},
	}}
}

func expired(g *planv1.PlanGuard)  { g.Spec.Deadline = metav1.NewTime(now) }
func standing(g *planv1.PlanGuard) { g.Spec = planv1.PlanGuardSpec{Required: true} }
func required(g *planv1.PlanGuard) { g.Spec.Required = true }

func TestGuardAdmitsWhatThePlanDoes(t *testing.T) {
	t.Parallel()
	transient := func(g *planv1.PlanGuard) {
		g.Spec.Cluster.Machines = append(g.Spec.Cluster.Machines, planv1.Machine{Name: "2", Owner: "MachineDeployment md", Action: planv1.Transient})
	}
	created := func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(now) }
	tests := map[string]struct {
		guard           *planv1.PlanGuard
		machine         string
		change          func(*clusterv1.Machine)
		deletes, update bool
	}{
		"replaced":                      {newGuard(), "a", nil, true, false},
		"deleted":                       {newGuard(), "b", nil, true, false},
		"changed":                       {newGuard(), "c", nil, false, true},
		"kept":                          {newGuard(), "d", nil, false, false},
		"unknown":                       {newGuard(), "e", nil, false, false},
		"created by the plan":           {newGuard(), "e", created, false, false},
		"created and deleted again":     {newGuard(transient), "e", created, true, false},
		"in the second of the guard":    {newGuard(transient), "e", func(m *clusterv1.Machine) { m.CreationTimestamp = newGuard().CreationTimestamp }, true, false},
		"of another owner":              {newGuard(transient), "e", func(m *clusterv1.Machine) { created(m); m.Labels = nil }, false, false},
		"there before, of the same one": {newGuard(transient), "e", nil, false, false},
		"another of that name":          {newGuard(), "a", func(m *clusterv1.Machine) { m.UID = "other" }, false, false},
		"after the deadline":            {newGuard(expired), "a", nil, false, false},
		"of a Cluster that requires":    {newGuard(required), "a", nil, true, false},
		"without a plan":                {newGuard(standing), "a", nil, false, false},
	}
	for name, tc := range tests {
		m := newMachine(tc.machine)
		if tc.change != nil {
			tc.change(m)
		}
		if got := Deletes(tc.guard, m, now); got != tc.deletes {
			t.Errorf("%s: deletion admitted %v", name, got)
		}
		if got := Updates(tc.guard, m, now); got != tc.update {
			t.Errorf("%s: update admitted %v", name, got)
		}
	}
}

func TestGuardHoldsUntilItsDeadline(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		guard *planv1.PlanGuard
		want  bool
	}{
		"none":                                  {nil, false},
		"a plan":                                {newGuard(), true},
		"a plan whose deadline has passed":      {newGuard(expired), false},
		"required":                              {newGuard(standing), true},
		"required, and a plan that has expired": {newGuard(expired, required), true},
		"neither":                               {newGuard(func(g *planv1.PlanGuard) { g.Spec = planv1.PlanGuardSpec{} }), false},
		"being deleted":                         {newGuard(func(g *planv1.PlanGuard) { g.DeletionTimestamp = new(metav1.NewTime(now)) }), false},
	} {
		if got := Holds(tc.guard, now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestPoolsAndWritesOfThePlanAreAdmitted(t *testing.T) {
	t.Parallel()
	g := newGuard()
	for replicas, want := range map[int32]bool{1: false, 2: true, 3: true} {
		if got := Shrinks(g, "pool", replicas, now); got != want {
			t.Errorf("pool of %d: %v", replicas, got)
		}
	}
	if Shrinks(g, "other", 5, now) || Shrinks(newGuard(expired), "pool", 2, now) {
		t.Error("a pool shrinks that the plan does not have, or too late")
	}
	for object, want := range map[[2]string]bool{
		{"MachineDeployment", "md"}: true, {"ClusterClass", "class"}: true, {"MachineDeployment", "other"}: false, {"MachineSet", "md"}: false,
	} {
		if got := Writes(g, object[0], "ns", object[1], now); got != want {
			t.Errorf("%v: %v", object, got)
		}
	}
	if Writes(g, "MachineDeployment", "other", "md", now) {
		t.Error("an object of another namespace is admitted")
	}
}

func TestDecideEndsPlans(t *testing.T) {
	t.Parallel()
	all := func(names ...string) func() []*clusterv1.Machine {
		return func() (all []*clusterv1.Machine) {
			for _, name := range names {
				all = append(all, newMachine(name))
			}
			return all
		}
	}
	pool := func(g *planv1.PlanGuard) { g.Spec.Cluster.Groups = g.Spec.Cluster.Groups[:1] }
	held := func(g *planv1.PlanGuard) { g.Status.Held = []planv1.Held{{Kind: "Machine", Name: "d"}} }
	unsent := func(g *planv1.PlanGuard) { g.Status.Sent = metav1.Time{} }
	early := func(g *planv1.PlanGuard) { g.Status.Sent = metav1.NewTime(now.Add(-time.Second)) }
	done := all("c", "d", "new")
	change := func(machines func() []*clusterv1.Machine, i int, change func(*clusterv1.Machine)) func() []*clusterv1.Machine {
		return func() []*clusterv1.Machine {
			ms := machines()
			change(ms[i])
			return ms
		}
	}
	outdated := func(m *clusterv1.Machine) {
		conditions.Set(m, now, conditions.New(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, "NotUpToDate", "x"))
	}
	deleting := func(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(now)) }
	blocked := func(then, deleting, outdated int) *planv1.PlanGuard {
		return newGuard(pool, func(g *planv1.PlanGuard) {
			of := &g.Spec.Cluster.Groups[0]
			of.Then, of.Deleting, of.OutOfDate = then, deleting, outdated
		})
	}
	carriedOut := Next{Delete: true, Ended: "PlanCarriedOut", Message: "Plan p1 has been carried out"}
	tests := map[string]struct {
		guard    *planv1.PlanGuard
		required bool
		machines func() []*clusterv1.Machine
		want     Next
	}{
		"nothing":                      {nil, false, done, Next{}},
		"required":                     {nil, true, done, Next{Spec: &planv1.PlanGuardSpec{Required: true}}},
		"required already":             {newGuard(standing), true, done, Next{}},
		"required no longer":           {newGuard(standing), false, done, Next{Delete: true}},
		"required, and not yet so":     {newGuard(func(g *planv1.PlanGuard) { g.Spec = planv1.PlanGuardSpec{} }), true, done, Next{Spec: &planv1.PlanGuardSpec{Required: true}}},
		"carried out":                  {newGuard(pool), false, done, carriedOut},
		"carried out, and required":    {newGuard(pool, required), true, done, Next{Spec: &planv1.PlanGuardSpec{Required: true}, Ended: "PlanCarriedOut", Message: "Plan p1 has been carried out"}},
		"not yet sent":                 {newGuard(pool, unsent), false, done, Next{}},
		"sent a moment ago":            {newGuard(pool, early), false, done, Next{}},
		"with something held back":     {newGuard(pool, held), false, done, Next{}},
		"one Machine is left":          {newGuard(pool), false, all("a", "c", "d"), Next{}},
		"a new Machine does not exist": {newGuard(pool), false, all("c", "d"), Next{}},
		"a pool has too few":           {newGuard(), false, done, Next{}},
		"one is out of date":           {newGuard(pool), false, change(done, 2, outdated), Next{}},
		"one of another owner is out of date": {newGuard(pool), false, change(done, 2, func(m *clusterv1.Machine) {
			m.Labels = nil
			outdated(m)
		}), Next{}},
		"blocked as in the plan, by an update":               {blocked(3, 0, 1), false, change(done, 2, outdated), carriedOut},
		"blocked as in the plan, by a deletion":              {blocked(4, 1, 0), false, change(all("c", "d", "new", "a"), 3, deleting), carriedOut},
		"blocked in the plan, and not any longer":            {blocked(3, 0, 1), false, done, carriedOut},
		"one more is out of date than in the plan":           {blocked(3, 0, 1), false, change(change(done, 2, outdated), 1, outdated), Next{}},
		"one more is being deleted than in the plan":         {blocked(3, 0, 1), false, change(change(done, 2, outdated), 1, deleting), Next{}},
		"one that the plan deletes is not yet being deleted": {blocked(4, 1, 0), false, all("c", "d", "new", "a"), Next{}},
		"expired":            {newGuard(expired), false, all("a"), Next{Delete: true, Ended: "PlanExpired", Message: "The deadline of plan p1 has passed before it was carried out"}},
		"required meanwhile": {newGuard(), true, all("a"), Next{Spec: &newGuard(required).Spec}},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, Decide(tc.guard, tc.required, tc.machines, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDeadlineIsWhenTheDecisionChanges(t *testing.T) {
	t.Parallel()
	g := newGuard()
	if got := Deadline(g, now); !got.Equal(g.Spec.Deadline.Time) {
		t.Errorf("%v, want the deadline", got)
	}
	g.Status.Sent = metav1.NewTime(now.Add(-time.Second))
	if got := Deadline(g, now); !got.Equal(now.Add(29 * time.Second)) {
		t.Errorf("%v, want the time at which the plan can end", got)
	}
	if got := Deadline(newGuard(standing), now); !got.IsZero() || !Deadline(nil, now).IsZero() {
		t.Errorf("%v for a guard without a plan", got)
	}
}

func TestConditionNamesWhatIsHeld(t *testing.T) {
	t.Parallel()
	machines := func() []*clusterv1.Machine { return []*clusterv1.Machine{newMachine("d")} }
	g := newGuard()
	if c, ok := Condition(g, machines, now); !ok || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "Plan p1 is being carried out until 2026-08-01T14:00:00Z") {
		t.Errorf("nothing is held: %v %+v", ok, c)
	}
	for _, name := range []string{"d", "gone"} {
		if !Hold(&g.Status, planv1.Held{Kind: "Machine", Name: name, UID: types.UID(name), What: "deleted", User: "eve", Why: "it is old", At: metav1.NewTime(now)}) {
			t.Error("a first refusal is not recorded")
		}
	}
	if Hold(&g.Status, planv1.Held{Kind: "Machine", Name: "d", UID: "d", What: "deleted", User: "eve", At: metav1.NewTime(now.Add(time.Minute))}) {
		t.Error("the same refusal is recorded again")
	}
	c, ok := Condition(g, machines, now)
	want := "* Machine d is not deleted (it is old), as eve requested at 2026-08-01T13:00:00Z: plan p1, which is being carried out, does not have that; `capstan apply --release cluster/demo -n ns` ends the plan"
	if !ok || c.Status != metav1.ConditionFalse || c.Reason != planv1.NotInPlanReason || c.Message != want {
		t.Errorf("%v %+v\nwant %s", ok, c, want)
	}
	if c, ok := Condition(newGuard(standing, func(s *planv1.PlanGuard) { s.Status = g.Status }), machines, now); !ok || c.Reason != planv1.PlanRequiredReason || !strings.Contains(c.Message, "Cluster demo requires a plan") {
		t.Errorf("a Cluster that requires plans has %+v", c)
	}
	if c, ok := Condition(newGuard(standing), machines, now); ok {
		t.Errorf("a Cluster that only requires plans has %+v", c)
	}
	if c, ok := Condition(newGuard(expired), machines, now); ok {
		t.Errorf("a plan that has expired shows %+v", c)
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var s planv1.PlanGuardStatus
	for i := range 3 * maxHeld {
		Hold(&s, planv1.Held{Kind: "Machine", Name: fmt.Sprint(i), Why: "x" + strings.Repeat("ä", maxWhy)})
	}
	last := s.Held[len(s.Held)-1]
	if len(s.Held) != maxHeld || last.Name != fmt.Sprint(3*maxHeld-1) || len(last.Why) > maxWhy || strings.ToValidUTF8(last.Why, "?") != last.Why {
		t.Errorf("%d refusals, the last one of %s with %d bytes", len(s.Held), last.Name, len(last.Why))
	}
}

func TestReplacesNamesFieldsThatReplace(t *testing.T) {
	t.Parallel()
	many := make([]planv1.Field, outcome.MaxFields)
	for i := range many {
		many[i].Path = fmt.Sprintf("metadata.labels.l%d", i)
	}
	tests := map[string]struct {
		kind   string
		fields []planv1.Field
		want   []string
	}{
		"version":                {"KubeadmControlPlane", []planv1.Field{{Path: "spec.version"}}, []string{"spec.version"}},
		"files of machines":      {"KubeadmControlPlane", []planv1.Field{{Path: "spec.kubeadmConfigSpec.files[0].content"}}, []string{"spec.kubeadmConfigSpec.files[0].content"}},
		"labels of machines":     {"KubeadmControlPlane", []planv1.Field{{Path: "spec.machineTemplate.metadata.labels.a"}}, nil},
		"timeouts":               {"MachineDeployment", []planv1.Field{{Path: "spec.template.spec.deletion.nodeDrainTimeoutSeconds"}}, nil},
		"taints":                 {"MachineDeployment", []planv1.Field{{Path: "spec.template.spec.taints[0].key"}}, nil},
		"template":               {"MachineDeployment", []planv1.Field{{Path: "spec.template.spec.infrastructureRef.name"}}, []string{"spec.template.spec.infrastructureRef.name"}},
		"restart":                {"MachineDeployment", []planv1.Field{{Path: "spec.rollout.after"}}, []string{"spec.rollout.after"}},
		"strategy":               {"MachineDeployment", []planv1.Field{{Path: "spec.rollout.strategy.type"}}, []string{"spec.rollout.strategy.type"}},
		"more replicas":          {"MachineDeployment", []planv1.Field{{Path: "spec.replicas", From: "2", To: "3"}}, nil},
		"fewer replicas":         {"MachineDeployment", []planv1.Field{{Path: "spec.replicas", From: "3", To: "2"}}, []string{"spec.replicas"}},
		"no replicas":            {"MachineDeployment", []planv1.Field{{Path: "spec.replicas", From: "3"}}, []string{"spec.replicas"}},
		"metadata":               {"MachineDeployment", []planv1.Field{{Path: "metadata.labels.a"}}, nil},
		"paused":                 {"Cluster", []planv1.Field{{Path: "spec.paused"}}, nil},
		"version of a topology":  {"Cluster", []planv1.Field{{Path: "spec.topology.version"}}, []string{"spec.topology.version"}},
		"variable named taints":  {"Cluster", []planv1.Field{{Path: "spec.topology.variables[taints].value.metadata.taints"}}, []string{"spec.topology.variables[taints].value.metadata.taints"}},
		"labels of a topology":   {"Cluster", []planv1.Field{{Path: "spec.topology.workers.machineDeployments[a].metadata.labels.x"}}, nil},
		"override named so":      {"Cluster", []planv1.Field{{Path: "spec.topology.workers.machineDeployments[a].variables.overrides[metadata].value"}}, []string{"spec.topology.workers.machineDeployments[a].variables.overrides[metadata].value"}},
		"fewer of a topology":    {"Cluster", []planv1.Field{{Path: "spec.topology.workers.machineDeployments[a].replicas", From: "3", To: "1"}}, []string{"spec.topology.workers.machineDeployments[a].replicas"}},
		"more than can be known": {"Cluster", many, []string{"spec.topology"}},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(tc.want, Replaces(tc.kind, tc.fields)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
