// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want     int
		machines []*clusterv1.Machine
		order    clusterv1.MachineSetDeletionOrder
		blocked  []string
		actions  []string
	}{
		"nothing to do":                                     {want: 1, machines: machines(healthyOne("a"))},
		"all missing ones are created":                      {want: 3, machines: machines(healthyOne("a")), actions: []string{"create n1: have 1, want 3", "create n2: have 1, want 3"}},
		"it creates at most as many as there are names":     {want: 9, actions: []string{"create n1: have 0, want 9", "create n2: have 0, want 9"}},
		"none is created while that is blocked":             {want: 1, blocked: []string{"cp is upgrading"}},
		"surplus goes although creation is blocked":         {want: 0, machines: machines(healthyOne("a")), blocked: []string{"cp is upgrading"}, actions: []string{"delete a: have 1, want 0"}},
		"a deleting machine still counts":                   {want: 1, machines: machines(deletingOne("a"))},
		"a deleting machine is the surplus":                 {want: 1, machines: machines(healthyOne("a"), deletingOne("b"))},
		"a marked machine goes before an unhealthy one":     {want: 1, machines: machines(bare("bad"), markedOne("marked")), actions: []string{"delete marked: have 2, want 1"}},
		"a machine in an update precedes an unhealthy one":  {want: 1, machines: machines(bare("bad"), annotated("upd", clusterv1.UpdateInProgressAnnotation)), actions: []string{"delete upd: have 2, want 1"}},
		"one without a Node goes before a healthy one":      {want: 1, machines: machines(healthyOne("a"), bare("b")), actions: []string{"delete b: have 2, want 1"}},
		"one with an unhealthy Node precedes a healthy one": {want: 1, machines: machines(healthyOne("a"), with(healthyOne("b"), clusterv1.MachineNodeHealthyCondition, metav1.ConditionFalse)), actions: []string{"delete b: have 2, want 1"}},
		"one that failed its check goes before healthy":     {want: 1, machines: machines(healthyOne("a"), with(healthyOne("b"), clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse)), actions: []string{"delete b: have 2, want 1"}},
		"a Node of unknown health is no reason to go":       {want: 1, machines: machines(healthyOne("a"), with(healthyOne("b"), clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown)), actions: []string{"delete a: have 2, want 1"}},
		"without an order names decide":                     {want: 1, machines: machines(healthyOne("b"), healthyOne("a")), order: clusterv1.RandomMachineSetDeletionOrder, actions: []string{"delete a: have 2, want 1"}},
		"the oldest first":                                  {want: 1, machines: machines(healthyOne("b"), healthyOne("a")), order: clusterv1.OldestMachineSetDeletionOrder, actions: []string{"delete b: have 2, want 1"}},
		"the newest first":                                  {want: 1, machines: machines(healthyOne("a"), healthyOne("b")), order: clusterv1.NewestMachineSetDeletionOrder, actions: []string{"delete b: have 2, want 1"}},
		"age does not rank the unhealthy":                   {want: 1, machines: machines(bare("b"), bare("a")), order: clusterv1.OldestMachineSetDeletionOrder, actions: []string{"delete a: have 2, want 1"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := texts(Plan(Facts{Want: tc.want, Machines: tc.machines, Order: tc.order, Blocked: tc.blocked, Names: names(2)}))
			if diff := cmp.Diff(tc.actions, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlanComesInBatches shows that a plan is never so long that its end is executed
// although it is no longer desired, nor created twice.
func TestPlanComesInBatches(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		have, deleting, want int
		creates, deletes     int
	}{
		"a million that are missing":                   {want: 1_000_000, creates: 10},
		"a million, of which many are there":           {have: 10_000, want: 1_000_000, creates: 200},
		"fewer than a batch":                           {have: 7, want: 15, creates: 8},
		"a hundred too many":                           {have: 100, want: 0, deletes: 10},
		"ten thousand too many":                        {have: 10_000, want: 0, deletes: 200},
		"those that are going make room for no others": {have: 10, deleting: 100, want: 100},
		"those that are going are in no batch":         {have: 13, deleting: 100, want: 0, deletes: 10},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []*clusterv1.Machine
			for i := range tc.deleting {
				all = append(all, deletingOne(fmt.Sprintf("d%d", i)))
			}
			for i := range tc.have {
				all = append(all, healthyOne(fmt.Sprintf("h%d", i)))
			}
			f := Facts{Want: tc.want, Machines: all, Names: names(1000)}
			if got := f.Missing(); got != tc.creates {
				t.Errorf("%d names are needed, want %d", got, tc.creates)
			}
			creates, deletes := 0, 0
			for _, a := range Plan(f) {
				switch a := a.(type) {
				case Create:
					creates++
				case Delete:
					deletes++
					if a.Name[0] != 'h' {
						t.Errorf("%s, which is being deleted already", a)
					}
				}
			}
			if creates != tc.creates || deletes != tc.deletes {
				t.Errorf("%d creations and %d deletions, want %d and %d", creates, deletes, tc.creates, tc.deletes)
			}
		})
	}
}

// TestPlanDoesNotDependOnTheOrderOfItsInput shows that a cache may list the
// Machines as it likes.
func TestPlanDoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	t.Parallel()
	ms := machines(healthyOne("a"), bare("b"), markedOne("c"), deletingOne("d"), healthyOne("e"))
	want := texts(Plan(Facts{Want: 2, Machines: ms, Names: names(5)}))
	for seed := range uint64(20) {
		shuffled := slices.Clone(ms)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, texts(Plan(Facts{Want: 2, Machines: shuffled, Names: names(5)}))); diff != "" {
			t.Fatalf("seed %d: actions (-want +got):\n%s", seed, diff)
		}
	}
}

// TestStory runs the planner on simulated Machines until steady state, and compares the
// story with a golden file that a reviewer can read. Between rounds new Machines become
// healthy and deleted ones disappear.
func TestStory(t *testing.T) {
	t.Parallel()
	var story strings.Builder
	world, free := machines(healthyOne("a")), names(10)
	for _, want := range []int{3, 1, 0} {
		fmt.Fprintf(&story, "# want %d\n", want)
		for round := 1; ; round++ {
			acts := Plan(Facts{Want: want, Machines: world, Names: free})
			free = free[creations(acts):]
			if len(acts) == 0 && len(world) == want {
				break
			}
			for _, a := range acts {
				fmt.Fprintf(&story, "round %d: %s\n", round, a)
			}
			world = after(world, acts)
		}
	}
	builder.Golden(t, "up-then-down.txt", story.String())
}

func after(world []*clusterv1.Machine, acts []Action) (next []*clusterv1.Machine) {
	gone := map[string]bool{}
	for _, a := range acts {
		switch a := a.(type) {
		case Create:
			next = append(next, healthyOne(a.Name))
		case Delete:
			gone[a.Name] = true
		}
	}
	for _, m := range world {
		switch {
		case gone[m.Name]:
			next = append(next, deletingOne(m.Name))
		case m.DeletionTimestamp.IsZero():
			next = append(next, m)
		}
	}
	return next
}

func texts(acts []Action) (out []string) {
	for _, a := range acts {
		out = append(out, a.String())
	}
	return out
}

// machines sets the creation time of each Machine a minute after that of the previous
// one.
func machines(ms ...*clusterv1.Machine) []*clusterv1.Machine {
	for i, m := range ms {
		m.CreationTimestamp = metav1.NewTime(time.Unix(0, 0).Add(time.Duration(i) * time.Minute))
	}
	return ms
}

func bare(name string) *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func healthyOne(name string) *clusterv1.Machine {
	m := bare(name)
	m.Status.NodeRef.Name = name
	return with(m, clusterv1.MachineNodeHealthyCondition, metav1.ConditionTrue)
}

func deletingOne(name string) *clusterv1.Machine {
	m := bare(name)
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return m
}

func markedOne(name string) *clusterv1.Machine {
	return annotated(name, clusterv1.DeleteMachineAnnotation)
}

func annotated(name, key string) *clusterv1.Machine {
	m := healthyOne(name)
	m.Annotations = map[string]string{key: ""}
	return m
}

func with(m *clusterv1.Machine, condition string, status metav1.ConditionStatus) *clusterv1.Machine {
	m.Status.Conditions = append(slices.DeleteFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == condition }),
		metav1.Condition{Type: condition, Status: status})
	return m
}

func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("n%d", i+1))
	}
	return all
}

func creations(acts []Action) (n int) {
	for _, a := range acts {
		if _, is := a.(Create); is {
			n++
		}
	}
	return n
}

func TestPending(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ topology, step, controlPlane, want string }{
		"no topology":                         {"", "", "v1.34.0", ""},
		"at the version of the topology":      {"v1.34.0", "", "v1.34.0", ""},
		"an upgrade that has not started":     {"v1.34.0", "", "v1.31.0", "v1.34.0"},
		"at the step of an upgrade":           {"v1.34.0", "v1.32.0", "v1.32.0", ""},
		"a step that is about to be taken":    {"v1.34.0", "v1.32.0", "v1.31.0", "v1.32.0"},
		"back to the version that it had":     {"v1.31.0", "v1.32.0", "v1.31.0", ""},
		"builds of one version are different": {"v1.34.0+b2", "", "v1.34.0+b1", "v1.34.0+b2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clusterv1.Cluster{}
			c.Spec.Topology.Version = tc.topology
			c.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: tc.step}
			if got := Pending(c, tc.controlPlane); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// BenchmarkPlan chooses ten of 500 Machines to delete.
func BenchmarkPlan(b *testing.B) {
	f := Facts{Want: 490, Order: clusterv1.NewestMachineSetDeletionOrder}
	for i := range 500 {
		f.Machines = append(f.Machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("m-%d", i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i*7919%500), 0)),
		}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Plan(f)); n != 10 {
			b.Fatalf("%d actions, want 10", n)
		}
	}
}

// recorded is a plan with its input, in a form that can be stored.
type recorded struct {
	Facts Facts
	Plan  []string
}

func TestARecordedPlanIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Facts{
		"recorded-creations": {Want: 4, Machines: machines(healthyOne("a"), deletingOne("b")), Names: names(3)},
		"recorded-deletions": {
			Want: 1, Machines: machines(healthyOne("a"), healthyOne("b"), markedOne("c")), Order: clusterv1.NewestMachineSetDeletionOrder,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(recorded{f, texts(Plan(f))}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			builder.Golden(t, name+".json", string(text)+"\n")
			var r recorded
			if text, err = os.ReadFile(filepath.Join("testdata", name+".json")); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Plan, texts(Plan(r.Facts))); diff != "" || len(r.Plan) == 0 {
				t.Errorf("plan (-recorded +made again):\n%s", diff)
			}
		})
	}
}
