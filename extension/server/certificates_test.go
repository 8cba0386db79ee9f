// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

func authority(t *testing.T, name string) certs.Pair {
	t.Helper()
	ca, err := certs.NewCA(certs.ECDSAP256, name, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca certs.Pair, leaf certs.Leaf) certs.Pair {
	t.Helper()
	leaf.Now = time.Now()
	pair, err := ca.Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func clientCertificate(t *testing.T, ca certs.Pair) tls.Certificate {
	t.Helper()
	leaf := issue(t, ca, certs.Leaf{CommonName: "plane", Client: true})
	cert, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	// Another inode each time, as with a mounted Secret: the modification time may be too
	// coarse to distinguish two writes.
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// presented is the certificate that a server shows to a caller for host.
func presented(t *testing.T, s *Server, config *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

func TestGeneratedCertificateIsForTheseHosts(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0", Hosts: []string{"budget.tools.svc", "10.1.2.3", "localhost"}}, agree)
	start(t, s)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CABundle())
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "budget.tools.svc": true, "10.1.2.3": true, "elsewhere": false} {
		cert, err := presented(t, s, &tls.Config{RootCAs: roots, ServerName: host})
		if (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
		if want && cert.NotAfter.Before(time.Now().AddDate(9, 0, 0)) {
			t.Errorf("the certificate ends on %s, and is not renewed", cert.NotAfter)
		}
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	start(t, s)
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		_, err := presented(t, s, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	ca := authority(t, "company")
	renew := func(name string) {
		leaf := issue(t, ca, certs.Leaf{CommonName: name, DNSNames: []string{"localhost"}, Server: true})
		write(t, certFile, leaf.Cert)
		write(t, keyFile, leaf.Key)
	}
	renew("first")
	c := testclock.NewFakePassiveClock(time.Now())
	var log lines
	s, err := newServer(Options{Address: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile, Log: log.logger(0)}, c)
	if err != nil {
		t.Fatal(err)
	}
	if s.CABundle() != nil {
		t.Error("the server reports an authority that it cannot know")
	}
	start(t, s)
	shows := func(want string) {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.Cert)
		cert, err := presented(t, s, &tls.Config{RootCAs: roots, ServerName: "localhost"})
		if err != nil || cert.Subject.CommonName != want {
			t.Errorf("got %v, %v, want %s", cert, err, want)
		}
		c.SetTime(c.Now().Add(2 * time.Second))
	}
	shows("first")
	renew("second")
	shows("second")
	write(t, certFile, []byte("half a certifi"))
	shows("second")
	if got := log.matching("Keeping the certificate"); len(got) != 1 {
		t.Errorf("logged %q", got)
	}
	renew("third")
	shows("third")
}

func TestClientCertificatesAreRequiredAndTheirAuthorityIsReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clients.crt")
	before, after := authority(t, "before"), authority(t, "after")
	write(t, file, before.Cert)
	c := testclock.NewFakePassiveClock(time.Now())
	var log lines
	s, err := newServer(Options{Address: "127.0.0.1:0", ClientCAFile: file, Log: log.logger(0)}, c)
	if err != nil {
		t.Fatal(err)
	}
	start(t, s)
	cached := tls.NewLRUClientSessionCache(8)
	old, renewed := clientCertificate(t, before), clientCertificate(t, after)
	calls := func(what string, want bool, with ...tls.Certificate) {
		t.Helper()
		cl := client(t, s, with...)
		cl.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = cached // a cached session does not help either
		resp, err := cl.Post(s.URL()+discoveryPath, "application/json", strings.NewReader(discoveryBody))
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
		c.SetTime(c.Now().Add(2 * time.Second))
	}
	calls("no certificate", false)
	calls("the known authority", true, old)
	calls("an unknown authority", false, renewed)
	write(t, file, after.Cert)
	calls("the authority that is gone", false, old)
	calls("the new authority", true, renewed)
	write(t, file, []byte("rubbish"))
	calls("the authority before the file broke", true, renewed)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	calls("the authority before the file went", true, renewed)
	if got := log.matching("Keeping the client authorities"); len(got) != 2 {
		t.Errorf("logged %q", got)
	}
	write(t, file, append(before.Cert, after.Cert...))
	calls("the first of two authorities", true, old)
	calls("the second of two authorities", true, renewed)
}

func TestNewRefusesOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rubbish, missing := filepath.Join(dir, "rubbish"), filepath.Join(dir, "missing")
	write(t, rubbish, []byte("rubbish"))
	tests := map[string]struct {
		options Options
		want    []string
	}{
		"an address without port":        {Options{Address: "localhost"}, []string{`address "localhost": give it as host:port`}},
		"operations without port":        {Options{OperationsAddress: "localhost"}, []string{`operations address "localhost"`}},
		"a certificate without key":      {Options{CertFile: rubbish}, []string{"one of them is missing"}},
		"a key without certificate":      {Options{KeyFile: rubbish}, []string{"one of them is missing"}},
		"certificate files not there":    {Options{CertFile: missing, KeyFile: missing}, []string{missing}},
		"certificate files of rubbish":   {Options{CertFile: rubbish, KeyFile: rubbish}, []string{rubbish}},
		"authorities that are not there": {Options{ClientCAFile: missing}, []string{"read client authorities", missing}},
		"authorities of rubbish":         {Options{ClientCAFile: rubbish}, []string{"read client authorities", rubbish}},
		"negative numbers":               {Options{MaxConcurrent: -1}, []string{"cannot be negative"}},
		"hosts that are none, all said":  {Options{Hosts: []string{"a b", "x/y"}}, []string{`"a b"`, `"x/y"`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(tc.options)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

func TestURLIsWhatCallersCanUse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		ip    string
		hosts []string
		want  string
	}{
		"one address":                     {"10.0.0.1", []string{"budget"}, "10.0.0.1:9443"},
		"everywhere, with a name":         {"0.0.0.0", []string{"budget"}, "budget:9443"},
		"everywhere, without a name":      {"::", nil, "127.0.0.1:9443"},
		"an address of version 6":         {"::1", nil, "[::1]:9443"},
		"everywhere, a name of version 6": {"::", []string{"fd00::1"}, "[fd00::1]:9443"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := hostPort(&net.TCPAddr{IP: net.ParseIP(tc.ip), Port: 9443}, tc.hosts); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestExtensionConfigRegistersTheServer(t *testing.T) {
	t.Parallel()
	s := creating(t, Options{Address: "127.0.0.1:0"}, agree)
	if s.URL() != "" || s.Addr() != nil || s.OperationsURL() != "" {
		t.Errorf("before it listens: %q, %v, %q", s.URL(), s.Addr(), s.OperationsURL())
	}
	start(t, s)
	got := s.ExtensionConfig("budget")
	if got.Name != "budget" || got.Kind != "ExtensionConfig" || got.APIVersion != "runtime.cluster.x-k8s.io/v1beta2" ||
		got.Spec.ClientConfig.URL != s.URL() || string(got.Spec.ClientConfig.CABundle) != string(s.CABundle()) || !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Errorf("got %+v", got)
	}
	if _, err := certs.ParseCertificate(got.Spec.ClientConfig.CABundle); err != nil {
		t.Error(err)
	}
}
