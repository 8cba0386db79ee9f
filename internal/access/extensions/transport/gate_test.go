// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestBackoffDoublesUpToAMinute(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		2: time.Second, 3: 2 * time.Second, 4: 4 * time.Second, 7: 32 * time.Second, 8: time.Minute, 9: time.Minute, 1 << 40: time.Minute,
	} {
		if got := backoff(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}

// trouble is a server that responds with a status, with a clock and a pool.
type trouble struct {
	t      *testing.T
	status atomic.Int32
	served atomic.Int32
	clock  *testclock.FakeClock
	pool   *Pool
	server Endpoint
}

func newTrouble(t *testing.T) *trouble {
	t.Helper()
	w := &trouble{t: t, clock: testclock.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))}
	w.server = serve(t, func(rw http.ResponseWriter, r *http.Request) {
		w.served.Add(1)
		if status := int(w.status.Load()); status != 0 {
			rw.WriteHeader(status)
			return
		}
		answer(`{}`)(rw, r)
	}, nil)
	w.pool = newPool(t, Options{Clock: w.clock})
	return w
}

func (w *trouble) post() error {
	_, err := w.pool.Post(within(w.t), w.server, path, []byte(`{}`))
	return err
}

func (w *trouble) probe() error {
	_, err := w.pool.Probe(within(w.t), w.server, path, []byte(`{}`))
	return err
}

func TestAServerInTroubleIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newTrouble(t)
	w.status.Store(503)
	wantError(t, w.post(), Status, "503")
	wantError(t, w.post(), Status, "503") // the first failure has no effect
	refused := wantError(t, w.post(), Backoff, "not called before 2030-01-02T03:04:06Z after 2 failures in a row, the last: it answers POST "+path+" with 503")
	if want := w.clock.Now().Add(time.Second); !refused.Retry.Equal(want) {
		t.Errorf("retry at %v, want %v", refused.Retry, want)
	}
	w.clock.Step(time.Second - 1)
	wantError(t, w.post(), Backoff)
	w.clock.Step(1)
	wantError(t, w.post(), Status, "503")
	wantError(t, w.post(), Backoff, "not called before 2030-01-02T03:04:08Z after 3 failures")
	w.clock.Step(2 * time.Second)
	w.status.Store(0)
	for range 3 {
		if err := w.post(); err != nil {
			t.Errorf("after the server is back: %v", err)
		}
	}
	if n := w.served.Load(); n != 6 {
		t.Errorf("the server saw %d calls, want 6", n)
	}
	w.status.Store(500) // it starts over
	wantError(t, w.post(), Status)
	wantError(t, w.post(), Status)
	wantError(t, w.post(), Backoff, "after 2 failures")
}

func TestAProbeIsLetThroughAndCounts(t *testing.T) {
	t.Parallel()
	w := newTrouble(t)
	w.status.Store(500)
	for range 3 {
		wantError(t, w.probe(), Status)
	}
	wantError(t, w.post(), Backoff, "after 3 failures")
	w.status.Store(0)
	if err := errors.Join(w.probe(), w.post()); err != nil {
		t.Errorf("after a good probe: %v", err)
	}
}

func TestOnlyTroubleLeadsToBackoff(t *testing.T) {
	t.Parallel()
	for status, want := range map[int32]bool{400: false, 404: false, 409: false, 302: false, 204: false, 429: true, 500: true, 503: true, 599: true} {
		w := newTrouble(t)
		w.status.Store(status)
		for range 4 {
			_ = w.post()
		}
		if got := w.served.Load() < 4; got != want {
			t.Errorf("status %d: backoff %t, want %t", status, got, want)
		}
	}
}

func TestOtherServersAreNotConcerned(t *testing.T) {
	t.Parallel()
	w := newTrouble(t)
	w.status.Store(500)
	_, _ = w.post(), w.post()
	wantError(t, w.post(), Backoff)
	if _, err := w.pool.Post(within(t), serve(t, answer(`{}`), nil), path, nil); err != nil {
		t.Error(err)
	}
	w.pool.Forget(w.server)
	w.status.Store(0)
	if err := w.post(); err != nil {
		t.Errorf("a forgotten server: %v", err)
	}
}

func TestOneCallFindsOutWhetherTheServerIsBack(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	var status, served atomic.Int32
	status.Store(500)
	clock := testclock.NewFakeClock(time.Now())
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if status.Load() != 0 {
			w.WriteHeader(500)
			return
		}
		first := served.Add(1) == 1
		arrived <- struct{}{}
		if first { // the one that is canceled
			<-r.Context().Done()
			return
		}
		<-release
		answer(`{}`)(w, r)
	}, nil)
	p := newPool(t, Options{Clock: clock})
	post := func(ctx context.Context) error {
		_, err := p.Post(ctx, e, path, []byte(`{}`))
		return err
	}
	for range 2 {
		wantError(t, post(within(t)), Status)
	}
	status.Store(0)
	clock.Step(time.Second)

	ctx, cancel := context.WithCancel(within(t))
	first := make(chan error, 1)
	go func() { first <- post(ctx) }()
	<-arrived
	wantError(t, post(within(t)), Backoff)
	cancel() // its caller cancels it: the state is unknown, so the next may try
	wantError(t, <-first, Canceled)

	go func() { first <- post(within(t)) }()
	<-arrived
	wantError(t, post(within(t)), Backoff)
	release <- struct{}{}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	go func() { first <- post(within(t)) }()
	<-arrived
	close(release)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
}

func TestCallsThatFailTogetherAreOneFailure(t *testing.T) {
	t.Parallel()
	const together = 20
	var waiting sync.WaitGroup
	waiting.Add(together)
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		waiting.Done()
		waiting.Wait() // all are in progress
		w.WriteHeader(500)
	}, nil)
	clock := testclock.NewFakeClock(time.Now())
	p := newPool(t, Options{Clock: clock})
	for step, want := range []string{"", "after 2 failures", "after 3 failures"} {
		if step > 0 {
			waiting.Add(together)
		}
		var calls sync.WaitGroup
		for range together {
			calls.Go(func() {
				// Probes, since only one call is admitted later on.
				_, err := p.Probe(within(t), e, path, nil)
				wantReason(t, err, Status)
			})
		}
		calls.Wait()
		if want != "" {
			_, err := p.Post(within(t), e, path, nil)
			wantError(t, err, Backoff, want)
		}
	}
}

// wantReason is wantError for other goroutines than the test's.
func wantReason(t *testing.T, err error, reason Reason) {
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != reason {
		t.Errorf("got %v, want reason %s", err, reason)
	}
}

// TestACallDoesNotWaitForATurnThatItWillNotGet: a call to a server that keeps
// failing ends immediately, even if all its slots are taken by calls that hang.
func TestACallDoesNotWaitForATurnThatItWillNotGet(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Now())
	p := newPool(t, Options{Clock: clock})
	e := Endpoint{URL: "https://127.0.0.1:1"}
	s, err := p.server(e)
	if err != nil {
		t.Fatal(err)
	}
	for range MaxInFlight {
		s.slots <- struct{}{}
	}
	for range 2 {
		pass, _ := s.gate.admit(false)
		s.gate.settle(pass, inTrouble, errors.New("boom"))
	}
	_, err = p.Post(within(t), e, path, nil)
	wantError(t, err, Backoff, "boom")
}

// TestOverlappingCallsDoNotCloseGatePermanently covers overlapping calls: a try whose
// server is found to work again, or to be worse, by a probe in the meantime.
func TestOverlappingCallsDoNotCloseGatePermanently(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	tests := map[string]func(t *testing.T, g *gate, try pass){
		"probe succeeds, then the try fails": func(t *testing.T, g *gate, try pass) {
			probe, _ := g.admit(true)
			g.settle(probe, answered, nil)
			g.settle(try, inTrouble, boom)
			if g.failures != 0 {
				t.Error("an older call brought back the failures")
			}
		},
		"probe fails, then the try fails": func(t *testing.T, g *gate, try pass) {
			probe, _ := g.admit(true)
			g.settle(probe, inTrouble, boom)
			g.settle(try, inTrouble, boom)
			if g.failures != 3 {
				t.Errorf("%d failures, want 3", g.failures)
			}
		},
		"probe fails, then the try is given up": func(_ *testing.T, g *gate, try pass) {
			probe, _ := g.admit(true)
			g.settle(probe, inTrouble, boom)
			g.settle(try, unknown, nil)
		},
		"try says nothing": func(_ *testing.T, g *gate, try pass) { g.settle(try, unknown, nil) },
	}
	for name, overlap := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testclock.NewFakeClock(time.Now())
			g := &gate{clock: clock}
			for range 2 {
				p, err := g.admit(false)
				if err != nil {
					t.Fatal(err)
				}
				g.settle(p, inTrouble, boom)
			}
			clock.Step(time.Second)
			try, err := g.admit(false)
			if err != nil || !try.try {
				t.Fatal(try, err)
			}
			if err := g.refused(); err == nil || !strings.Contains(err.Error(), "boom") {
				t.Errorf("during the try: %v", err)
			}
			overlap(t, g, try)
			clock.Step(maxBackoff)
			if err := g.refused(); err != nil {
				t.Errorf("still shut: %v", err)
			}
		})
	}
}
