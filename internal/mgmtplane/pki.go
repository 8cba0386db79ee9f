// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	// renewBefore is how long before its end a leaf is made anew: a plane that
	// is started once a quarter never serves an expired certificate.
	renewBefore = 90 * 24 * time.Hour
)

// pki is a folder of certificates and keys in PEM, one .crt and one .key each.
type pki struct {
	dir string
	now func() time.Time
}

// leaf is a certificate that one of the authorities signs.
type leaf struct {
	file, authority string
	name            string
	organization    []string
	usage           x509.ExtKeyUsage
	hosts           []string // DNS names and addresses
}

func (p pki) crt(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pki) key(name string) string { return filepath.Join(p.dir, name+".key") }

// leaves lists what a plane that answers at hosts needs.
func leaves(hosts []string) []leaf {
	return []leaf{
		{file: "apiserver", authority: "ca", name: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth, hosts: hosts},
		{file: "admin", authority: "ca", name: "kubernetes-admin", organization: []string{"system:masters"}, usage: x509.ExtKeyUsageClientAuth},
		{file: "front-proxy-client", authority: "front-proxy-ca", name: "front-proxy-client", usage: x509.ExtKeyUsageClientAuth},
	}
}

// ensure makes what is missing, expired or about to be, or made for other
// hosts. It never replaces a sound authority or the service account key:
// everything issued by them would be worthless.
func (p pki) ensure(hosts []string) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	if err := p.checkPrivate(); err != nil {
		return err
	}
	authorities := map[string]*authority{}
	for _, name := range []string{"ca", "front-proxy-ca"} {
		ca, err := p.ensureAuthority(name)
		if err != nil {
			return fmt.Errorf("certificate authority %s: %w", p.crt(name), err)
		}
		authorities[name] = ca
	}
	for _, l := range leaves(hosts) {
		if err := p.ensureLeaf(authorities[l.authority], l); err != nil {
			return fmt.Errorf("certificate %s: %w", p.crt(l.file), err)
		}
	}
	if err := p.ensureServiceAccountKey(); err != nil {
		return fmt.Errorf("service account key %s: %w", p.key("sa"), err)
	}
	return nil
}

func (p pki) checkPrivate() error {
	paths, err := filepath.Glob(p.key("*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, p.dir) {
		if err := datadir.CheckPrivate(path); err != nil {
			return err
		}
	}
	return nil
}

type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (p pki) ensureAuthority(name string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(p.crt(name), p.key(name))
	if err == nil {
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("key of type %T cannot sign", pair.PrivateKey)
		}
		if p.now().After(pair.Leaf.NotAfter) {
			return nil, fmt.Errorf("expired on %s: remove %s to start with new certificates", pair.Leaf.NotAfter.Format(time.DateOnly), p.dir)
		}
		return &authority{pair.Leaf, key}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || exists(p.crt(name)) {
		return nil, err // half of a pair, or rubbish: not ours to overwrite
	}
	tmpl := p.template(name, nil, caLifetime)
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &authority{tmpl, key}
	der, err := p.issue(name, ca, tmpl, key)
	if err != nil {
		return nil, err
	}
	ca.cert, err = x509.ParseCertificate(der)
	return ca, err
}

func (p pki) ensureLeaf(ca *authority, l leaf) error {
	if p.usable(ca, l) {
		return nil
	}
	tmpl := p.template(l.name, l.organization, leafLifetime)
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{l.usage}
	for _, host := range l.hosts {
		if ip := net.ParseIP(host); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	_, err = p.issue(l.file, ca, tmpl, key)
	return err
}

// usable reports whether the leaf on disk is whole, signed by ca, good for all
// hosts, and not near its end.
func (p pki) usable(ca *authority, l leaf) bool {
	pair, err := tls.LoadX509KeyPair(p.crt(l.file), p.key(l.file))
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.cert) != nil || p.now().Add(renewBefore).After(pair.Leaf.NotAfter) {
		return false
	}
	return !slices.ContainsFunc(l.hosts, func(host string) bool { return pair.Leaf.VerifyHostname(host) != nil })
}

func (p pki) template(name string, organization []string, lifetime time.Duration) *x509.Certificate {
	now := p.now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name, Organization: organization},
		NotBefore: now.Add(-time.Hour), // clocks of clients differ
		NotAfter:  now.Add(lifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func (p pki) issue(file string, ca *authority, tmpl *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	tmpl.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	// The key first: a certificate without its key looks like half a pair.
	if err := writeKey(p.key(file), key); err != nil {
		return nil, err
	}
	return der, writeFile(p.crt(file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (p pki) ensureServiceAccountKey() error {
	b, err := os.ReadFile(p.key("sa"))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		return writeKey(p.key("sa"), key)
	}
	if err != nil {
		return err
	}
	if block, _ := pem.Decode(b); block == nil {
		return errors.New("no PEM block in it")
	}
	return nil
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// writeFile replaces a file whole, readable by its owner alone.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
