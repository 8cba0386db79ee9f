// SPDX-License-Identifier: Apache-2.0

// Package servingcert looks at the certificates that the API servers of a workload
// cluster show to everybody who connects. Each is reached as its machine's static
// Pod, for a load balancer would answer with anybody's.
//
// What is shown is not trusted: nothing is sent, how much is read and how long is
// bounded, and only one that the cluster's CA has signed counts.
package servingcert

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/kit/plaintext"
)

const (
	// timeout is for the connection and what is shown on it.
	timeout = 10 * time.Second
	maxText = 300 // bytes of what the cluster says in words
)

// ErrForeign means that the cluster's CA has not signed the certificate: somebody
// brought it, and knows when it ends. A new machine would show the same.
var ErrForeign = errors.New("the API server's certificate was not signed by the cluster's CA")

// Target is the API server of one machine.
type Target struct {
	Cluster string       // in errors: "namespace/name"
	Config  *rest.Config // reaches the cluster as somebody who may port-forward to pods in kube-system
	CA      []byte       // the cluster's, in PEM
	Node    string
	Port    int // where it listens

	forward func(ctx context.Context, config *rest.Config, pod string, port int) (net.Conn, error)
}

// Expiry is when the certificate of an API server ends, or has ended.
func Expiry(ctx context.Context, t Target) (time.Time, error) {
	expiry, err := t.expiry(ctx)
	if err != nil {
		err = fmt.Errorf("API server of cluster %s on node %s: look at its certificate: %w", t.Cluster, t.Node, plaintext.Error(err, maxText))
	}
	return expiry, err
}

func (t Target) expiry(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	forward := t.forward
	if forward == nil {
		forward = podforward.Open
	}
	conn, err := forward(ctx, t.Config, "kube-apiserver-"+t.Node, t.Port)
	if err != nil {
		return time.Time{}, err
	}
	var chain []*x509.Certificate
	link := tls.Client(conn, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // nothing is sent, and signed looks at who has signed
		VerifyConnection:   func(s tls.ConnectionState) error { chain = s.PeerCertificates; return nil },
	})
	err = link.HandshakeContext(ctx)
	_ = conn.Close() // Nothing was to be sent; a farewell could hang.
	if len(chain) == 0 {
		return time.Time{}, cmp.Or(err, errors.New("it shows none"))
	}
	if !signed(chain, t.CA) {
		return time.Time{}, ErrForeign
	}
	return chain[0].NotAfter, nil
}

// signed reports whether the CA has signed what is shown, be it valid now or not.
func signed(chain []*x509.Certificate, ca []byte) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: chain[0].NotBefore})
	return err == nil
}
