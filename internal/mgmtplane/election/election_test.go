// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/wait"
)

// busyTimeout is for a busy machine.
const busyTimeout = time.Minute

// store runs an etcd, and returns a function that connects to it.
func store(t *testing.T) func() *clientv3.Client {
	t.Helper()
	dir := t.TempDir()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.ZapLoggerBuilder = filepath.Join(dir, "etcd"), embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer.sock")}}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return func() *clientv3.Client { return connect(t, e.Clients[0].Addr().String()) }
}

func connect(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return c
}

func join(t *testing.T, c *clientv3.Client, name string) *Membership {
	t.Helper()
	m, err := Join(t.Context(), c, "/registry", Member{Name: name, Host: "host", Dir: "/" + name, Address: name + ":6443"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Leave(context.Background()) }) // some tests have left, or cannot
	return m
}

func closes(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(busyTimeout):
		t.Fatalf("%s: not after %s", what, busyTimeout)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// listed requires these members, of which the first leads.
func listed(t *testing.T, m *Membership, want ...string) {
	t.Helper()
	all, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, other := range all {
		if other.Gone {
			continue
		}
		if got = append(got, other.Name); other.Leads != (i == 0) || other.Address != other.Name+":6443" {
			t.Errorf("the %dth is %+v", i, other)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("members %v, want %v", got, want)
	}
}

func TestTheOldestLeads(t *testing.T) {
	t.Parallel()
	dial := store(t)
	a, b, c := join(t, dial(), "a"), join(t, dial(), "b"), join(t, dial(), "c")
	closes(t, "a leads", a.Elected())
	listed(t, c, "a", "b", "c")
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed(t, c, "a", "c")
	if closed(b.Elected()) || closed(c.Elected()) {
		t.Fatal("another one leads while a does")
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	closes(t, "c leads", c.Elected())
	listed(t, c, "c")
	for name, m := range map[string]*Membership{"a": a, "b": b, "c": c} {
		if closed(m.Lost()) {
			t.Errorf("%s was lost", name)
		}
	}
}

// TestAnotherLeadsWhenOneIsLost disconnects the leader: it must detect that before
// another one leads.
func TestAnotherLeadsWhenOneIsLost(t *testing.T) {
	t.Parallel()
	dial := store(t)
	link := dial()
	a, b := join(t, link, "a"), join(t, dial(), "b")
	closes(t, "a leads", a.Elected())
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Lost():
	case <-b.Elected():
		t.Error("b leads before a knows that it is lost")
	case <-time.After(busyTimeout):
		t.Fatal("no member has noticed")
	}
	closes(t, "b leads", b.Elected())
	listed(t, b, "b")
}

func TestOneThatComesBackIsTheYoungest(t *testing.T) {
	t.Parallel()
	dial := store(t)
	a, b := join(t, dial(), "a"), join(t, dial(), "b")
	closes(t, "a leads", a.Elected())
	again := join(t, dial(), "a") // the process was killed, and has started again
	closes(t, "b leads", b.Elected())
	listed(t, again, "b", "a")
	closes(t, "the first a is lost", a.Lost())
}

func TestACopyOfADataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dial := store(t)
	a := join(t, dial(), "a")
	_, err := Join(t.Context(), dial(), "/registry", Member{Name: "a", Host: "other", Dir: "/a"})
	if want := `it runs on host in /a, of which /a is a copy: remove the file "member" from the copy`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	closes(t, "a leads", a.Elected())
	if closed(a.Lost()) {
		t.Error("a is lost")
	}
}

func TestPlanesOfOtherPrefixesAreOthers(t *testing.T) {
	t.Parallel()
	dial := store(t)
	a := join(t, dial(), "a")
	other, err := Join(t.Context(), dial(), "/guest", Member{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Leave(context.Background()) }() // the store ends with the test
	closes(t, "the other leads", other.Elected())
	closes(t, "a leads", a.Elected())
	listed(t, a, "a")
}

// TestAMemberThatWaitsJoinsAgain disconnects a waiting member from the store, and
// connects it again.
func TestAMemberThatWaitsJoinsAgain(t *testing.T) {
	t.Parallel()
	dial := store(t)
	a := join(t, dial(), "a")
	closes(t, "a leads", a.Elected())
	link := newLink(t, strings.TrimPrefix(dial().Endpoints()[0], "http://"))
	b := join(t, connect(t, link.Addr().String()), "b")
	link.cut(true)
	remain(t, a, 1)
	link.cut(false)
	remain(t, a, 2)
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	closes(t, "b leads", b.Elected())
}

// remain waits until there are so many members.
func remain(t *testing.T, m *Membership, want int) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, busyTimeout, true, func(ctx context.Context) (bool, error) {
		all, err := m.List(ctx)
		return len(slices.DeleteFunc(all, func(m Member) bool { return m.Gone })) == want, err
	}); err != nil {
		t.Fatalf("wait for %d members: %v", want, err)
	}
}

// link forwards connections, unless it is cut.
type link struct {
	net.Listener
	to string

	mu    sync.Mutex // guards what follows
	isCut bool
	open  []net.Conn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: ln, to: to}
	t.Cleanup(func() { _ = ln.Close(); l.cut(true) })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.forward(c)
		}
	}()
	return l
}

func (l *link) forward(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	to, err := net.Dial("tcp", l.to)
	if err != nil || l.isCut {
		_ = c.Close()
		return
	}
	l.open = append(l.open, c, to)
	for _, pair := range [][2]net.Conn{{c, to}, {to, c}} {
		go func() { _, _ = io.Copy(pair[0], pair[1]) }()
	}
}

func (l *link) cut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = isCut
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}
