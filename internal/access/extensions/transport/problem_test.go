// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

func TestCertificatesThatAreRefusedAreExplained(t *testing.T) {
	t.Parallel()
	other := newAuthority(t, "another authority")
	certificate := func(edit func(*x509.Certificate)) func(*httptest.Server, *authority) {
		return func(s *httptest.Server, a *authority) { s.TLS.Certificates[0] = a.issue(edit) }
	}
	tests := map[string]struct {
		edit      func(*httptest.Server, *authority)
		noBundle  bool
		wantTexts []string
	}{
		"expired": {certificate(func(c *x509.Certificate) { c.NotAfter = time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC) }), false,
			[]string{"its certificate expired at 2024-02-03T04:05:06Z: renew it"}},
		"not valid yet": {certificate(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }), false,
			[]string{"its certificate is valid from ", "only: compare the clocks"}},
		"for other names": {certificate(func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = []string{"a.example", "b.example"}, []net.IP{net.IPv4(10, 0, 0, 1)}
		}), false, []string{"its certificate is for a.example, b.example, 10.0.0.1; not for 127.0.0.1: give it one for 127.0.0.1 or call it by one of its names"}},
		"for no name": {certificate(func(c *x509.Certificate) { c.IPAddresses, c.Subject = nil, pkix.Name{CommonName: "127.0.0.1"} }), false,
			[]string{"its certificate is for no name at all (a common name does not count); not for 127.0.0.1"}},
		"for very many names": {certificate(func(c *x509.Certificate) {
			c.IPAddresses = nil
			for i := range 1000 {
				c.DNSNames = append(c.DNSNames, fmt.Sprintf("%d.example", i))
			}
		}), false, []string{"7.example, others; not for 127.0.0.1"}},
		"of an authority that is not in the bundle": {func(s *httptest.Server, _ *authority) { s.TLS.Certificates[0] = other.issue(nil) }, false,
			[]string{`its certificate was issued by "CN=another authority", which the CA bundle does not hold: put that authority's certificate there`}},
		"of an authority that the system does not know": {nil, true,
			[]string{`its certificate was issued by "CN=test authority", which the system does not trust: put that authority's certificate into the CA bundle`}},
		"for clients only": {certificate(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), false,
			[]string{"secure the connection", "incompatible key usage"}},
		"old TLS": {func(s *httptest.Server, a *authority) {
			http1(s, a)
			s.TLS.MinVersion, s.TLS.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}, false,
			[]string{"it knows no TLS of version 1.2 or later"}},
		"client certificate demanded": {func(s *httptest.Server, _ *authority) { s.TLS.ClientAuth = tls.RequireAnyClientCert }, false,
			[]string{"it asks for a client certificate and none is configured: configure one that it trusts"}},
		"client certificate demanded in TLS 1.2": {func(s *httptest.Server, _ *authority) {
			s.TLS.ClientAuth, s.TLS.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
		}, false, []string{"it asks for a client certificate and none is configured: configure one that it trusts"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t, answer(`{}`), tc.edit)
			if tc.noBundle {
				e.CABundle = nil
			}
			_, err := newPool(t, Options{}).Post(within(t), e, path, []byte(`{}`))
			wantError(t, err, TLS, tc.wantTexts...)
		})
	}
}

func TestAnAuthorityThatExpiredIsNamed(t *testing.T) {
	t.Parallel()
	s := &server{}
	err := s.explain(&handshakeError{x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{IsCA: true, Subject: pkix.Name{CommonName: "old"}}}})
	if want := `the authority "CN=old" of its certificate expired at`; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAConnectionThatBreaksAfterAskingForACertificateIsExplained makes the calls of
// a connection directly: the network decides whether the alert arrives before the
// connection breaks.
func TestAConnectionThatBreaksAfterAskingForACertificateIsExplained(t *testing.T) {
	t.Parallel()
	e := serve(t, answer(`{}`), nil)
	s, err := newPool(t, Options{}).server(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.clientCertificate(nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.failed(within(t), io.EOF), TLS, "it asks for a client certificate and none is configured")
}

// TestAServerThatOnlyAsksForACertificateIsNotBlamedForIt: a server may request a
// certificate and accept that there is none; its later errors have other reasons.
func TestAServerThatOnlyAsksForACertificateIsNotBlamedForIt(t *testing.T) {
	t.Parallel()
	var crash atomic.Bool
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if crash.Load() {
			panic(http.ErrAbortHandler)
		}
		answer(`{}`)(w, r)
	}, func(s *httptest.Server, a *authority) {
		http1(s, a)
		s.TLS.ClientAuth = tls.RequestClientCert
	})
	p := newPool(t, Options{})
	if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	crash.Store(true)
	_, err := p.Post(within(t), e, path, []byte(`{}`))
	wantError(t, err, Connection, "closed the connection")
}

func TestClientCertificateIsShownAndReadAgain(t *testing.T) {
	t.Parallel()
	clients := newAuthority(t, "clients")
	issue := func(serial int64) tls.Certificate {
		return clients.issue(func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) })
	}
	dir := t.TempDir()
	certFile, keyFile := clients.files(dir, issue(11))
	var seen int64
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = r.TLS.PeerCertificates[0].SerialNumber.Int64()
		answer(`{}`)(w, r)
	}, func(s *httptest.Server, _ *authority) {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(clients.cert)
	})
	clock := testclock.NewFakeClock(time.Now())
	var reported error
	p := newPool(t, Options{ClientCertFile: certFile, ClientKeyFile: keyFile, Clock: clock, OnCertificateError: func(err error) { reported = err }})
	call := func(want int64) {
		t.Helper()
		p.Forget(e) // a new connection
		if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		if seen != want {
			t.Errorf("the server saw certificate %d, want %d", seen, want)
		}
	}
	call(11)
	clients.files(dir, issue(12))
	clock.Step(time.Minute)
	call(12)
	if err := os.Truncate(keyFile, 0); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	call(12)
	if reported == nil || !strings.Contains(reported.Error(), keyFile+" holds no PEM private key") {
		t.Errorf("reported %v", reported)
	}
}

func TestAClientCertificateThatIsRefusedIsNamed(t *testing.T) {
	t.Parallel()
	certFile, keyFile := newAuthority(t, "x").files(t.TempDir(), newAuthority(t, "unknown").issue(nil))
	e := serve(t, answer(`{}`), func(s *httptest.Server, a *authority) {
		s.TLS.ClientAuth, s.TLS.ClientCAs, s.TLS.MaxVersion = tls.RequireAndVerifyClientCert, x509.NewCertPool(), tls.VersionTLS12
	})
	_, err := newPool(t, Options{ClientCertFile: certFile, ClientKeyFile: keyFile}).Post(within(t), e, path, []byte(`{}`))
	wantError(t, err, TLS, "it refuses the client certificate in "+certFile)
}

func TestNewNamesTheClientCertificateThatIsMissing(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"a file that is not there": {ClientCertFile: "/nowhere/tls.crt", ClientKeyFile: "/nowhere/tls.key"}, "a key without a certificate": {ClientKeyFile: "/nowhere/tls.key"}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "open client certificate: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestProblemReportsMisbehavingServers(t *testing.T) {
	t.Parallel()
	text := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			if hear(c) {
				_, _ = io.WriteString(c, text)
			}
		}
	}
	tests := map[string]struct {
		handle    func(net.Conn)
		bare      bool // without TLS
		reason    Reason
		wantTexts []string
	}{
		"closes at once":                {func(net.Conn) {}, true, TLS, []string{""}},
		"speaks plain HTTP":             {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); hold(c) }, true, TLS, []string{"it does not speak TLS, which servers of extensions must"}},
		"closes instead of answering":   {func(c net.Conn) { hear(c) }, false, Connection, []string{"it closed the connection without an answer"}},
		"answers garbage":               {text("\x00\x1b[31mhello\n" + strings.Repeat("x", 5000) + "\r\n\r\n"), false, Connection, []string{"it answers something else than HTTP", "malformed"}},
		"answers garbage as status":     {text("HTTP/1.1 abc\r\n\r\n"), false, Connection, []string{"it answers something else than HTTP"}},
		"closes in its headers":         {text("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), false, Connection, []string{"it closed the connection without an answer"}},
		"closes before all it promised": {text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"status\""), false, Connection, []string{"its answer broke off after 9 bytes: unexpected EOF"}},
		"closes in a chunk":             {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"status\""), false, Connection, []string{"its answer broke off after"}},
		"sends a chunk of no length":    {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), false, Connection, []string{"its answer broke off after 0 bytes"}},
		"has two lengths":               {text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}"), false, Connection, []string{""}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serveRaw(t, tc.bare, tc.handle)
			_, err := newPool(t, Options{}).Post(within(t), e, path, []byte(`{"password":"hunter2"}`))
			wantError(t, err, tc.reason, tc.wantTexts...)
		})
	}
}

func TestClosedPortIsConnectionError(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	_, err = newPool(t, Options{}).Post(within(t), Endpoint{URL: "https://" + listener.Addr().String()}, path, []byte(`{}`))
	wantError(t, err, Connection, "server "+listener.Addr().String()+": connect: ", "connection refused")
}

// TestCallsEndWithTheirContext waits until each server signals that it has done
// what the case needs. Then the context ends the call: its deadline or cancellation
// is chosen after that.
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	servers := map[string]struct {
		bare   bool
		before string // what the server says first
		doing  string
	}{
		"never shakes hands":    {bare: true, doing: "connecting"},
		"never answers":         {doing: "waiting for its answer"},
		"never ends its answer": {before: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", doing: "of its answer"},
	}
	ends := map[string]struct {
		reason Reason
		is     error
		text   string
	}{
		"deadline":  {Timeout, context.DeadlineExceeded, "time ran out"},
		"cancelled": {Canceled, context.Canceled, "given up"},
	}
	for name, server := range servers {
		for how, end := range ends {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				reached := make(chan struct{}, 1)
				e := serveRaw(t, server.bare, func(c net.Conn) {
					if !server.bare && !hear(c) {
						return
					}
					_, _ = io.WriteString(c, server.before)
					reached <- struct{}{}
					hold(c)
				})
				post := func(ctx context.Context) error {
					_, err := newPool(t, Options{}).Post(ctx, e, path, []byte(`{}`))
					return err
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var err error
				if how == "deadline" {
					err = untilReached(t, reached, post)
				} else {
					go func() { <-reached; cancel() }()
					err = post(ctx)
				}
				wantError(t, err, end.reason, end.text)
				if how == "deadline" {
					wantError(t, err, end.reason, server.doing)
				}
				if !errors.Is(err, end.is) {
					t.Errorf("%v is not %v", err, end.is)
				}
			})
		}
	}
}

// untilReached makes a call with a deadline, and repeats it with a later one if the
// deadline passed before the server was reached, as on a very busy machine.
func untilReached(t *testing.T, reached <-chan struct{}, post func(context.Context) error) error {
	for limit := 200 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := post(ctx)
		cancel()
		select {
		case <-reached:
			return err
		default:
			t.Logf("the server was not reached in %s", limit)
		}
	}
}

func TestAContextThatIsOverMakesNoCall(t *testing.T) {
	t.Parallel()
	e := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("called") }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newPool(t, Options{}).Post(ctx, e, path, []byte(`{}`))
	wantError(t, err, Canceled)
}
