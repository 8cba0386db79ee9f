// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const path = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery"

// authority issues the certificates of a test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var der []byte
	a.key, der = a.sign(template, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.pem = cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

// issue issues a certificate for 127.0.0.1, which edit may change.
func (a *authority) issue(edit func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if edit != nil {
		edit(template)
	}
	key, der := a.sign(template, a.cert, a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// files writes a certificate and its key.
func (a *authority) files(dir string, pair tls.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	err = errors.Join(err,
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	if err != nil {
		a.t.Fatal(err)
	}
	return certFile, keyFile
}

// serve starts an HTTPS server and returns its endpoint. edit may change it before
// it starts.
func serve(t testing.TB, handler http.HandlerFunc, edit func(*httptest.Server, *authority)) Endpoint {
	t.Helper()
	a := newAuthority(t, "test authority")
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}}
	if edit != nil {
		edit(s, a)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return Endpoint{URL: s.URL, CABundle: a.pem}
}

func http1(s *httptest.Server, _ *authority) { s.EnableHTTP2 = false }

// serveRaw accepts connections, with TLS unless bare, and passes them to handle.
// All are closed at the end of the test.
func serveRaw(t *testing.T, bare bool, handle func(net.Conn)) Endpoint {
	t.Helper()
	a := newAuthority(t, "test authority")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(nil)}, NextProtos: []string{"http/1.1"}}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				if bare {
					handle(c)
					return
				}
				handle(tls.Server(c, config))
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		wg.Wait()
	})
	return Endpoint{URL: "https://" + listener.Addr().String(), CABundle: a.pem}
}

// hear reads until the request's blank line, so that the response is to that
// request.
func hear(c net.Conn) bool {
	var got []byte
	b := make([]byte, 4096)
	for !strings.Contains(string(got), "\r\n\r\n") {
		n, err := c.Read(b)
		if err != nil {
			return false
		}
		got = append(got, b[:n]...)
	}
	return true
}

// hold reads until the connection is closed.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func newPool(t testing.TB, o Options) *Pool {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// within returns a context that ends long after the test should have.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

// wantError fails the test unless err is an *Error with this reason whose text
// contains all texts; it returns it.
func wantError(t *testing.T, err error, reason Reason, texts ...string) Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v (%T), want an *Error with reason %s", err, err, reason)
	}
	if e.Reason != reason {
		t.Errorf("reason %s, want %s: %v", e.Reason, reason, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want something with %q", err, text)
		}
	}
	if text := err.Error(); len(text) > 1500 || strings.ContainsAny(text, "\n\x1b\x00") {
		t.Errorf("the text is not fit to be printed: %q", text)
	}
	return *e
}
