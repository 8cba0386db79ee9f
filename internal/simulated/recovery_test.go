// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// TestClusterStartsWithObjectThatCannotBeHandled has a ReplicaSet in the store that
// validation would refuse, and at which the controllers panic at each start of a plane.
func TestClusterStartsWithObjectThatCannotBeHandled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	ctx := t.Context()
	set := func(name string) *appsv1.ReplicaSet {
		labels := map[string]string{"set": name}
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}}},
		}}
	}
	if _, err := l.client().AppsV1().ReplicaSets("default").Create(ctx, set("bad"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	entries := l.b.clusters[l.cluster.Key()].server.Store().Entries()
	key := store.Key{Resource: schema.GroupResource{Group: "apps", Resource: "replicasets"}, Namespace: "default", Name: "bad"}
	was := entries.Get(key)
	if _, err := entries.Put(key, was, func(uint64) (*store.Entry, error) {
		spoiled := *was
		spoiled.Raw = bytes.Replace(was.Raw, []byte(`"replicas":1,"selector"`), []byte(`"selector"`), 1)
		if bytes.Equal(spoiled.Raw, was.Raw) {
			t.Errorf("no replicas in %s", was.Raw)
		}
		return &spoiled, nil
	}); err != nil {
		t.Fatal(err)
	}
	l.restart()
	if _, err := l.client().AppsV1().ReplicaSets("default").Create(ctx, set("good"), metav1.CreateOptions{}); err != nil {
		t.Fatalf("the API server does not serve: %v", err)
	}
	watch, err := l.client().AppsV1().ReplicaSets("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "0", TimeoutSeconds: new(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if s, ok := event.Object.(*appsv1.ReplicaSet); ok && s.Name == "good" && s.Status.Replicas > 0 {
			events, err := l.client().CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=bad"})
			if err != nil || len(events.Items) != 1 {
				t.Errorf("got Events %v of the ReplicaSet, %v, want one", events, err)
			}
			return
		}
	}
	t.Error("the controllers do not handle other objects")
}

// panickingClock panics at one of its calls.
type panickingClock struct {
	clock.RealClock
	calls, at atomic.Int64
}

func (p *panickingClock) Now() time.Time {
	if p.calls.Add(1) == p.at.Load() {
		panic("planted")
	}
	return p.RealClock.Now()
}

// TestBackendWorksAfterAnyPanic lets each call of the clock panic during the start
// of a machine: no lock stays held, and another machine starts.
func TestBackendWorksAfterAnyPanic(t *testing.T) {
	t.Parallel()
	for at := int64(1); ; at++ {
		var c panickingClock
		l := newLabWith(t, &c)
		c.calls.Store(0)
		c.at.Store(at)
		err := recovery.Call(t.Context(), func() error {
			_, err := l.b.ensureMachine(l.machine("cp-0", l.initData()))
			return err
		})
		c.at.Store(0)
		crash, panicked := errors.AsType[*recovery.Error](err)
		if err != nil && !panicked {
			t.Fatalf("call %d: %v", at, err)
		}
		t.Logf("call %d: %v", at, crash)
		m := l.machine("cp-0", nil)
		if s, err := l.b.ensureMachine(m); err != nil || !s.Done() && s.Stage != Failed {
			t.Errorf("call %d: the machine is at %s, %v, want its end or a failure", at, s.Stage, err)
		}
		if err := l.b.deleteMachine(m); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if err := l.b.deleteCluster(l.cluster); err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if err := l.b.Close(); err != nil {
			t.Error(err)
		}
		if c.calls.Load() < at {
			return
		}
	}
}

// TestClusterThatDoesNotOpenStopsListening opens a stored cluster, moved so that all
// its records are written again, of which the record of a machine cannot be written:
// the API server had started by then.
func TestClusterThatDoesNotOpenStopsListening(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, string(l.cluster.UID), machineFile("uid-cp-1"))
	var m machine
	if err := readJSON(file, &m); err != nil {
		t.Fatal(err)
	}
	stored := m
	m.UID = types.UID(strings.Repeat("u", 300)) // no file can have this name
	if err := writeJSON(file, &m, false); err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Dir: l.dir, Clock: l.clock, Guard: &l.guard, Unsynced: true})
	if err != nil {
		t.Fatal(err)
	}
	l.b, l.cluster.Name = b, "moved"
	if _, err := b.ensureCluster(l.cluster); err == nil || !strings.Contains(err.Error(), "keep the machine") {
		t.Fatalf("got %v, want the record of the machine not to be written", err)
	}
	if b.listeners.Handler(l.server()) != nil {
		t.Error("its API server still listens")
	}
	if addr := netip.MustParseAddrPort(l.server()); l.guard.Check(addr) == nil {
		t.Errorf("Pods of the plane still reach %s", addr)
	}
	if err := writeJSON(file, &stored, false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ensureCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	l.node("cp-1")
}
