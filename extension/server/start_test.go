// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// waiting is a handler that signals when a call arrives, and answers when it is released,
// or when its context ends.
type waiting struct{ came, release chan struct{} }

func newWaiting() waiting { return waiting{make(chan struct{}, 10), make(chan struct{})} }

func (w waiting) handle(ctx context.Context, _ *createRequest, resp *createResponse) error {
	w.came <- struct{}{}
	select {
	case <-w.release:
		resp.Message = "finished"
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type result struct {
	code int
	text string
	err  error
}

// later posts in the background.
func later(c *http.Client, url, body string) <-chan result {
	done := make(chan result, 1)
	go func() {
		resp, err := c.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			done <- result{err: err}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		done <- result{resp.StatusCode, string(text), err}
	}()
	return done
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAnAddressInUseIsAClearError(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, o := range map[string]Options{
		"calls":      {Address: taken.Addr().String()},
		"operations": {Address: "127.0.0.1:0", OperationsAddress: taken.Addr().String()},
	} {
		s := creating(t, o, agree)
		err := s.Start(t.Context())
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), taken.Addr().String()) {
			t.Errorf("%s: got %v", name, err)
		}
		select {
		case <-s.Ready():
			t.Errorf("%s: it is ready", name)
		default:
		}
	}
}

func TestAContextThatHasEndedIsANormalStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := creating(t, Options{Address: "127.0.0.1:0"}, agree).Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestAServerStartsOnce(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	stop := start(t, s)
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "started before") {
		t.Errorf("got %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestCallsInFlightFinishWhileReadinessIsGone(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	s := creating(t, Options{Address: "127.0.0.1:0", OperationsAddress: ":0"}, w.handle)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Start(ctx) }()
	<-s.Ready()
	if code, text := get(t, s.OperationsURL()+"/readyz"); code != 200 {
		t.Errorf("ready: %d %s", code, text)
	}
	answer := later(client(t, s), s.URL()+beforeCreate, beforeCreateBody)
	<-w.came
	cancel()
	for {
		code, text := get(t, s.OperationsURL()+"/readyz")
		if code == http.StatusServiceUnavailable && text == "stopping\n" {
			break
		}
		if code != 200 {
			t.Fatalf("readiness: %d %s", code, text)
		}
	}
	if code, text := get(t, s.OperationsURL()+"/healthz"); code != 200 {
		t.Errorf("healthy: %d %s", code, text)
	}
	select {
	case err := <-stopped:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(w.release)
	if got := <-answer; got.code != 200 || unmarshal[createResponse](t, got.text).Message != "finished" {
		t.Errorf("got %+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestCallsThatDoNotFinishInTimeAreCutOff(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	s := creating(t, Options{Address: "127.0.0.1:0", GracePeriod: time.Millisecond}, w.handle)
	stop := start(t, s)
	answer := later(client(t, s), s.URL()+beforeCreate, beforeCreateBody)
	<-w.came
	err := stop()
	if err == nil || !strings.Contains(err.Error(), "calls had not ended 1ms after the stop and were cut off: 1") {
		t.Errorf("got %v", err)
	}
	if got := <-answer; got.err == nil && got.code == 200 {
		t.Errorf("got %+v", got)
	}
	if len(s.slots) != cap(s.slots) { // the last wait took them all
		t.Error("the handler had not ended when Start returned")
	}
}

func TestACallerThatGoesAwayEndsTheContext(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			came, ended := make(chan int, 1), make(chan error, 1)
			s := mustNew(t, Options{Address: "127.0.0.1:0"})
			err := Handle(s, hooksv1.BeforeClusterCreate, func(ctx context.Context, _ *createRequest, _ *createResponse) error {
				came <- 0
				<-ctx.Done()
				ended <- ctx.Err()
				return nil
			}, Timeout(MaxTimeout))
			if err != nil {
				t.Fatal(err)
			}
			start(t, s)
			c := client(t, s)
			c.Transport.(*http.Transport).ForceAttemptHTTP2 = http2
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+beforeCreate+"?timeout=30s", strings.NewReader(beforeCreateBody))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			go func() {
				<-came
				cancel()
			}()
			if resp, err := c.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("got %d", resp.StatusCode)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the handler's context: %v", err)
			}
		})
	}
}

func TestABodyThatDoesNotArriveIsNotWaitedForBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	start(t, s)
	conn, err := (&tls.Dialer{Config: client(t, s).Transport.(*http.Transport).TLSClientConfig}).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "POST %s?timeout=50ms HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", beforeCreate); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), "did not arrive within 50ms") || !resp.Close {
		t.Errorf("got %d %s, close %t, %v", resp.StatusCode, text, resp.Close, err)
	}
}

func TestAStreamThatDoesNotArriveIsNotWaitedForEither(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	start(t, s)
	body, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	resp, err := client(t, s).Post(s.URL()+beforeCreate+"?timeout=50ms", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %s over %s", resp.Status, resp.Proto)
	}
}

// It runs before the parallel tests: goroutines are counted for the whole
// process.
func TestNoGoroutineIsLeft(t *testing.T) {
	s := creating(t, Options{Address: "127.0.0.1:0", OperationsAddress: "127.0.0.1:0"}, agree)
	stop := start(t, s)
	c := client(t, s)
	for range 3 {
		if code, text := post(t, c, s.URL()+beforeCreate, beforeCreateBody); code != 200 {
			t.Errorf("%d %s", code, text)
		}
	}
	c.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
	deadline := time.After(10 * time.Second)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var ours []string
		for one := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(one, "net/http.(*") || (strings.Contains(one, "extension/server.(*") && !strings.Contains(one, "testing.tRunner")) {
				ours = append(ours, one)
			}
		}
		if len(ours) == 0 {
			return
		}
		select { // a connection's goroutine ends just after it is closed
		case <-deadline:
			t.Fatalf("%d are left:\n%s", len(ours), strings.Join(ours, "\n\n"))
		case <-time.After(time.Millisecond):
		}
	}
}
