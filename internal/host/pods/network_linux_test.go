// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// cluster is the endpoint of a simulated cluster.
var cluster = netip.MustParseAddrPort("127.64.3.4:6443")

// outside answers outgoing connections of Pods.
type outside struct {
	mu   sync.Mutex
	held []*Conn
}

func (o *outside) Connect(_ context.Context, from netip.Addr, to netip.AddrPort, c *Conn) {
	if to.Addr().IsLoopback() { // as podroutes
		if own, err := c.Own(context.Background()); err == nil {
			_, _ = io.WriteString(c, "own\n")
			_ = errors.Join(own.Close(), c.Close())
			return
		}
		if to.Addr() != cluster.Addr() {
			c.Refuse(to.String() + " is no cluster")
			return
		}
	}
	switch to.Port() {
	case 80, cluster.Port():
		_, _ = io.WriteString(c, from.String()+" to "+to.String()+"\n")
		_ = c.Close()
	case 81:
		o.mu.Lock()
		defer o.mu.Unlock()
		o.held = append(o.held, c)
	case 83:
		panic("no such connection")
	default:
		c.Refuse("")
	}
}

func (o *outside) Resolve(_ context.Context, _ netip.Addr, query []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, errors.New("not one question")
	}
	if m.Questions[0].Name.String() == "panic.test." {
		panic("no such name")
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Name.String() == "known.test." && q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 9}}}}
	} else if q.Name.String() != "known.test." {
		m.RCode = dnsmessage.RCodeNameError
	}
	return m.Pack()
}

func TestWhatLeavesIsHandedOver(t *testing.T) {
	s := start(t, open(t, Options{Network: &outside{}}))
	tests := map[string]struct {
		args []string
		want string
	}{
		"a connection":              {[]string{"dial", "203.0.113.9:80"}, "10.244.0.7 to 203.0.113.9:80\n"},
		"one to a Service":          {[]string{"dial", "10.96.0.1:80"}, "10.244.0.7 to 10.96.0.1:80\n"},
		"one that is refused":       {[]string{"dial", "203.0.113.9:82"}, "connection reset by peer"},
		"one to the metadata":       {[]string{"dial", "169.254.169.254:80"}, "connection reset by peer"},
		"one to multicast":          {[]string{"dial", "224.0.0.1:80"}, "dial:"},
		"one to its own loopback":   {[]string{"dial", "127.0.0.1:80"}, "connection refused"},
		"one to the plane":          {[]string{"dial", "127.0.0.1:6443"}, "connection refused"},
		"one to a cluster":          {[]string{"dial", cluster.String()}, "10.244.0.7 to 127.64.3.4:6443\n"},
		"another port of a cluster": {[]string{"dial", "127.64.3.4:80"}, "connection refused"},
		"one to no cluster":         {[]string{"dial", "127.64.3.5:6443"}, "connection reset by peer"},
		"the end of the range":      {[]string{"dial", "127.127.255.255:6443"}, "connection reset by peer"},
		"outside of the range":      {[]string{"dial", "127.128.0.1:6443"}, "connection refused"},
		"one to itself":             {[]string{"dial", "10.244.0.7:80"}, "connection refused"},
		"one to the relay":          {[]string{"dial", "127.99.99.99:1"}, "connection reset by peer"},
		"the relay as a cluster":    {[]string{"dial", "127.99.99.99:6443"}, "connection reset by peer"},
		"a name":                    {[]string{"lookup", "known.test"}, "[203.0.113.9]\n"},
		"a name that is not known":  {[]string{"lookup", "unknown.test"}, "no such host"},
		"a name by TCP":             {[]string{"lookuptcp", "known.test"}, "[203.0.113.9]\n"},
		"another datagram":          {[]string{"datagram", "203.0.113.9:123"}, "operation not permitted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, failed, e := outcome(t, s, container(t, tc.args...))
			if !strings.Contains(out+failed, tc.want) {
				t.Errorf("got %q, %+v, want %q", out+failed, e, tc.want)
			}
		})
	}
}

// TestPodsReachTheirOwnLoopbackFirst: a plane in a Pod has simulated clusters, too.
func TestPodsReachTheirOwnLoopbackFirst(t *testing.T) {
	s := start(t, open(t, Options{Network: &outside{}}))
	p, err := s.Run(t.Context(), container(t, "serve", cluster.String()))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	c := container(t, "dial", cluster.String())
	c.Name = "client"
	if out, failed, e := outcome(t, s, c); out != "own\n" {
		t.Errorf("got %q %q, %+v", out, failed, e)
	}
}

func TestRefusedAddressesAreReported(t *testing.T) {
	refused := make(chan string, 10)
	s := start(t, open(t, Options{Network: &outside{}}), func(s *Spec) { s.Refused = func(why string) { refused <- why } })
	for _, to := range []string{"169.254.169.254:80", "127.64.3.5:6443", "127.64.3.5:6443", "203.0.113.9:82"} {
		if out, _, _ := outcome(t, s, container(t, "dial", to)); out != "" {
			t.Errorf("%s answers %q", to, out)
		}
	}
	for _, want := range []string{"169.254.169.254:80 is not for Pods: loopback, link-local, multicast and metadata addresses are refused", "127.64.3.5:6443 is no cluster"} {
		if got := <-refused; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if len(refused) > 0 {
		t.Errorf("reported %q as well", <-refused)
	}
}

func TestConnectionsHaveALimit(t *testing.T) {
	o := &outside{}
	s := start(t, open(t, Options{Network: o, Connections: 100}))
	out, failed, e := outcome(t, s, container(t, "dialmany", "203.0.113.9:81"))
	if e.Code != 0 || out != "open 100 reset 200\n" {
		t.Errorf("got %q %q, %+v", out, failed, e)
	}
	o.mu.Lock()
	for _, c := range o.held {
		_ = c.Close()
	}
	o.mu.Unlock()
	if out, failed, _ := outcome(t, s, container(t, "dial", "203.0.113.9:80")); !strings.Contains(out, "to 203.0.113.9:80") {
		t.Errorf("when others are closed: got %q %q", out, failed)
	}
}

func TestPodsAreDialled(t *testing.T) {
	h := open(t, Options{})
	s := start(t, h)
	p, err := s.Run(t.Context(), container(t, "serve", ":9443"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	for range 20 {
		c, err := s.Dial(soon(t), 9443)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "there and back"); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got := all(t, c); got != "there and back" {
			t.Errorf("got %q", got)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Dial(soon(t), 9444); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Dial(ctx, 9443); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPodThatEndsIsDialled(t *testing.T) {
	s := start(t, open(t, Options{}))
	p, err := s.Run(t.Context(), container(t, "serve", ":9443", "stubborn"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(ctx, time.Hour) }()
	for stopping := false; !stopping; runtime.Gosched() {
		s.mu.Lock()
		stopping = s.stopping
		s.mu.Unlock()
	}
	if c, err := s.Dial(soon(t), 9443); err != nil {
		t.Errorf("in its grace period: %v", err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
	end()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := s.Dial(soon(t), 9443); err == nil {
		t.Error("it is reached after its end")
	}
}

func TestTheLoopbackOfAPodIsReached(t *testing.T) {
	s := start(t, open(t, Options{}))
	p, err := s.Run(t.Context(), container(t, "serve", "127.0.0.1:6060"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	c, err := s.DialLoopback(soon(t), 6060)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Dial(soon(t), 6060); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("at its address: %v", err)
	}
	if _, err := s.DialLoopback(soon(t), 6061); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("another port: %v", err)
	}
}

func TestPodsDoNotMeet(t *testing.T) {
	h := open(t, Options{Network: &outside{}})
	a := start(t, h)
	b := start(t, h, func(s *Spec) { s.Name, s.Address = "default_other_2", netip.MustParseAddr("10.244.0.8") })
	p, err := a.Run(t.Context(), container(t, "serve", ":9443"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	for _, to := range []string{"10.244.0.7:9443", "127.0.0.1:9443"} {
		if out, failed, e := outcome(t, b, container(t, "dial", to)); e.Code == 0 {
			t.Errorf("%s answers: %q %q", to, out, failed)
		}
	}
}

func TestServerSurvivesMalformedQueries(t *testing.T) {
	s := start(t, open(t, Options{Network: &outside{}}))
	p, err := s.Run(t.Context(), container(t, "baddns"))
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if out, failed, _ := outcome(t, s, container(t, "lookup", "known.test")); out != "[203.0.113.9]\n" {
		t.Errorf("got %q %q", out, failed)
	}
}

// TestWhatLeavesAndPanicsEndsAlone: the Pod and the process continue, and the log names the
// sandbox and has the stack.
func TestWhatLeavesAndPanicsEndsAlone(t *testing.T) {
	var log bytes.Buffer // read when the sandbox has ended
	h := open(t, Options{Network: &outside{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	s := start(t, h)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"dial", "203.0.113.9:83"}, "connection reset by peer"},
		{[]string{"dial", "203.0.113.9:80"}, "10.244.0.7 to 203.0.113.9:80\n"},
		{[]string{"lookuptcp", "panic.test"}, "panic.test"},
		{[]string{"lookup", "known.test"}, "[203.0.113.9]\n"},
	} {
		if out, failed, _ := outcome(t, s, container(t, step.args...)); !strings.Contains(out+failed, step.want) {
			t.Errorf("%v: got %q, want %q", step.args, out+failed, step.want)
		}
	}
	if err := s.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "Observed a panic") || !strings.Contains(line, "sandbox=default_test_1") || !strings.Contains(line, "network_linux_test.go") {
			t.Errorf("got %q in the log, want the panic with the sandbox and the stack", line)
		}
	}
	if got := strings.Count(log.String(), `panic="no such connection"`); got != 1 {
		t.Errorf("got the panic of the connection %d times in the log, want once: %s", got, &log)
	}
}
