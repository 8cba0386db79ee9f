// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/simulated"
)

// TestMain collects garbage less often: the live heap is small, and most of what a
// reconcile allocates is garbage when it returns.
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)         // the live heap is below 100 MB
		debug.SetMemoryLimit(600 << 20) // more is alive for moments, when tests fork clusters
	}
	os.Exit(m.Run())
}

// story is a world whose story a test compares.
type story struct {
	*World
	t         testing.TB
	machines  localinfra.Backends
	decisions *decisions.Recorder
}

// New creates a World in which all of Capstan's controllers run on simulated
// machines, and write each status immediately.
func New(t testing.TB) *story { return newDebounced(t, 0) }

// newDebounced creates one in which a status that only informs waits.
func newDebounced(t testing.TB, debounce time.Duration) *story {
	t.Helper()
	return newWith(t, func(o *Options) { o.StatusDebounce = debounce })
}

// newWith creates one with other options.
func newWith(t testing.TB, change func(*Options)) *story {
	t.Helper()
	clock := NewClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	backend, err := simulated.New(simulated.Options{Dir: t.TempDir(), Clock: clock, Stepped: true, Unsynced: true, Random: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("close the simulated machines: %v", err)
		}
	})
	o := Options{Clock: clock, Backends: localinfra.Backends{Simulated: backend}}
	change(&o)
	return begin(t, o)
}

// fork creates a World with objects of another one, on the same machines.
func fork(t testing.TB, machines localinfra.Backends, clock *Clock, objects []client.Object) *story {
	t.Helper()
	return begin(t, Options{Clock: clock, Backends: machines, Objects: objects})
}

func begin(t testing.TB, o Options) *story {
	t.Helper()
	w, err := NewWorld(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{w, t, o.Backends, decisions.New()}
	t.Cleanup(s.leave)
	return s
}

// leave checks what readers have shared with the store, and releases the store. A
// test that continues in another world calls it, so that memory holds one world.
func (s *story) leave() {
	if s.store == nil {
		return
	}
	s.checkDecisions()
	for _, what := range s.store.read.spoiled() {
		s.t.Errorf("what is shared with the cache was changed: %s", what)
	}
	s.Mgmt, s.store, s.clusters, s.controllers = nil, nil, nil, nil
}

// must ends the test if the simulation fails.
func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%v\nso far:\n%s", err, s.Story())
	}
}

// context has the decisions of the controllers recorded.
func (s *story) context() context.Context { return decisions.Into(s.t.Context(), s.decisions) }

// Run lets the simulation reach steady state.
func (s *story) Run() {
	s.t.Helper()
	s.must(s.World.Run(s.context()))
}

// decode reads an object from JSON.
func (s *story) decode(text []byte, into any) {
	s.t.Helper()
	s.must(json.Unmarshal(text, into))
}

// RunFor lets time pass, and adds it to the story.
func (s *story) RunFor(d time.Duration) {
	s.t.Helper()
	s.Record("# %s pass", d)
	s.must(s.World.RunFor(s.context(), d))
}

// Golden compares the story with testdata/NAME.
func (s *story) Golden(name string) {
	s.t.Helper()
	builder.Golden(s.t, name, s.Story())
}

// objects are those of a kind.
func (s *story) objects(kind string) []client.Object {
	s.t.Helper()
	for _, gvk := range s.store.kinds {
		if gvk.Kind == kind {
			return s.store.all(gvk)
		}
	}
	return nil
}
