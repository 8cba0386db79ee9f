// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// echo answers each line with what was dialled and the line.
func echo(_ context.Context, _, address string) (net.Conn, error) {
	if address != "10.96.0.7:443" {
		return nil, errors.New("there is no such Service")
	}
	ours, theirs := net.Pipe()
	go func() {
		lines := bufio.NewScanner(theirs)
		for lines.Scan() {
			_, _ = fmt.Fprintf(theirs, "%s: %s\n", address, lines.Text())
		}
		_ = lines.Err() // the pipe was closed
	}()
	return ours, nil
}

func server(t *testing.T) (address string, cfg *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(Handler(echo))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s.Listener.Addr().String(), &tls.Config{RootCAs: roots}
}

func TestAConnectionGoesThroughAnotherPlane(t *testing.T) {
	t.Parallel()
	address, cfg := server(t)
	conn, err := Through(t.Context(), address, cfg, "10.96.0.7:443")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it was read
	answers := bufio.NewScanner(conn)
	for _, line := range []string{"one", "two"} {
		if _, err := fmt.Fprintln(conn, line); err != nil {
			t.Fatal(err)
		}
		if want := "10.96.0.7:443: " + line; !answers.Scan() || answers.Text() != want {
			t.Errorf("answer %q, error %v, want %q", answers.Text(), answers.Err(), want)
		}
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	t.Parallel()
	address, cfg := server(t)
	tests := map[string]struct {
		server, address string
		cfg             *tls.Config
		want            string
	}{
		"what is not there":     {address, "10.96.0.8:443", cfg, "there is no such Service"},
		"who is not trusted":    {address, "10.96.0.7:443", &tls.Config{}, "certificate"},
		"a plane that has gone": {"127.0.0.1:1", "10.96.0.7:443", cfg, "connection refused"},
	}
	for name, tc := range tests {
		_, err := Through(t.Context(), tc.server, tc.cfg, tc.address)
		if want := "reach " + tc.address + " through the plane at " + tc.server; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q with %q", name, err, want, tc.want)
		}
	}
}

// TestHandlerRefusesOtherRequests: browsers and HTTP/2 have no such upgrade.
func TestHandlerRefusesOtherRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header http.Header
		want   int
	}{
		"no upgrade":              {http.Header{}, http.StatusUpgradeRequired},
		"another one":             {http.Header{"Upgrade": {"websocket"}}, http.StatusUpgradeRequired},
		"no address":              {http.Header{"Upgrade": {protocol}}, http.StatusBadGateway},
		"one that cannot upgrade": {http.Header{"Upgrade": {protocol}, header: {"10.96.0.7:443"}}, http.StatusHTTPVersionNotSupported},
	} {
		w := httptest.NewRecorder() // no http.Hijacker
		r := httptest.NewRequest(http.MethodGet, Path, nil)
		r.Header = tc.header
		Handler(echo).ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: answered %d: %s, want %d", name, w.Code, w.Body, tc.want)
		}
	}
}
