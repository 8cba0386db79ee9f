// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// eventually polls for an effect of another goroutine that sends no notification.
func eventually(t *testing.T, what func() error) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		err := what()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// ours returns the goroutines that a pool can leave behind: those of net/http's
// client and of this package's code.
func ours() (found []string) {
	all := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		for _, mark := range []string{"persistConn", "http2ClientConn", "http.(*Transport)", "transport.(*server)", "transport.(*Pool)"} {
			if strings.Contains(stack, mark) {
				found = append(found, stack)
				break
			}
		}
	}
	return found
}

func noneLeft() error {
	if left := ours(); len(left) > 0 {
		return fmt.Errorf("%d goroutines are left, such as:\n%s", len(left), left[0])
	}
	return nil
}

// TestCloseAndForgetLeaveNoGoroutine is not parallel, like all tests here that
// count goroutines: those of other tests would be counted as well.
func TestCloseAndForgetLeaveNoGoroutine(t *testing.T) {
	silent := serveRaw(t, true, hold) // never completes the handshake
	mute := serveRaw(t, false, func(c net.Conn) { hear(c); hold(c) })
	endpoints := map[string]Endpoint{
		"idle over HTTP/1": serve(t, answer(`{}`), http1), "idle over HTTP/2": serve(t, answer(`{}`), nil),
		"given up in the handshake": silent, "given up before the answer": mute,
	}
	ends := map[string]func(*Pool, Endpoint){
		"Close":  func(p *Pool, _ Endpoint) { p.Close() },
		"Forget": func(p *Pool, e Endpoint) { p.Forget(e) },
	}
	for name, e := range endpoints {
		for how, end := range ends {
			t.Run(name+"/"+how, func(t *testing.T) {
				p := newPool(t, Options{})
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if strings.HasPrefix(name, "idle") {
					ctx = within(t)
				}
				_, err := p.Post(ctx, e, path, []byte(`{}`))
				if idle := err == nil; idle != strings.HasPrefix(name, "idle") {
					t.Fatal(err)
				}
				end(p, e)
				eventually(t, noneLeft)
			})
		}
	}
}

// hangs is a Resolver that blocks until its context ends.
type hangs struct{ asked chan struct{} }

func (h hangs) Resolve(ctx context.Context, _, _ string, _ int32) (string, error) {
	h.asked <- struct{}{}
	<-ctx.Done()
	return "", ctx.Err()
}

func TestCloseEndsConnectionsThatAreBeingMade(t *testing.T) {
	asked := make(chan struct{})
	p := newPool(t, Options{Services: hangs{asked}})
	done := make(chan error)
	go func() {
		_, err := p.Post(within(t), Endpoint{Service: &Service{Namespace: "ns", Name: "svc"}}, path, nil)
		done <- err
	}()
	<-asked
	go p.Close()
	select {
	case err := <-done:
		wantError(t, err, Canceled)
	case <-time.After(connectTimeout / 2):
		t.Error("the call continues")
	}
	eventually(t, noneLeft)
}

func TestCloseEndsCallsUnderWay(t *testing.T) {
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			e := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}, edit)
			p := newPool(t, Options{})
			errs := make(chan error)
			const calls = MaxInFlight + 10 // some wait for their turn
			for range calls {
				go func() {
					_, err := p.Post(within(t), e, path, []byte(`{}`))
					errs <- err
				}()
			}
			for range MaxInFlight {
				<-arrived
			}
			closed := make(chan struct{})
			go func() { p.Close(); close(closed) }()
			for range calls {
				if err := <-errs; !errors.Is(err, ErrClosed) {
					t.Errorf("got %v, want %v", err, ErrClosed)
				} else {
					wantError(t, err, Canceled)
				}
			}
			<-closed
			eventually(t, noneLeft)
			_, err := p.Post(within(t), e, path, nil)
			wantError(t, err, Canceled, "the pool is closed")
			p.Close() // a second time
		})
	}
}

func TestForgetLetsCallsUnderWayEnd(t *testing.T) {
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		t.Run(name, func(t *testing.T) {
			arrived, release := make(chan struct{}, 2), make(chan struct{})
			e := serve(t, func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				<-release
				answer(`{}`)(w, r)
			}, edit)
			p := newPool(t, Options{})
			first := make(chan error)
			go func() {
				_, err := p.Post(within(t), e, path, []byte(`{}`))
				first <- err
			}()
			<-arrived
			p.Forget(e)
			p.Forget(e) // a second time
			close(release)
			if err := <-first; err != nil {
				t.Errorf("the call under way ended with %v", err)
			}
			eventually(t, noneLeft)
			if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
				t.Errorf("a call after Forget: %v", err)
			}
		})
	}
}

func TestForgetAndPostMayMeet(t *testing.T) {
	t.Parallel()
	e := serve(t, answer(`{}`), nil)
	p := newPool(t, Options{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				p.Forget(e)
			}
		})
	}
	wg.Wait()
}

func TestSlowServerDelaysNoOtherServer(t *testing.T) {
	const calls = 1000
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		t.Run(name, func(t *testing.T) {
			var now, most atomic.Int32
			full, release := make(chan struct{}, calls), make(chan struct{})
			slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				full <- struct{}{}
				<-release
				answer(`{}`)(w, r)
			}, edit)
			fast := serve(t, answer(`{}`), edit)
			p := newPool(t, Options{})
			body := []byte(strings.Repeat(" ", 1000))
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					if _, err := p.Post(within(t), slow, path, body); err != nil {
						t.Error(err)
					}
				})
			}
			for range MaxInFlight {
				<-full
			}
			for range 100 {
				if _, err := p.Post(within(t), fast, path, body); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := p.Post(ctx, slow, path, body)
			wantError(t, err, Timeout, "waiting for one of 100 calls in flight to end")
			close(release)
			wg.Wait()
			if m := most.Load(); m != MaxInFlight {
				t.Errorf("%d calls were in flight at once, want %d", m, MaxInFlight)
			}
		})
	}
}

// TestCallsThatWaitTakeLittleMemory checks that a waiting call holds only its
// goroutine: this keeps memory flat when an extension is slow.
func TestCallsThatWaitTakeLittleMemory(t *testing.T) {
	arrived, release := make(chan struct{}, MaxInFlight), make(chan struct{})
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case arrived <- struct{}{}:
		default:
		}
		<-release
		answer(`{}`)(w, r)
	}, nil)
	p := newPool(t, Options{})
	var wg sync.WaitGroup
	post := func() {
		if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
			t.Error(err)
		}
	}
	for range MaxInFlight {
		wg.Go(post)
	}
	for range MaxInFlight {
		<-arrived
	}
	before := used()
	const more = 1000
	for range more {
		wg.Go(post)
	}
	s, err := p.server(e)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.calls != MaxInFlight+more {
			return fmt.Errorf("%d calls wait", s.calls)
		}
		return nil
	})
	if grown := int64(used()) - int64(before); grown > more*16<<10 {
		t.Errorf("%d waiting calls take %d bytes", more, grown)
	}
	close(release)
	wg.Wait()
}

// used returns the size of heap and stacks.
func used() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func TestPoolEvictsIdleServers(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Now())
	p := newPool(t, Options{Clock: clock})
	known := func() int {
		p.mu.RLock()
		defer p.mu.RUnlock()
		if len(p.living) != len(p.servers) {
			t.Errorf("%d servers and %d living", len(p.servers), len(p.living))
		}
		return len(p.servers)
	}
	for i := range 5 {
		if _, err := p.server(Endpoint{URL: fmt.Sprintf("https://%d.example", i)}); err != nil {
			t.Fatal(err)
		}
	}
	clock.Step(keepUnused + 1)
	if n := known(); n != 5 {
		t.Errorf("%d servers, want 5", n)
	}
	if _, err := p.server(Endpoint{URL: "https://another.example"}); err != nil {
		t.Fatal(err)
	}
	if n := known(); n != 1 {
		t.Errorf("%d servers, want the one that is new", n)
	}
}

func TestAServerThatComesBackIsReachedAgain(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var server *httptest.Server
			e := serve(t, answer(`{}`), func(s *httptest.Server, a *authority) {
				server = s
				if edit != nil {
					edit(s, a)
				}
			})
			p := newPool(t, Options{})
			for round := range 5 {
				if _, err := p.Probe(within(t), e, path, []byte(`{}`)); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				server.CloseClientConnections()
				eventually(t, func() error { // until the client has noticed
					_, err := p.Probe(within(t), e, path, []byte(`{}`))
					return err
				})
			}
		})
	}
}
