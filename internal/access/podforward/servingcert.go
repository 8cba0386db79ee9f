// SPDX-License-Identifier: Apache-2.0

package podforward

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

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	// timeout is for connecting and reading the certificate.
	timeout = 10 * time.Second
	maxText = 300 // bytes of texts of the cluster
)

// ErrForeign means that the cluster's CA has not signed the certificate: a user
// provided it, and is responsible for its renewal. A new machine would present the
// same.
var ErrForeign = errors.New("the API server's certificate was not signed by the cluster's CA")

// Target is the API server of one machine.
type Target struct {
	Cluster string       // in errors: "namespace/name"
	Config  *rest.Config // reaches the cluster as a user with permission to port-forward to pods in kube-system
	CA      []byte       // the cluster's, in PEM
	Node    string
	Port    int // its port

	forward func(ctx context.Context, config *rest.Config, pod string, port int) (net.Conn, error)
}

// ServingCertExpiry returns when the certificate of an API server expires, or has expired.
func ServingCertExpiry(ctx context.Context, t Target) (time.Time, error) {
	expiry, err := t.expiry(ctx)
	if err != nil {
		err = fmt.Errorf("API server of cluster %s on node %s: read its certificate: %w", t.Cluster, t.Node, sanitize.Error(err, maxText))
	}
	return expiry, err
}

func (t Target) expiry(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	forward := t.forward
	if forward == nil {
		forward = Open
	}
	conn, err := forward(ctx, t.Config, "kube-apiserver-"+t.Node, t.Port)
	if err != nil {
		return time.Time{}, err
	}
	var chain []*x509.Certificate
	link := tls.Client(conn, &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // nothing is sent, and signed verifies the signature
		VerifyConnection:   func(s tls.ConnectionState) error { chain = s.PeerCertificates; return nil },
	})
	err = link.HandshakeContext(ctx)
	_ = conn.Close() // Nothing was sent; closing TLS could block.
	if len(chain) == 0 {
		return time.Time{}, cmp.Or(err, errors.New("it shows none"))
	}
	if !signed(chain, t.CA) {
		return time.Time{}, ErrForeign
	}
	return chain[0].NotAfter, nil
}

// signed reports whether the CA has signed the certificate, even if it is not valid
// now.
func signed(chain []*x509.Certificate, ca []byte) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: chain[0].NotBefore})
	return err == nil
}
