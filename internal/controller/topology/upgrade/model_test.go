// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed are versions in order; two are builds of one.
var listed = strings.Fields("v1.30.0 v1.31.0 v1.31.4 v1.32.0 v1.33.0+a v1.33.0+b v1.34.0 v1.35.1 v1.36.0 v1.37.0 v1.38.0")

func rank(v string) int { return slices.Index(listed, v) }

func minor(v string) (n int) {
	if v == "" { // none yet
		return 0
	}
	if _, err := fmt.Sscanf(v, "v1.%d", &n); err != nil {
		panic(err)
	}
	return n
}

// world simulates a Cluster with random delays, failures and changes of the target. It
// tracks events that the planner cannot see.
type world struct {
	*testing.T
	*rand.Rand
	calm    bool
	facts   Facts
	running map[GroupKey]string // the versions that machines run; the control plane's under the zero key
	left    map[GroupKey]int    // how long until they run the desired version

	now []string // questions of this reconcile that were answered with permission to continue
	log []string

	// Steps that hooks have permitted, and hooks that must still be called. The memory
	// of a process is lost with it, so only stored values count.
	created, begun, initialized bool
	after                       bool   // AfterControlPlaneUpgrade was called for the version of the control plane
	workers                     string // BeforeWorkersUpgrade was called for this version, AfterWorkersUpgrade not
	taken                       bool   // a step, since AfterClusterUpgrade was called
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 10)), running: map[GroupKey]string{}, left: map[GroupKey]int{}, after: true}
	w.facts = Facts{Target: listed[w.IntN(3)], Creating: true, Concurrency: 1 + w.IntN(2), Versions: listed, ControlPlane: ControlPlane{Kind: "Plane"}}
	if w.IntN(3) == 0 {
		w.facts.Versions, w.facts.PlanExtension = nil, "plan.example"
	}
	for range w.IntN(4) {
		w.add()
	}
	return w
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) broken(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.log, "\n"))
}

func (w *world) chance(percent int) bool { return !w.calm && w.IntN(100) < percent }

func (w *world) add() {
	kind := []string{MachineDeployment, MachinePool}[w.IntN(2)]
	name := fmt.Sprintf("g%d", w.IntN(100))
	g := Group{Kind: kind, Name: name, Object: "c-" + name, Wanted: true}
	if !slices.ContainsFunc(w.facts.Workers, func(o Group) bool { return o.Key() == g.Key() }) {
		w.facts.Workers = append(w.facts.Workers, g)
		slices.SortStableFunc(w.facts.Workers, func(a, b Group) int { return cmp.Compare(a.Kind, b.Kind) })
	}
}

// seen are the facts that a newly started process observes.
func (w *world) seen() Facts {
	f := w.facts
	f.Pending, f.Workers = slices.Clone(f.Pending), slices.Clone(f.Workers)
	f.ControlPlane.Reported = w.running[GroupKey{}]
	f.ControlPlane.Upgrading = f.ControlPlane.Exists && f.ControlPlane.Reported != "" && f.ControlPlane.Reported != f.ControlPlane.Version
	f.Initialized = f.ControlPlane.Exists && f.ControlPlane.Reported != ""
	for i, g := range f.Workers {
		f.Workers[i].Upgrading = g.Exists && w.left[g.Key()] > 0
	}
	return f
}

// idle reports whether the control plane and all groups run their desired version.
func (w *world) idle() bool {
	f := w.seen()
	return f.ControlPlane.Exists && f.ControlPlane.Reported == f.ControlPlane.Version && !slices.ContainsFunc(f.Workers, func(g Group) bool { return g.Upgrading })
}

// time simulates the passage of time: machines start and exit, users change the spec.
func (w *world) time() {
	for key, left := range w.left {
		if w.left[key] = max(0, left-1); left == 1 {
			w.running[key] = w.facts.ControlPlane.Version
			for _, g := range w.facts.Workers {
				if g.Key() == key {
					w.running[key] = g.Version
				}
			}
		}
	}
	f := &w.facts
	switch w.IntN(12) {
	case 0:
		w.change()
	case 1:
		if w.chance(50) {
			w.add()
		}
	case 2:
		if i := w.IntN(len(f.Workers) + 1); i < len(f.Workers) && w.chance(30) {
			f.Workers[i].Wanted = false
			w.note("%s is no longer desired", f.Workers[i].Object)
		}
	case 3:
		if i := w.IntN(len(f.Workers) + 1); i < len(f.Workers) {
			f.Workers[i].Deferred, f.Workers[i].Held = w.chance(30), w.chance(20)
		}
	case 4:
		if f.Annotations = nil; w.chance(30) {
			f.Annotations = []string{"before-upgrade.hook.cluster.cluster.x-k8s.io/x"}
		}
	}
}

// change changes the target as admission permits: forward when everything is done, and
// back to the version of the control plane at any time.
func (w *world) change() {
	f := &w.facts
	cp := f.ControlPlane.Version
	to := f.Target
	switch done := cp == f.Target && w.idle() && !slices.Contains(f.Pending, AfterClusterUpgrade); {
	case w.calm || !f.ControlPlane.Exists:
		return
	case cp != f.Target && w.chance(40):
		to = cp
	case done && !slices.ContainsFunc(f.Workers, func(g Group) bool { return g.Exists && g.Version != f.Target }) && rank(f.Target) < len(listed)-1:
		to = listed[rank(f.Target)+1+w.IntN(min(7, len(listed)-1-rank(f.Target)))]
	}
	if to == f.Target && w.chance(10) && rank(to) < len(listed)-1 { // by an annotation, at any time
		to = listed[rank(to)+1]
	}
	if to != f.Target {
		w.note("target %s", to)
		f.Target = to
	}
}

// steps is the plan of an extension that changes with each call.
func (w *world) steps(q Question) Answer {
	var a Answer
	worker := minor(q.FromWorkers)
	for _, v := range append([]string{q.From}, listed[rank(q.From)+1:rank(q.To)+1]...) {
		if v != q.From {
			a.ControlPlane = append(a.ControlPlane, v)
		}
		last := rank(v) == len(listed)-1 || minor(listed[rank(v)+1]) > worker+3 // workers cannot stay
		if q.FromWorkers != "" && rank(q.FromWorkers) < rank(v) && (v == q.To || last || w.IntN(3) == 0) {
			a.Workers, worker = append(a.Workers, v), minor(v)
		}
	}
	return a
}

func (w *world) answer(q Question) (Answer, error) {
	w.examine(q)
	switch {
	case w.chance(5):
		w.note("  %s fails", q.Hook)
		return Answer{}, errors.New("no answer")
	case q.Hook == GenerateUpgradePlan:
		return w.steps(q), nil
	case q.Hook != AfterControlPlaneInitialized && w.chance(30):
		w.note("  %s %s %s blocks", q.Hook, q.From, q.To)
		return Answer{RetryAfter: time.Second, Message: "wait"}, nil
	}
	w.note("  %s %s %s continues", q.Hook, q.From, q.To)
	w.now = append(w.now, q.Hook)
	return Answer{}, nil
}

// examine checks that a hook is called at a correct time.
func (w *world) examine(q Question) {
	f := w.seen()
	cp := f.ControlPlane
	there := cp.Exists && cp.Reported == cp.Version
	ok := there && (q.To == "" || q.To == cp.Version)
	switch q.Hook {
	case GenerateUpgradePlan:
		ok = cp.Exists
	case BeforeClusterCreate:
		ok = !cp.Exists && !w.created
	case AfterControlPlaneInitialized:
		ok = !w.initialized && cp.Reported != ""
	case BeforeClusterUpgrade:
		ok = w.idle() && !w.begun && len(f.Annotations) == 0 && q.From == cp.Version && q.To == f.Target
	case BeforeControlPlaneUpgrade:
		ok = w.idle() && (w.begun || w.let(BeforeClusterUpgrade)) && w.afterDone() && w.workersDone() && q.From == cp.Version && rank(q.To) > rank(q.From)
	case AfterControlPlaneUpgrade:
		ok = ok && !w.after
	case BeforeWorkersUpgrade:
		ok = ok && w.afterDone() && w.workers == ""
	case AfterWorkersUpgrade:
		ok = ok && w.afterDone() && w.workers == cp.Version && w.idle()
	case AfterClusterUpgrade:
		ok = ok && w.taken && w.afterDone() && w.workersDone() && w.idle() && q.To == f.Target
		for _, g := range f.Workers {
			ok = ok && (!g.Wanted || !g.Exists || g.Version == f.Target)
		}
	}
	if !ok {
		w.broken("it is not time for %v", q)
	}
}

// let reports whether a hook permitted to continue in this reconcile.
func (w *world) let(hook string) bool { return slices.Contains(w.now, hook) }

func (w *world) afterDone() bool { return w.after || w.let(AfterControlPlaneUpgrade) }

func (w *world) workersDone() bool { return w.workers == "" || w.let(AfterWorkersUpgrade) }

// reconcile plans once, and executes the plan up to a random failure.
func (w *world) reconcile() (busy bool) {
	f := w.seen()
	w.now = nil
	r, err := Planner.Make(f, w.answer)
	if err != nil && (r.Failure == nil || r.Unanswered == nil) {
		w.broken("%v", err)
	}
	if w.IntN(10) == 0 {
		if again, _ := Planner.Again(r); !reflect.DeepEqual(again, r.Plan) {
			w.broken("another plan from the same facts:\n%v\n%v", again, r.Plan)
		}
	}
	p := r.Plan
	busy = len(r.Answers) > 0
	if err != nil && w.chance(50) || w.chance(10) || p.Wait {
		return true
	}
	busy = w.store(p) || busy
	if w.chance(10) {
		return true
	}
	if f.ControlPlane.Exists != true || p.ControlPlane.Version != f.ControlPlane.Version {
		busy = true
		if !w.chance(10) {
			w.setControlPlane(p)
		}
	}
	for _, g := range f.Workers {
		d := p.Workers[g.Key()]
		if g.Wanted && d.State != PendingCreation && (!g.Exists || d.Version != g.Version) || !g.Wanted {
			busy = true
			if !w.chance(10) {
				w.setGroup(g, d)
			}
		}
		if w.chance(5) {
			return true
		}
	}
	return busy
}

// store simulates the one write of the Cluster, before all others.
func (w *world) store(p Plan) (changed bool) {
	f := &w.facts
	changed = f.Creating || p.Step != f.Step || !slices.Equal(p.Pending, f.Pending)
	if changed {
		w.note("  store %v, step %q", p.Pending, p.Step)
	}
	f.Creating, f.Pending, f.Step = false, p.Pending, p.Step
	w.created = true
	w.after = w.afterDone()
	w.initialized = w.initialized || w.let(AfterControlPlaneInitialized)
	w.begun = w.begun || w.let(BeforeClusterUpgrade)
	if w.let(AfterWorkersUpgrade) {
		w.workers = ""
	}
	if w.let(BeforeWorkersUpgrade) {
		w.workers = f.ControlPlane.Version
	}
	if w.let(AfterClusterUpgrade) {
		w.taken, w.begun = false, false
	}
	if p.Step == "" && !w.taken && f.Target == f.ControlPlane.Version { // ended before it started
		w.begun = false
	}
	return changed
}

func (w *world) setControlPlane(p Plan) {
	cp := &w.facts.ControlPlane
	from, to := cp.Version, p.ControlPlane.Version
	w.note("  control plane %s to %s", from, to)
	if cp.Exists {
		switch {
		case rank(to) <= rank(from):
			w.broken("the control plane goes back")
		case minor(to) > minor(from)+1:
			w.broken("the control plane leaves out a minor version")
		case !w.begun || !w.let(BeforeControlPlaneUpgrade) || !w.after || w.workers != "" || !w.idle():
			w.broken("a step that no hook released: %+v", w)
		}
		w.after, w.taken = false, true
	}
	cp.Version, cp.Exists = to, true
	w.left[GroupKey{}] = 1 + w.IntN(4)
	w.skew()
}

func (w *world) setGroup(g Group, d Decision) {
	i := slices.IndexFunc(w.facts.Workers, func(o Group) bool { return o.Key() == g.Key() })
	if !g.Wanted {
		w.note("  delete %s", g.Object)
		w.facts.Workers = slices.Delete(w.facts.Workers, i, i+1)
		delete(w.left, g.Key())
		return
	}
	cp := w.seen().ControlPlane
	w.note("  %s %s to %s", g.Object, g.Version, d.Version)
	switch {
	case cp.Exists && (cp.Upgrading || rank(d.Version) > rank(cp.Version)):
		w.broken("%s comes before the control plane", g.Object)
	case !g.Exists:
		w.running[g.Key()] = d.Version
	case rank(d.Version) <= rank(g.Version):
		w.broken("%s goes back", g.Object)
	case !w.after || w.workers != d.Version:
		w.broken("%s goes, and no hook has let it", g.Object)
	case g.Deferred || w.held(g):
		w.broken("%s is deferred, and goes", g.Object)
	case w.upgrading(g.Kind) >= w.facts.Concurrency:
		w.broken("%s is one too many", g.Object)
	default:
		w.taken = true
		w.left[g.Key()] = 1 + w.IntN(4)
	}
	w.facts.Workers[i].Version, w.facts.Workers[i].Exists = d.Version, true
	w.skew()
}

func (w *world) held(g Group) bool {
	for _, o := range w.facts.Workers {
		if o.Kind == g.Kind && o.Held && o.Wanted {
			return true
		}
		if o.Key() == g.Key() {
			break
		}
	}
	return false
}

func (w *world) upgrading(kind string) (n int) {
	for _, g := range w.facts.Workers {
		if g.Kind == kind && w.left[g.Key()] > 0 {
			n++
		}
	}
	return n
}

// skew checks how far workers are behind.
func (w *world) skew() {
	for _, g := range w.facts.Workers {
		if v := w.running[g.Key()]; g.Exists && minor(w.facts.ControlPlane.Version) > minor(v)+3 {
			w.broken("%s runs %s, the control plane is at %s", g.Object, v, w.facts.ControlPlane.Version)
		}
	}
}

// settle removes all blocks and failures, and checks the final state.
func (w *world) settle() {
	w.calm, w.facts.Annotations = true, nil
	w.note("calm")
	for i := range w.facts.Workers {
		w.facts.Workers[i].Deferred, w.facts.Workers[i].Held = false, false
	}
	for range 400 {
		busy := w.reconcile()
		if !busy && w.idle() {
			break
		}
		w.time()
	}
	f := w.facts
	if !w.idle() || f.ControlPlane.Version != f.Target || f.Step != "" || len(f.Pending) > 0 || w.taken || !w.after || w.workers != "" || !w.initialized {
		w.broken("it ends at %+v, %+v", f, w)
	}
	for _, g := range f.Workers {
		if !g.Exists || g.Version != f.Target {
			w.broken("it ends with %+v", g)
		}
	}
}

// TestAWorldOfUpgrades checks the invariants under random events: no hook is omitted or
// called at the wrong time, every blocking hook is waited for, no version decreases, no
// group is ahead of the control plane or too far behind it; and once nothing blocks any
// longer, the target is reached.
func TestAWorldOfUpgrades(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		w.note("seed %d", seed)
		for range 120 {
			w.reconcile()
			w.time()
		}
		w.settle()
	}
}
