// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// TestPanicEndsOneCallAlone: gRPC does not recover.
func TestPanicEndsOneCallAlone(t *testing.T) {
	t.Parallel()
	ca, err := certs.New(certs.Etcd, certs.ECDSAP256, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Name: "c", CA: ca, State: voters(1, nil), Changed: func() { panic("planted") }})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(certs.Leaf{CommonName: "client", Client: true, Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	conn, err := grpc.NewClient("passthrough:///a",
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: "a"})),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { _ = c.Serve("a", far) }()
			return near, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	members := pb.NewClusterClient(conn)
	if _, err := members.MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{peer(2)}, IsLearner: true}); err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("got error %v, want the panic", err)
	}
	if got, err := members.MemberList(t.Context(), &pb.MemberListRequest{}); err != nil || len(got.Members) != 2 {
		t.Errorf("got members %v, %v afterwards, want two", got, err)
	}
}
