// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// certificates are the server's certificate, and the authorities of its clients.
type certificates struct {
	bundle      []byte // the generated authority; nil with files
	certificate func() (*tls.Certificate, error)
	clients     *authorities // nil: clients need no certificate
}

func newCertificates(o Options, c clock.PassiveClock, log logr.Logger) (*certificates, error) {
	var (
		all certificates
		err error
	)
	keep := certs.OnError(func(err error) {
		log.Info("Keeping the certificate", "reason", err.Error())
	})
	if o.CertFile != "" {
		files, err := certs.OpenFiles(o.CertFile, o.KeyFile, c, keep)
		if err != nil {
			return nil, err
		}
		all.certificate = files.Certificate
	} else if err := all.generate(o, c.Now()); err != nil {
		return nil, fmt.Errorf("generate a certificate: %w", err)
	}
	if o.ClientCAFile != "" {
		if all.clients, err = openAuthorities(o.ClientCAFile, c, log); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// generate creates an authority, and a certificate of it with the same validity.
func (t *certificates) generate(o Options, now time.Time) error {
	ca, err := certs.NewCA(certs.ECDSAP256, "capstan-extension-server", now, 0)
	if err != nil {
		return err
	}
	names := []string{"localhost"}
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	hosts := slices.Clone(o.Hosts)
	if host, _, err := net.SplitHostPort(o.Address); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	for _, host := range hosts {
		switch ip := net.ParseIP(host); {
		case ip == nil && !slices.Contains(names, host):
			names = append(names, host)
		case ip != nil && !ip.IsUnspecified() && !slices.ContainsFunc(ips, ip.Equal):
			ips = append(ips, ip)
		}
	}
	leaf, err := ca.Issue(certs.Leaf{CommonName: "localhost", DNSNames: names, IPs: ips, Server: true, Now: now, Validity: certs.CAValidity})
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		return err
	}
	t.bundle = ca.Cert
	t.certificate = func() (*tls.Certificate, error) { return &pair, nil }
	return nil
}

// checkHost reports whether a certificate can be issued for host.
func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	if why := validation.IsDNS1123Subdomain(strings.ToLower(host)); len(why) > 0 {
		return fmt.Errorf("host %q is neither an IP address nor a DNS name: %s", host, strings.Join(why, "; "))
	}
	return nil
}

// config is built for each connection where clients need a certificate: the authorities
// that verify it may have changed.
func (t *certificates) config() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
	}
	if t.clients == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.SessionTicketsDisabled = true // no session outlives the authority that verified it
	config.ClientCAs = t.clients.pool()
	fixed := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := fixed.Clone()
		now.ClientCAs = t.clients.pool()
		return now, nil
	}
	return config
}

const (
	lookEvery      = time.Second // the minimum interval between two reads of a file
	maxAuthorities = 1 << 20     // bytes of a file of authorities
)

// authorities is a file of certificate authorities that is read again when it changes.
// While it has none, the ones read before stay in use.
type authorities struct {
	file  string
	clock clock.PassiveClock
	log   logr.Logger

	mu       sync.Mutex // guards the following fields
	looked   time.Time
	read     []byte
	reported string
	current  *x509.CertPool
}

func openAuthorities(file string, c clock.PassiveClock, log logr.Logger) (*authorities, error) {
	a := &authorities{file: file, clock: c, log: log, looked: c.Now()}
	if err := a.look(); err != nil {
		return nil, err
	}
	return a, nil
}

// pool returns the current authorities for client certificates.
func (a *authorities) pool() *x509.CertPool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since := a.clock.Since(a.looked); since >= 0 && since < lookEvery {
		return a.current
	}
	a.looked = a.clock.Now()
	err := a.look()
	switch {
	case err == nil:
		a.reported = ""
	case err.Error() != a.reported:
		a.reported = err.Error()
		a.log.Info("Keeping the client authorities", "reason", a.reported)
	}
	return a.current
}

// look reads the file; it is small.
func (a *authorities) look() error {
	data, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("read client authorities: %w", err)
	}
	if len(data) > maxAuthorities {
		return fmt.Errorf("read client authorities: %s is larger than %d bytes", a.file, maxAuthorities)
	}
	if a.current != nil && bytes.Equal(data, a.read) {
		return nil
	}
	all, err := certs.ParseCertificates(data)
	if err != nil {
		return fmt.Errorf("read client authorities in %s: %w", a.file, err)
	}
	pool := x509.NewCertPool()
	for _, cert := range all {
		pool.AddCert(cert)
	}
	a.read, a.current = data, pool
	return nil
}
