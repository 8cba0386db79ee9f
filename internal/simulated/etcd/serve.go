// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/connlistener"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// ErrNotRunning is what a port-forward to a member that does not run gets.
var ErrNotRunning = errors.New("connection refused: etcd is not running")

// served is what a member needs while clients are connected to it.
type served struct {
	tls   *tls.Config
	conns map[net.Conn]bool
}

// Serve answers on conn as the member of that name until either side closes it. A
// member that does not run refuses immediately with ErrNotRunning.
func (c *Cluster) Serve(name string, conn net.Conn) error {
	id, config, err := c.admit(name, conn)
	if err != nil {
		_ = conn.Close() // The refusal is the error that the caller needs.
		return fmt.Errorf("etcd member %s: %w", name, err)
	}
	defer c.leave(id, conn)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(recoverUnary), grpc.StreamInterceptor(recoverStream))
	m := &member{cluster: c, id: id}
	pb.RegisterClusterServer(s, m)
	pb.RegisterMaintenanceServer(s, &maintenance{member: m})
	pb.RegisterKVServer(s, &keyValues{member: m})
	err = s.Serve(connlistener.Listen(conn))
	s.Stop()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// gRPC runs each call in a goroutine in which a panic would end the process.
func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (res any, err error) {
	err = recovery.Call(ctx, func() (err error) {
		res, err = handle(ctx, req)
		return err
	})
	return res, err
}

func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return recovery.Call(stream.Context(), func() error { return handle(srv, stream) })
}

// admit finds or creates what the member needs to serve, and registers conn.
func (c *Cluster) admit(name string, conn net.Conn) (uint64, *tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.state.named(name)
	if m == nil || m.Down {
		return 0, nil, ErrNotRunning
	}
	s := c.certs[m.ID]
	if s == nil {
		config, err := c.serverConfig(m)
		if err != nil {
			return 0, nil, err
		}
		s = &served{tls: config, conns: map[net.Conn]bool{}}
		c.certs[m.ID] = s
	}
	s.conns[conn] = true
	return m.ID, s.tls, nil
}

func (c *Cluster) leave(id uint64, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.certs[id]; s != nil {
		delete(s.conns, conn)
	}
}

// forget drops what a member served with and returns its connections, to be closed
// without the lock. Called with the lock.
func (c *Cluster) forget(id uint64) (conns []net.Conn) {
	if s := c.certs[id]; s != nil {
		for conn := range s.conns {
			conns = append(conns, conn)
		}
	}
	delete(c.certs, id)
	return conns
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close() // Cutting it is the point.
	}
}

// serverConfig signs a certificate for the member, with the names kubeadm
// gives an etcd server, and demands one of the same CA from clients.
func (c *Cluster) serverConfig(m *Member) (*tls.Config, error) {
	leaf := certs.Leaf{
		CommonName: m.Name, Client: true, Server: true, Now: c.clock.Now(),
		Validity: certs.CAValidity, // a simulated machine renews nothing
		DNSNames: []string{m.Name, "localhost"},
		IPs:      []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, raw := range slices.Concat(m.ClientURLs, m.PeerURLs) {
		if u, err := url.Parse(raw); err == nil {
			if ip := net.ParseIP(u.Hostname()); ip != nil {
				leaf.IPs = append(leaf.IPs, ip)
			}
		}
	}
	pair, err := c.ca.Issue(leaf)
	if err != nil {
		return nil, fmt.Errorf("sign its certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("load its certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca.Cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		Time:         c.clock.Now, // by which clients date theirs
	}, nil
}
