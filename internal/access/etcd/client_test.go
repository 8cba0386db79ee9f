// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	simulated "github.com/capstan-dev/capstan/internal/simulated/etcd"
)

func newCA(t *testing.T) certs.Pair {
	t.Helper()
	ca, err := certs.New(certs.Etcd, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// start creates a cluster whose members a, b, … are all voting, and a dialer for
// it.
func start(t *testing.T, ca certs.Pair, names ...string) (*simulated.Cluster, *Dialer) {
	t.Helper()
	cluster, err := simulated.New(simulated.Options{Name: t.Name(), CA: ca})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for i, name := range names {
		peer, client := "https://"+name+":2380", "https://"+name+":2379"
		if i == 0 {
			if err := cluster.Bootstrap(name, peer, client); err != nil {
				t.Fatal(err)
			}
			continue
		}
		id, err := cluster.AddLearner(peer)
		if err == nil {
			err = errors.Join(cluster.Start(id, name, client), cluster.Promote(id))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return cluster, &Dialer{forward: func(ctx context.Context, _ *rest.Config, node string) (net.Conn, error) {
		if m, ok := cluster.Member(node); !ok || m.Down {
			return nil, simulated.ErrNotRunning
		}
		l := bufconn.Listen(64 << 10)
		go func() {
			if conn, err := l.Accept(); err == nil {
				_ = cluster.Serve(node, conn)
			}
		}()
		return l.DialContext(ctx)
	}}
}

func connect(t *testing.T, d *Dialer, ca certs.Pair, nodes ...string) Client {
	t.Helper()
	c, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestMembersAreListedWithAlarms(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b")
	if _, err := cluster.AddLearner("https://c:2380"); err != nil {
		t.Fatal(err)
	}
	c := connect(t, d, ca, "b")
	got, err := c.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{{Learner: true}, {Name: "a"}, {Name: "b"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Member{}, "ID"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	status, err := c.Status(t.Context())
	if err != nil || status.Leader == 0 || status.Leader == status.Member || len(status.Errors) > 0 {
		t.Errorf("got status %+v, %v, want a healthy follower", status, err)
	}
}

func TestTheFirstStatusIsTheOneThatProvedTheConnection(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b")
	c := connect(t, d, ca, "a")
	cluster.SetRunning("b", false)
	for i, want := range [][]string{nil, {"etcdserver: no leader"}} {
		status, err := c.Status(t.Context())
		if diff := cmp.Diff(want, status.Errors, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("status %d: %v, errors (-want +got):\n%s", i+1, err, diff)
		}
	}
}

func TestMoveLeaderWorksFromAnyMember(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b", "c")
	b, _ := cluster.Member("b")
	c := connect(t, d, ca, "c")
	for range 2 { // the second call has nothing to do
		if err := c.MoveLeader(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
		if s := cluster.State(); s.Leader != b.ID {
			t.Fatalf("got leader %x, want %x", s.Leader, b.ID)
		}
	}
	err := c.MoveLeader(t.Context(), 12345)
	if !errors.Is(err, rpctypes.ErrBadLeaderTransferee) || !strings.Contains(err.Error(), "etcd of cluster ns/prod: member b: move leadership to member 3039") {
		t.Errorf("got %v, want etcd's refusal with cluster, member and target", err)
	}
}

func TestRemovalElectsAnotherLeaderAndKeepsTheQuorum(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b", "c")
	leader := cluster.State().Leader
	c := connect(t, d, ca, "b")
	if err := c.Remove(t.Context(), leader); err != nil {
		t.Fatal(err)
	}
	if s := cluster.State(); s.Leader == leader || s.Leader == 0 || len(s.Members) != 2 {
		t.Errorf("got state %+v, want two members with another leader", s)
	}
	if _, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: []string{"a"}}); !errors.Is(err, simulated.ErrNotRunning) {
		t.Errorf("got %v from the removed member, want %v", err, simulated.ErrNotRunning)
	}
	if err := c.Remove(t.Context(), leader); !errors.Is(err, rpctypes.ErrMemberNotFound) {
		t.Errorf("got %v, want %v", err, rpctypes.ErrMemberNotFound)
	}
}

func TestLostQuorumReturnsErrorOfEtcd(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b")
	cluster.SetRunning("a", false)
	c := connect(t, d, ca, "a", "b") // a is down: b answers
	if _, err := c.Members(t.Context()); !errors.Is(err, rpctypes.ErrTimeout) || !strings.Contains(err.Error(), "member b: list members") {
		t.Errorf("got %v, want %v of member b", err, rpctypes.ErrTimeout)
	}
	status, err := c.Status(t.Context())
	if diff := cmp.Diff([]string{"etcdserver: no leader"}, status.Errors); err != nil || diff != "" {
		t.Errorf("status: %v, errors (-want +got):\n%s", err, diff)
	}
	cluster.SetRunning("a", true)
	if _, err := c.Members(t.Context()); err != nil {
		t.Errorf("after recovery: %v", err)
	}
}

func TestAStoppedMemberCutsItsConnections(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b", "c")
	c := connect(t, d, ca, "c")
	cluster.SetRunning("c", false)
	if _, err := c.Members(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd of cluster ns/prod: member c: list members") {
		t.Errorf("got %v, want an error that names cluster and member", err)
	}
}

func TestBothSidesVerifyTheOther(t *testing.T) {
	t.Parallel()
	ca, stranger := newCA(t), newCA(t)
	_, d := start(t, ca, "a")
	tests := map[string]struct {
		ca   certs.Pair
		want string
	}{
		"a key of another CA is not used":         {certs.Pair{Cert: ca.Cert, Key: stranger.Key}, "the key does not belong to the certificate"},
		"a client of another CA is refused":       {certs.Pair{Cert: slices.Concat(stranger.Cert, ca.Cert), Key: stranger.Key}, "member a: read its status"},
		"a server of another CA is refused":       {stranger, "certificate signed by unknown authority"},
		"a CA without a key cannot sign":          {certs.Pair{Cert: ca.Cert}, certs.ErrNoKey.Error()},
		"something that is not a CA is not tried": {certs.Pair{Cert: []byte("x"), Key: ca.Key}, "no PEM block"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: tc.ca, Nodes: []string{"a"}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// serveAs returns a dialer to a gRPC server that presents a certificate, and
// records the requested server name.
func serveAs(t *testing.T, pair certs.Pair, called *string) *Dialer {
	t.Helper()
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{NextProtos: []string{"h2"}, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		*called = hello.ServerName
		return &cert, nil
	}}
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return &Dialer{forward: func(ctx context.Context, _ *rest.Config, _ string) (net.Conn, error) { return l.DialContext(ctx) }}
}

func TestServersAreKnownByTheirChain(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	tests := map[string]struct {
		leaf certs.Leaf
		want string
	}{
		"a server with other names":     {certs.Leaf{CommonName: "x", DNSNames: []string{"etcd.example.com"}, Server: true, Now: time.Now()}, "Unimplemented"},
		"a server without names":        {certs.Leaf{CommonName: "x", Server: true, Now: time.Now()}, "Unimplemented"},
		"a client is no server":         {certs.Leaf{CommonName: "a", DNSNames: []string{"a"}, Client: true, Now: time.Now()}, "incompatible key usage"},
		"a certificate out of its time": {certs.Leaf{CommonName: "a", DNSNames: []string{"a"}, Server: true, Now: time.Now(), Validity: -time.Second}, "expired"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := ca.Issue(tc.leaf)
			if err != nil {
				t.Fatal(err)
			}
			var called string
			_, err = serveAs(t, pair, &called).Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: []string{"a"}})
			if err == nil || !strings.Contains(err.Error(), tc.want) || called != "etcd-a" {
				t.Errorf("got %v, called %q; want %q by the name of its pod", err, called, tc.want)
			}
		})
	}
}

func TestEveryNodeThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	cluster, d := start(t, ca, "a", "b")
	cluster.SetRunning("a", false)
	_, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: []string{"a", "x"}})
	for _, want := range []string{"member a: port-forward to its pod", "member x: port-forward to its pod"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if _, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca}); err == nil || !strings.Contains(err.Error(), "no control plane node is known") {
		t.Errorf("got %v, want it to say that no node is known", err)
	}
}

func TestADialThatHangsIsBounded(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	d := &Dialer{DialTimeout: time.Millisecond, forward: func(ctx context.Context, _ *rest.Config, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	if _, err := d.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: []string{"a"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	// A member that accepts the connection but does not respond fails as well.
	silent := &Dialer{DialTimeout: 50 * time.Millisecond, forward: func(ctx context.Context, _ *rest.Config, _ string) (net.Conn, error) {
		return bufconn.Listen(1 << 10).DialContext(ctx)
	}}
	if _, err := silent.Connect(t.Context(), Target{Cluster: "ns/prod", CA: ca, Nodes: []string{"a"}}); err == nil {
		t.Error("connected to a member that never answered")
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	ca := newCA(t)
	before, _ := start(t, ca, "a", "b", "c")
	before.SetRunning("b", false)
	saved, err := json.Marshal(before.State())
	if err != nil {
		t.Fatal(err)
	}
	var state simulated.State
	if err := json.Unmarshal(saved, &state); err != nil {
		t.Fatal(err)
	}
	after, err := simulated.New(simulated.Options{Name: t.Name(), CA: ca, State: state})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.State(), after.State()); diff != "" {
		t.Errorf("after the restart (-before +after):\n%s", diff)
	}
}
