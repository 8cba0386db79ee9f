// SPDX-License-Identifier: Apache-2.0

package loadbalancer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var anywhere = netip.MustParseAddrPort("127.0.0.1:0")

// server answers each line with its name, until the test ends.
func server(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					_, _ = io.WriteString(c, name+" heard "+lines.Text()+"\n")
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// health is the state that members report.
type health struct {
	mu  sync.Mutex
	ill map[netip.AddrPort]bool
}

func (h *health) probe(_ context.Context, at netip.AddrPort) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ill[at] {
		return errors.New("ill")
	}
	return nil
}

func (h *health) set(at netip.AddrPort, ill bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ill[at] = ill
}

// lab is a balancer and the ready members that it reports.
type lab struct {
	*Balancer
	health *health
	told   chan []netip.AddrPort
}

func open(t *testing.T, o Options) *lab {
	t.Helper()
	l := &lab{health: &health{ill: map[netip.AddrPort]bool{}}, told: make(chan []netip.AddrPort, 1000)}
	o.Changed = func(ready []netip.AddrPort) { l.told <- ready }
	o.Interval = 10 * time.Millisecond
	if o.Probe == nil {
		o.Probe = l.health.probe
	}
	var err error
	if l.Balancer, err = Listen(anywhere, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ended)
	})
	return l
}

// await waits until that many members are ready.
func (l *lab) await(t *testing.T, n int) {
	t.Helper()
	for {
		select {
		case ready := <-l.told:
			if len(ready) == n {
				return
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("ready are %v, want %d", l.Ready(), n)
		}
	}
}

func (l *lab) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a line on a connection and returns the answer; "" if the connection has
// ended.
func ask(c net.Conn, line string) string {
	_, _ = io.WriteString(c, line+"\n")
	answer, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(answer)
}

func TestConnectionsAreSpreadOverMembersThatAreReady(t *testing.T) {
	t.Parallel()
	l := open(t, Options{})
	a, b, c := server(t, "a"), server(t, "b"), server(t, "c")
	l.health.set(c, true)
	l.SetMembers([]netip.AddrPort{a, b, c})
	l.await(t, 2)
	got := map[string]int{}
	for range 6 {
		got[ask(l.dial(t), "x")]++
	}
	if diff := cmp.Diff(map[string]int{"a heard x": 3, "b heard x": 3}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	l.health.set(c, false)
	l.await(t, 3)
}

func TestAMemberThatFallsIllLosesItsConnections(t *testing.T) {
	t.Parallel()
	l := open(t, Options{})
	a := server(t, "a")
	l.SetMembers([]netip.AddrPort{a})
	l.await(t, 1)
	c := l.dial(t)
	if got := ask(c, "1"); got != "a heard 1" {
		t.Fatalf("got %q", got)
	}
	l.health.set(a, true)
	l.await(t, 0)
	if got := ask(c, "2"); got != "" {
		t.Errorf("on the old connection: got %q, want its end", got)
	}
	// A probe may be wrong or late: without a better member, it is tried anyway.
	if got := ask(l.dial(t), "3"); got != "a heard 3" {
		t.Errorf("on a new connection: got %q", got)
	}
}

func TestAMemberThatRefusesIsPassedOver(t *testing.T) {
	t.Parallel()
	l := open(t, Options{})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	l.SetMembers([]netip.AddrPort{server(t, "a"), gone.Addr().(*net.TCPAddr).AddrPort()})
	l.await(t, 2)
	for range 4 {
		if got := ask(l.dial(t), "x"); got != "a heard x" {
			t.Errorf("got %q", got)
		}
	}
}

func TestAMemberThatIsTakenAwayDrains(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Drain: time.Millisecond})
	a, b := server(t, "a"), server(t, "b")
	l.SetMembers([]netip.AddrPort{a})
	l.await(t, 1)
	old := l.dial(t)
	if got := ask(old, "1"); got != "a heard 1" {
		t.Fatalf("got %q", got)
	}
	l.SetMembers([]netip.AddrPort{b})
	l.await(t, 1)
	if got := ask(l.dial(t), "2"); got != "b heard 2" {
		t.Errorf("on a new connection: got %q", got)
	}
	if rest, err := io.ReadAll(old); len(rest) > 0 || err != nil {
		t.Errorf("on the old connection: %q, %v, want its end", rest, err)
	}
}

func TestTooManyConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	l := open(t, Options{MaxConnections: 1})
	l.SetMembers([]netip.AddrPort{server(t, "a")})
	l.await(t, 1)
	first := l.dial(t)
	if got := ask(first, "1"); got != "a heard 1" {
		t.Fatalf("got %q", got)
	}
	if got := ask(l.dial(t), "2"); got != "" {
		t.Errorf("second: got %q, want its end", got)
	}
	if got := ask(first, "3"); got != "a heard 3" {
		t.Errorf("first: got %q", got)
	}
}

func TestHalfClosedConnectionIsStillAnswered(t *testing.T) {
	t.Parallel()
	l := open(t, Options{})
	l.SetMembers([]netip.AddrPort{server(t, "a")})
	l.await(t, 1)
	c := l.dial(t).(*net.TCPConn)
	_, _ = io.WriteString(c, "last\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "a heard last\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCloseWaitsForConnectionsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	l := open(t, Options{})
	l.SetMembers([]netip.AddrPort{server(t, "a")})
	l.await(t, 1)
	c := l.dial(t)
	if got := ask(c, "1"); got != "a heard 1" {
		t.Fatalf("got %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	closed := make(chan error)
	go func() { closed <- l.Close(ctx) }()
	if got := ask(c, "2"); got != "a heard 2" {
		t.Errorf("while it closes: got %q", got)
	}
	cancel()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := ask(c, "3"); got != "" {
		t.Errorf("after that: got %q", got)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("second call: %v", err)
	}
}

func TestAnAddressThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	at := server(t, "a")
	if _, err := Listen(at, Options{}); err == nil || !strings.Contains(err.Error(), at.String()) {
		t.Errorf("got %v, want an error with the address", err)
	}
}

func TestReadyIsWhoAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		want   bool
	}{
		"ready":                {http.StatusOK, true},
		"asks who it is":       {http.StatusUnauthorized, true},
		"refuses the nameless": {http.StatusForbidden, true},
		"starts or stops":      {http.StatusInternalServerError, false},
		"is overloaded":        {http.StatusTooManyRequests, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var path string
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				w.WriteHeader(tc.status)
			}))
			t.Cleanup(s.Close)
			err := Ready(t.Context(), s.Listener.Addr().(*net.TCPAddr).AddrPort())
			if (err == nil) != tc.want || path != "/readyz" {
				t.Errorf("%s: %v, want %v", path, err, tc.want)
			}
		})
	}
	if err := Ready(t.Context(), server(t, "no TLS")); err == nil {
		t.Error("what speaks no TLS is ready")
	}
}
