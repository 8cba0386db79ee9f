// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/conformance/extension"
)

const (
	certificateVerified = "An extension serves HTTPS with a certificate that its CA bundle verifies for its host."
	certificateLasts    = "Its certificates are valid for another day at least."
)

func TestEachFaultOfCertificatesFailsItsCheck(t *testing.T) {
	t.Parallel()
	here := net.IPv4(127, 0, 0, 1)
	stranger, _ := signed(t, here, time.Hour)
	tests := map[string]struct {
		ip          net.IP
		validity    time.Duration
		change      func(c *extension.Config)
		wantFailed  string
		wantProblem string
	}{
		"it is for another host":            {ip: net.IPv4(192, 0, 2, 1), validity: 48 * time.Hour, wantFailed: certificateVerified, wantProblem: "192.0.2.1"},
		"it has expired":                    {ip: here, validity: -time.Minute, wantFailed: certificateVerified, wantProblem: "expired"},
		"it is signed by another authority": {ip: here, validity: 48 * time.Hour, change: func(c *extension.Config) { c.CABundle = stranger }, wantFailed: certificateVerified, wantProblem: "unknown authority"},
		"it expires in an hour":             {ip: here, validity: time.Hour, wantFailed: certificateLasts, wantProblem: `"CN=conformance" expires at `},
		"the url is that of plain HTTP":     {ip: here, validity: 48 * time.Hour, change: func(c *extension.Config) { c.URL = "http" + c.URL[len("https"):] }, wantFailed: certificateVerified, wantProblem: "http://"},
		"the port is closed":                {ip: here, validity: 48 * time.Hour, change: func(c *extension.Config) { c.URL = "https://127.0.0.1:1" }, wantFailed: certificateVerified, wantProblem: "refused"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bundle, cert := signed(t, tc.ip, tc.validity)
			s := httptest.NewUnstartedServer(good(t))
			s.Config.ErrorLog = quiet
			s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
			s.StartTLS()
			t.Cleanup(func() { _ = s.Config.Close() })
			c := extension.Config{URL: s.URL, CABundle: bundle, Hooks: []string{create}}
			if tc.change != nil {
				tc.change(&c)
			}
			r := extension.Run(t.Context(), c)
			wantOneFailure(t, r, tc.wantFailed, tc.wantProblem)
			if tc.wantFailed == certificateVerified && r.Passed != 0 {
				t.Errorf("%d checks passed without a connection", r.Passed)
			}
		})
	}
}

func TestClientCertificateIsShown(t *testing.T) {
	t.Parallel()
	here := net.IPv4(127, 0, 0, 1)
	bundle, cert := signed(t, here, 48*time.Hour)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(bundle)
	s := httptest.NewUnstartedServer(good(t))
	s.Config.ErrorLog = quiet
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.StartTLS()
	t.Cleanup(func() { _ = s.Config.Close() })
	c := extension.Config{URL: s.URL, CABundle: bundle, Hooks: []string{create}}
	if r := extension.Run(t.Context(), c); r.Err() == nil {
		t.Error("no error without a client certificate")
	}
	c.ClientCertFile, c.ClientKeyFile = files(t, cert)
	if err := extension.Run(t.Context(), c).Err(); err != nil {
		t.Error(err)
	}
}

// TestServiceIsReachedAtAnotherAddress also has a path before those of hooks.
func TestServiceIsReachedAtAnotherAddress(t *testing.T) {
	t.Parallel()
	bundle, cert := signed(t, net.IPv4(192, 0, 2, 1), 48*time.Hour)
	s := httptest.NewUnstartedServer(http.StripPrefix("/below/here", good(t)))
	s.Config.ErrorLog = quiet
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(func() { _ = s.Config.Close() })
	c := extension.Config{URL: "https://sample.default.svc:8443/below/here", Address: s.Listener.Addr().String(), CABundle: bundle, Hooks: []string{create}}
	if r := extension.Run(t.Context(), c); r.Err() != nil {
		t.Error(r.Err())
	}
	c.URL = "https://other.default.svc:8443/below/here"
	wantOneFailure(t, extension.Run(t.Context(), c), certificateVerified, "other.default.svc")
}

// signed creates a self-signed certificate for an address and a Service.
func signed(t *testing.T, ip net.IP, validity time.Duration) (bundle []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance"}, IPAddresses: []net.IP{ip}, DNSNames: []string{"sample.default.svc"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
