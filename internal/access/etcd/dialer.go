// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Upstream's defaults for --etcd-dial-timeout-duration and
// --etcd-call-timeout-duration.
const (
	DefaultDialTimeout = 10 * time.Second
	DefaultCallTimeout = 15 * time.Second
)

// Limits for what a workload cluster can make this process store and report.
const (
	maxAnswer = 64 << 10 // bytes of a response: hundreds of members
	maxText   = 300      // bytes of its text
)

// port is the client port of etcd as kubeadm configures it.
const port = 2379

// Connector opens clients. Controllers use this interface so that tests can replace
// Dialer.
type Connector interface {
	Connect(ctx context.Context, t Target) (Client, error)
}

// Target is an etcd cluster and how to reach it.
type Target struct {
	// Cluster names the workload cluster in errors: "namespace/name".
	Cluster string
	// Config reaches the cluster's API server as a user with permission to
	// port-forward to pods in kube-system.
	Config *rest.Config
	// CA is the cluster's etcd CA with its key.
	CA certs.Pair
	// Nodes are the control plane nodes to try, in order.
	Nodes []string
}

// Dialer is the Connector for real clusters. The zero value is ready to use.
type Dialer struct {
	// DialTimeout bounds reaching one member; DefaultDialTimeout if zero.
	DialTimeout time.Duration
	// CallTimeout bounds each call; DefaultCallTimeout if zero.
	CallTimeout time.Duration
	// Clock is for the validity of the client certificate; the real one if nil.
	Clock clock.PassiveClock

	// forward opens a connection to a node's etcd pod.
	forward func(ctx context.Context, config *rest.Config, node string) (net.Conn, error)
}

// Connect returns a client through the first of the target's nodes whose etcd
// answers. If none does, the error has the reason for each node.
func (d *Dialer) Connect(ctx context.Context, t Target) (Client, error) {
	if len(t.Nodes) == 0 {
		return nil, t.failed("", "connect", errors.New("no control plane node is known"))
	}
	var errs []error
	for _, node := range t.Nodes {
		c, err := d.connect(ctx, t, node)
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (d *Dialer) connect(ctx context.Context, t Target, node string) (*client, error) {
	config, err := d.clientTLS(t.CA, node)
	if err != nil {
		return nil, t.failed(node, "connect", err)
	}
	forward := d.forward
	if forward == nil {
		forward = func(ctx context.Context, config *rest.Config, node string) (net.Conn, error) {
			return podforward.Open(ctx, config, podName(node), port)
		}
	}
	dialCtx, cancel := context.WithTimeout(ctx, orDefault(d.DialTimeout, DefaultDialTimeout))
	defer cancel()
	// The first connection is made here, so that its failure has its own error and is
	// not one of gRPC's retries.
	first, err := forward(dialCtx, t.Config, node)
	if err != nil {
		return nil, t.failed(node, "port-forward to its pod", err)
	}
	spare := &spare{conn: first}
	// The name is for messages only: the dialer below has the address, and the TLS
	// configuration the expected server.
	conn, err := grpc.NewClient("passthrough:///"+podName(node),
		grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if conn := spare.take(); conn != nil {
				return conn, nil
			}
			return forward(ctx, t.Config, node)
		}))
	if err != nil {
		_ = first.Close() // Nothing was sent on it.
		return nil, t.failed(node, "connect", err)
	}
	c := &client{dialer: d, target: t, node: node, conn: conn, call: orDefault(d.CallTimeout, DefaultCallTimeout)}
	status, err := c.ask(dialCtx)
	if err != nil {
		if conn := spare.take(); conn != nil {
			_ = conn.Close() // gRPC never took it.
		}
		_ = c.Close() // It never worked; the first failure is the one to report.
		return nil, err
	}
	c.proof.Store(&status)
	return c, nil
}

// clientTLS creates a new client certificate, which is cheaper than storing one
// safely. The server is verified by the etcd CA alone: a port-forward always
// reaches that node's pod, regardless of the names in the pod's certificate, and
// certificates that users provide need not contain any predictable name.
func (d *Dialer) clientTLS(ca certs.Pair, node string) (*tls.Config, error) {
	now := clock.PassiveClock(clock.RealClock{})
	if d.Clock != nil {
		now = d.Clock
	}
	if err := ca.Check(certs.Etcd); err != nil {
		return nil, fmt.Errorf("etcd CA: %w", err)
	}
	pair, err := ca.Issue(certs.Leaf{
		CommonName: "capstan-etcd-client", Client: true, Now: now.Now(), Validity: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("sign a client certificate with the etcd CA: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("load the client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		ServerName:   podName(node), // for servers that choose their certificate by name
		// crypto/tls cannot verify a server without names.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return verify(s.PeerCertificates, roots, now.Now()) },
	}, nil
}

// verify verifies a server's certificate chain.
func verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("it shows no certificate")
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

// failed adds member and cluster to an error.
func (t Target) failed(node, doing string, err error) error {
	where := "etcd of cluster " + t.Cluster
	if node != "" {
		where += ": member " + node
	}
	return fmt.Errorf("%s: %s: %w", where, doing, sanitize.Error(err, maxText))
}

func podName(node string) string { return "etcd-" + node }

func orDefault(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// spare is a connection that is returned once.
type spare struct {
	mu   sync.Mutex
	conn net.Conn
}

func (s *spare) take() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.conn
	s.conn = nil
	return conn
}
