// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// plant has the controllers panic at an object of a name, for the duration of a test.
func plant(t *testing.T, resource schema.GroupResource, name string) {
	t.Helper()
	real := reconcilers[resource]
	t.Cleanup(func() { reconcilers[resource] = real })
	reconcilers[resource] = func(c *Controllers, key store.Key) (time.Time, error) {
		if key.Name == name && !strings.Contains(string(c.store.Entries().Get(key).Raw), `"repaired"`) {
			panic("planted")
		}
		return real(c, key)
	}
}

// controllers returns a store with controllers, of which Inline ones are done when a
// write returns.
func controllers(t *testing.T, s *objects.Store, c clock.WithDelayedExecution, log logr.Logger, inline bool) *Controllers {
	t.Helper()
	work := Start(Options{Store: s, Clock: c, Log: log, Inline: inline})
	t.Cleanup(work.Close)
	return work
}

func newStore(t *testing.T, c clock.PassiveClock, log logr.Logger) *objects.Store {
	t.Helper()
	s, err := objects.Open(objects.Options{Clock: c, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func replicaSet(name string) *appsv1.ReplicaSet {
	labels := map[string]string{"set": name}
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
	}}
}

func add(t *testing.T, s *objects.Store, obj objects.Object) {
	t.Helper()
	if err := s.Add(obj); err != nil {
		t.Fatal(err)
	}
}

// warnings returns the Events of a namespace as OBJECT REASON.
func warnings(t *testing.T, s *objects.Store) string {
	t.Helper()
	all, err := s.All(corev1.SchemeGroupVersion.WithResource("events"), "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, u := range all {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}}
		if err := s.Load(e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+" "+e.Reason)
	}
	return strings.Join(out, ", ")
}

// replicas returns the number of Pods that a ReplicaSet reports.
func replicas(t *testing.T, s *objects.Store, name string) int32 {
	t.Helper()
	set := replicaSet(name)
	if err := s.Load(set); err != nil {
		t.Fatal(err)
	}
	return set.Status.Replicas
}

// TestObjectThatPanicsIsLeftOutUntilItChanges does not run in parallel: it plants a
// panic in what all controllers share.
func TestObjectThatPanicsIsLeftOutUntilItChanges(t *testing.T) {
	plant(t, replicaSets, "bad")
	log, panics := counted()
	now := testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	s := newStore(t, now, log)
	add(t, s, replicaSet("bad")) // a restart finds it
	work := controllers(t, s, now, log, true)
	add(t, s, replicaSet("good"))
	if n := replicas(t, s, "good"); n != 1 {
		t.Errorf("got %d Pods of the other ReplicaSet, want 1", n)
	}
	for range 3 { // the ReplicaSet is left out while other objects change
		now.Step(time.Hour)
		work.Reconcile()
		add(t, s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "orphan-"}, Spec: replicaSet("").Spec.Template.Spec})
	}
	if *panics != 1 {
		t.Errorf("got %d panics in the log, want 1", *panics)
	}
	if got, want := warnings(t, s), "ReplicaSet bad ControllerPanicked"; got != want {
		t.Errorf("got Events %q, want %q", got, want)
	}
	if err := objects.Modify(s, replicaSet("bad"), func(r *appsv1.ReplicaSet) error {
		r.Labels = map[string]string{"repaired": ""}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := replicas(t, s, "bad"); n != 1 || *panics != 1 {
		t.Errorf("got %d Pods of the changed ReplicaSet and %d panics, want 1 and 1", n, *panics)
	}
}

// TestWorkerContinuesAfterPanic has a panic in the goroutine of a cluster, where it
// would end the process.
func TestWorkerContinuesAfterPanic(t *testing.T) {
	plant(t, replicaSets, "bad")
	log, _ := counted()
	s := newStore(t, clock.RealClock{}, log)
	work := controllers(t, s, clock.RealClock{}, log, false)
	for _, name := range []string{"bad", "good", "bad-too"} {
		add(t, s, replicaSet(name))
		work.worker.Wait()
	}
	if n := replicas(t, s, "good") + replicas(t, s, "bad-too"); n != 2 {
		t.Errorf("got %d Pods of the other ReplicaSets, want 2", n)
	}
}

// brokenClock panics once per planted panic.
type brokenClock struct {
	*testclock.FakeClock
	planted bool
}

func (b *brokenClock) Now() time.Time {
	if b.planted {
		b.planted = false
		panic("planted")
	}
	return b.FakeClock.Now()
}

func TestWorkerStartsAgainAfterPanicOfItsOwn(t *testing.T) {
	log, panics := counted()
	now := &brokenClock{FakeClock: testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))}
	s := newStore(t, now.FakeClock, log)
	work := controllers(t, s, now, log, true)
	work.mu.Lock()
	work.changed[store.Key{Resource: replicaSets, Namespace: "default", Name: "absent"}] = true
	work.mu.Unlock()
	now.planted = true
	work.Reconcile()
	if *panics != 1 {
		t.Fatalf("got %d panics, want 1", *panics)
	}
	add(t, s, replicaSet("good"))
	if n := replicas(t, s, "good"); n != 1 {
		t.Errorf("got %d Pods, want 1", n)
	}
}

// counted returns a logger, and the number of panics that it has logged.
func counted() (logr.Logger, *int) {
	n := 0
	return funcr.New(func(_, args string) {
		if strings.Contains(args, "Observed a panic") && strings.Contains(args, "planted") {
			n++
		}
	}, funcr.Options{}), &n
}
