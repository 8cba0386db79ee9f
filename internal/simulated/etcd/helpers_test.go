// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// authority is one CA for all tests, which are many.
var authority = sync.OnceValues(func() (certs.Pair, error) { return certs.New(certs.Etcd, certs.ECDSAP256, time.Now(), 0) })

func newCA(t *testing.T) certs.Pair {
	t.Helper()
	ca, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newCluster(t *testing.T, state State, changed func()) *Cluster {
	t.Helper()
	c, err := New(Options{Name: "c", CA: newCA(t), State: state, Changed: changed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// client is a connection to a member.
type client struct {
	pb.ClusterClient
	pb.MaintenanceClient
	pb.KVClient
	served chan error // results of Serve, one for each connection
}

// connect returns a client of the member of that name, with a certificate of a CA.
func connect(t *testing.T, c *Cluster, name string, of certs.Pair) client {
	t.Helper()
	pair, err := of.Issue(certs.Leaf{CommonName: "client", Client: true, Now: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(newCA(t).Cert)
	served := make(chan error, 10)
	conn, err := grpc.NewClient("passthrough:///"+name,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: name})),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			go func() { served <- c.Serve(name, far) }()
			return near, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return client{pb.NewClusterClient(conn), pb.NewMaintenanceClient(conn), pb.NewKVClient(conn), served}
}

// want checks the error of a call as clients do: by its code and text.
func want(t *testing.T, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && (err == nil || !errors.Is(err, want) && err.Error() != want.Error()) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}
