// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// facts and plan are those of a planner of the tests.
type (
	facts struct {
		Node  *corev1.Node `json:"node,omitempty"`
		Text  string       `json:"text,omitempty"`
		Now   time.Time    `json:"now,omitzero"`
		Token string       `json:"token,omitempty"`
	}
	plan struct {
		Actions []fmt.Stringer `json:"actions,omitempty"`
		Since   time.Time      `json:"since,omitzero"`
		After   time.Duration  `json:"after,omitempty"`
		Node    *corev1.Node   `json:"node,omitempty"`
	}
	create struct{ Name string }
)

func (c create) String() string { return "create " + c.Name }

// reconcile returns the context of a reconcile of a Node at a time.
func reconcile(t *testing.T, r *Recorder, name string, at time.Duration) context.Context {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", Generation: 3}}
	return Of(Into(t.Context(), r), "node", node, start.Add(at))
}

func creating(names ...string) (p plan) {
	for _, n := range names {
		p.Actions = append(p.Actions, create{n})
	}
	return p
}

// all returns all decisions, decoded.
func all(t *testing.T, r *Recorder) (out []Decision) {
	t.Helper()
	for _, entry := range r.All() {
		d, err := Read(entry)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func TestAddRecordsDecision(t *testing.T) {
	t.Parallel()
	r := New()
	Add(reconcile(t, r, "a", time.Second), facts{Text: "two <are> missing"}, creating("x", "y"))
	want := Decision{
		Time: start.Add(time.Second), Controller: "node", Planner: "decisions.plan", Object: Object{"Node", "ns", "a", "u"}, Generation: 3,
		Facts: json.RawMessage(`{"text":"two <are> missing"}`), Plan: json.RawMessage(`{"actions":["create x","create y"]}`),
	}
	if diff := cmp.Diff([]Decision{want}, all(t, r)); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestAddRecordsOnlyDifferentDecisions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, second plan
		want          int
	}{
		"the same":            {creating("a"), creating("a"), 1},
		"another action":      {creating("a"), creating("b"), 2},
		"nothing any more":    {creating("a"), plan{}, 2},
		"nothing at all":      {plan{}, plan{}, 0},
		"later":               {plan{Since: start, After: 1}, plan{Since: start.Add(1), After: 2}, 1},
		"another version":     {plan{Node: node("a", "1")}, plan{Node: node("a", "2")}, 1},
		"the first after all": {plan{}, creating("a"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New()
			Add(reconcile(t, r, "a", 0), facts{Text: "1", Now: start}, tc.first)
			Add(reconcile(t, r, "a", 1), facts{Text: "2", Now: start.Add(1)}, tc.second)
			if n, _ := r.Size(); n != tc.want {
				t.Errorf("%d decisions, want %d: %s", n, tc.want, r.All())
			}
		})
	}
}

func node(name, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func TestMakeRecordsAnswersAndErrors(t *testing.T) {
	t.Parallel()
	planner := questions.Planner[facts, string, int, plan](func(_ facts, ask *questions.Asker[string, int]) (plan, error) {
		for _, q := range []string{"a", "b"} {
			if _, known := ask.Ask(q); !known {
				return creating(q), nil
			}
		}
		return plan{}, errors.New("impossible")
	})
	r := New()
	for i, fails := range []string{"b", "b", ""} {
		_, err := Make(reconcile(t, r, "a", time.Duration(i)), planner, facts{}, func(q string) (int, error) {
			if q == fails {
				return 0, errors.New("no answer")
			}
			return len(q), nil
		})
		if err == nil {
			t.Error("no error")
		}
	}
	var got []string
	for _, d := range all(t, r) {
		got = append(got, fmt.Sprintf("%s %s %s %s", d.Answers, d.Unanswered, d.Plan, d.Error))
	}
	want := []string{
		`[{"answer":1,"question":"a"}] "b" {"actions":["create b"]} no answer`,
		`[{"answer":1,"question":"a"},{"answer":1,"question":"b"}]  {} impossible`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestRecorderIsBounded(t *testing.T) {
	t.Parallel()
	r := New()
	for i := range 2 * maxPerObject {
		Add(reconcile(t, r, "often", 0), facts{}, creating(fmt.Sprint(i)))
	}
	if n, _ := r.Size(); n != maxPerObject {
		t.Errorf("%d decisions of one object", n)
	}
	if last := all(t, r)[maxPerObject-1]; string(last.Plan) != fmt.Sprintf(`{"actions":["create %d"]}`, 2*maxPerObject-1) {
		t.Errorf("the last is %s", last.Plan)
	}
	large := map[string]string{}
	for i := range maxInputs/maxText - 1 {
		large[fmt.Sprint(i)] = strings.Repeat("a", maxText-50)
	}
	of := creating("x")
	r.total = 16 * maxInputs
	for i := range 2 * r.total / maxInputs {
		Add(reconcile(t, r, fmt.Sprint(i), 0), node2{Labels: large}, of)
	}
	if n, size := r.Size(); size > r.total || n < r.total/maxInputs {
		t.Errorf("%d decisions with %d bytes, the limit is %d", n, size, r.total)
	}
	if got := r.List("node", "ns", "often"); got != nil {
		t.Errorf("the object without recent decisions has still %d", len(got))
	}
}

// TestRecorderEvictsOnlyLargestNamespace has a namespace with more decisions than fit, and
// one whose only decision is older.
func TestRecorderEvictsOnlyLargestNamespace(t *testing.T) {
	t.Parallel()
	r := New()
	r.total = 16 * maxInputs
	large := map[string]string{}
	for i := range maxInputs/maxText - 1 {
		large[fmt.Sprint(i)] = strings.Repeat("a", maxText-50)
	}
	in := func(namespace string, i int) context.Context {
		obj := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i)}}
		return Of(Into(t.Context(), r), "node", obj, start)
	}
	Add(in("small", 0), facts{}, creating("x"))
	for i := range 3 * r.total / maxInputs {
		Add(in("large", i), node2{Labels: large}, creating("x"))
		Add(in("other", i), facts{}, creating("x"))
	}
	if got := len(r.List("node", "small", "0")); got != 1 {
		t.Errorf("%d decisions of the namespace with one", got)
	}
	if got := len(r.List("node", "other", "0")); got != 1 {
		t.Errorf("%d decisions of an object of the smaller namespace", got)
	}
	if got := len(r.List("node", "large", "0")); got != 0 {
		t.Errorf("%d decisions of the oldest object of the largest namespace", got)
	}
	if _, size := r.Size(); size > r.total {
		t.Errorf("%d bytes, the limit is %d", size, r.total)
	}
}

// naming are facts with generated names.
type naming struct{ Names []string }

func (n naming) NewNames() []string { return n.Names }

// TestAddRecordsRefusedCreationOnce has a controller decide again and again to create an
// object, with another generated name each time, also after a restart.
func TestAddRecordsRefusedCreationOnce(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/decisions"
	for restart := range 2 {
		r := New()
		r.Keep(path, discard)
		for i := range 2 * maxPerObject {
			name := fmt.Sprintf("set-%d-%d", restart, i)
			Add(reconcile(t, r, "a", time.Duration(i)), naming{[]string{name}}, creating(name))
		}
		if n := len(r.List("node", "ns", "a")); n != 1 {
			t.Errorf("%d decisions after %d restarts, want 1", n, restart)
		}
		Add(reconcile(t, r, "b", 0), naming{[]string{"x-1", "x-2"}}, creating("x-1"))
		Add(reconcile(t, r, "b", 1), naming{[]string{"x-1", "x-2"}}, creating("x-1", "x-2"))
		if got := len(r.List("node", "ns", "b")); got != 2*(restart+1) {
			t.Errorf("%d decisions to create different numbers of objects after %d restarts", got, restart)
		}
		r.Close()
	}
}

// node2 are facts of any size.
type node2 struct{ Labels map[string]string }

func TestAddOmitsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	large := map[string]string{}
	for i := range 2 * maxInputs / maxText {
		large[fmt.Sprint(i)] = strings.Repeat("a", maxText)
	}
	var many []string
	for range maxPlan {
		many = append(many, "m")
	}
	for name, tc := range map[string]struct {
		facts any
		plan  plan
		want  string
	}{
		"facts":                  {node2{large}, creating("a"), "facts and answers have 132"},
		"plan":                   {facts{}, creating(many...), "the plan has 18"},
		"what cannot be encoded": {node3{make(chan int)}, creating("a"), "the facts cannot be encoded: json: unsupported type: chan int"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := New()
			Add(reconcile(t, r, "a", 0), tc.facts, tc.plan)
			got := all(t, r)
			if len(got) != 1 || !strings.HasPrefix(got[0].Omitted, tc.want) {
				t.Errorf("omitted %q, want %q", got[0].Omitted, tc.want)
			}
		})
	}
}

// node3 are facts that have no JSON form.
type node3 struct{ C chan int }

func TestNilRecorderRecordsNothing(t *testing.T) {
	t.Parallel()
	var r *Recorder
	Add(reconcile(t, r, "a", 0), facts{}, creating("a"))
	r.Close()
	if n, _ := r.Size(); n != 0 || r.All() != nil || r.List("node", "ns", "a") != nil {
		t.Errorf("%d decisions", n)
	}
}

func TestRecorderIsForSeveralGoroutines(t *testing.T) {
	t.Parallel()
	r := New()
	r.Keep(t.TempDir()+"/decisions", discard)
	var wg sync.WaitGroup
	for i := range 8 {
		ctx := reconcile(t, r, fmt.Sprint(i), 0)
		wg.Go(func() {
			for n := range 50 {
				Add(ctx, facts{}, creating(fmt.Sprint(n)))
				r.List("node", "ns", "1")
			}
		})
	}
	wg.Wait()
	r.Close()
	if n, _ := r.Size(); n != 8*50 {
		t.Errorf("%d decisions", n)
	}
}

func TestListFindsObjectsOfName(t *testing.T) {
	t.Parallel()
	r := New()
	Add(reconcile(t, r, "a", 0), facts{}, creating("1"))
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "second"}}
	Add(Of(Into(t.Context(), r), "node", again, start), facts{}, creating("1"))
	Add(reconcile(t, r, "b", 0), facts{}, creating("1"))
	for kind, want := range map[string]int{"node": 2, "Node": 2, "nodes": 0} {
		if got := len(r.List(kind, "ns", "a")); got != want {
			t.Errorf("%d decisions of %s a, want %d", got, kind, want)
		}
	}
}

// TestDecisionsNeedNoRecorder: tests and other programs have none.
func TestDecisionsNeedNoRecorder(t *testing.T) {
	t.Parallel()
	var none *Recorder
	ctx := Of(Into(t.Context(), none), "node", node("a", "1"), start)
	Add(ctx, facts{}, creating("a"))
	if n, size := none.Size(); n != 0 || size != 0 || none.All() != nil || none.List("Node", "ns", "a") != nil {
		t.Errorf("%d decisions of %d bytes", n, size)
	}
	none.Close()
}
