// SPDX-License-Identifier: Apache-2.0

package podforward

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

func newCA(t *testing.T) certs.Pair {
	t.Helper()
	ca, err := certs.New(certs.CA, "", time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// reaching connects to a server that calls a function with its connection.
func reaching(serve func(net.Conn)) func(context.Context, *rest.Config, string, int) (net.Conn, error) {
	return func(_ context.Context, _ *rest.Config, pod string, port int) (net.Conn, error) {
		if pod != "kube-apiserver-a" || port != 6443 {
			return nil, errors.New("connection refused")
		}
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	}
}

// showing returns an API server that presents a certificate, and requires one of
// its clients.
func showing(t *testing.T, pair certs.Pair) func(net.Conn) {
	t.Helper()
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return func(conn net.Conn) {
		_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAnyClientCert}).Handshake()
		_ = conn.Close()
	}
}

func TestExpiryIsReadFromUntrustedCertificate(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-2 * time.Hour)
	ca, err := certs.New(certs.CA, "", began, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, validity := range map[string]time.Duration{"valid": 3 * time.Hour, "expired": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := ca.Issue(certs.Leaf{CommonName: "anything", Server: true, Now: began, Validity: validity})
			if err != nil {
				t.Fatal(err)
			}
			got, err := ServingCertExpiry(t.Context(), Target{Cluster: "ns/prod", CA: ca.Cert, Node: "a", Port: 6443, forward: reaching(showing(t, pair))})
			if want := began.Add(validity).UTC().Truncate(time.Second); err != nil || !got.Equal(want) {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		})
	}
}

func TestACertificateOfAnotherAuthorityIsForeign(t *testing.T) {
	t.Parallel()
	pair, err := newCA(t).Issue(certs.Leaf{CommonName: "kube-apiserver", Server: true, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ServingCertExpiry(t.Context(), Target{Cluster: "ns/prod", CA: newCA(t).Cert, Node: "a", Port: 6443, forward: reaching(showing(t, pair))})
	if !errors.Is(err, ErrForeign) || !got.IsZero() {
		t.Errorf("got %s, %v, want none, and that it is foreign", got, err)
	}
}

func TestErrorNamesServerWithoutCertificate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		node  string
		serve func(net.Conn)
		want  string
	}{
		"the port is closed": {"b", nil, "connection refused"},
		"hangs up":           {"a", func(c net.Conn) { _ = c.Close() }, "read its certificate"},
		"speaks no TLS": {"a", func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, _ = c.Write([]byte("\x1b]0;owned\a HTTP/1.1 400\r\n"))
			_ = c.Close()
		}, "read its certificate"},
		"talks without end": {"a", func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			for err := error(nil); err == nil; {
				_, err = c.Write([]byte{22, 3, 3, 0, 4, 11, 0xff, 0xff, 0xff}) // a certificate of 16 MiB
			}
		}, "read its certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ServingCertExpiry(t.Context(), Target{Cluster: "ns/prod", CA: newCA(t).Cert, Node: tc.node, Port: 6443, forward: reaching(tc.serve)})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "API server of cluster ns/prod on node "+tc.node) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestAnAPIServerThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := ServingCertExpiry(t.Context(), Target{Cluster: "ns/prod", Node: "a", Port: 6443, forward: reaching(func(c net.Conn) {
			b := make([]byte, 4096)
			for err := error(nil); err == nil; {
				_, err = c.Read(b)
			}
		})})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != timeout {
			t.Errorf("after %s: %v, want it given up after %s", time.Since(begin), err, timeout)
		}
	})
}
