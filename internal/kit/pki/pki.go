// SPDX-License-Identifier: Apache-2.0

// Package pki is the folder of certificates and keys of a management plane:
// its authorities, what its servers and its administrator show, and the key of
// its service accounts.
package pki

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

// Folder holds certificates and keys in PEM, one .crt and one .key each.
type Folder struct {
	Dir string
	Now func() time.Time
}

// leaf is a certificate that one of the authorities signs.
type leaf struct {
	file, authority string
	name            string
	organization    []string
	usage           x509.ExtKeyUsage
	hosts           []string // DNS names and addresses
}

// Cert is the path of a certificate.
func (f Folder) Cert(name string) string { return filepath.Join(f.Dir, name+".crt") }

// Key is the path of a key.
func (f Folder) Key(name string) string { return filepath.Join(f.Dir, name+".key") }

// leaves lists what a plane that answers at hosts needs.
func leaves(hosts []string) []leaf {
	return []leaf{
		{file: "apiserver", authority: "ca", name: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth, hosts: hosts},
		{file: "admin", authority: "ca", name: "kubernetes-admin", organization: []string{"system:masters"}, usage: x509.ExtKeyUsageClientAuth},
		{file: "front-proxy-client", authority: "front-proxy-ca", name: "front-proxy-client", usage: x509.ExtKeyUsageClientAuth},
	}
}

// Ensure makes what is missing, expired or about to be, or made for other
// hosts. It never replaces a sound authority or the service account key:
// everything issued by them would be worthless.
func (f Folder) Ensure(hosts []string) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	if err := f.checkPrivate(); err != nil {
		return err
	}
	authorities := map[string]*authority{}
	for _, name := range []string{"ca", "front-proxy-ca"} {
		ca, err := f.ensureAuthority(name)
		if err != nil {
			return fmt.Errorf("certificate authority %s: %w", f.Cert(name), err)
		}
		authorities[name] = ca
	}
	for _, l := range leaves(hosts) {
		if err := f.ensureLeaf(authorities[l.authority], l); err != nil {
			return fmt.Errorf("certificate %s: %w", f.Cert(l.file), err)
		}
	}
	if err := f.ensureServiceAccountKey(); err != nil {
		return fmt.Errorf("service account key %s: %w", f.Key("sa"), err)
	}
	return nil
}

func (f Folder) checkPrivate() error {
	paths, err := filepath.Glob(f.Key("*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, f.Dir) {
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

func (f Folder) ensureAuthority(name string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert(name), f.Key(name))
	if err == nil {
		key, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("key of type %T cannot sign", pair.PrivateKey)
		}
		if f.Now().After(pair.Leaf.NotAfter) {
			return nil, fmt.Errorf("expired on %s: remove %s to start with new certificates", pair.Leaf.NotAfter.Format(time.DateOnly), f.Dir)
		}
		return &authority{pair.Leaf, key}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || exists(f.Cert(name)) {
		return nil, err // half of a pair, or rubbish: not ours to overwrite
	}
	tmpl := f.template(name, nil, caLifetime)
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &authority{tmpl, key}
	der, err := f.issue(name, ca, tmpl, key)
	if err != nil {
		return nil, err
	}
	ca.cert, err = x509.ParseCertificate(der)
	return ca, err
}

func (f Folder) ensureLeaf(ca *authority, l leaf) error {
	if f.usable(ca, l) {
		return nil
	}
	tmpl := f.template(l.name, l.organization, leafLifetime)
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
	_, err = f.issue(l.file, ca, tmpl, key)
	return err
}

// usable reports whether the leaf on disk is whole, signed by ca, good for all
// hosts, and not near its end.
func (f Folder) usable(ca *authority, l leaf) bool {
	pair, err := tls.LoadX509KeyPair(f.Cert(l.file), f.Key(l.file))
	if err != nil || pair.Leaf.CheckSignatureFrom(ca.cert) != nil || f.Now().Add(renewBefore).After(pair.Leaf.NotAfter) {
		return false
	}
	return !slices.ContainsFunc(l.hosts, func(host string) bool { return pair.Leaf.VerifyHostname(host) != nil })
}

func (f Folder) template(name string, organization []string, lifetime time.Duration) *x509.Certificate {
	now := f.Now()
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: name, Organization: organization},
		NotBefore: now.Add(-time.Hour), // clocks of clients differ
		NotAfter:  now.Add(lifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func (f Folder) issue(file string, ca *authority, tmpl *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
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
	if err := writeKey(f.Key(file), key); err != nil {
		return nil, err
	}
	return der, WriteFile(f.Cert(file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (f Folder) ensureServiceAccountKey() error {
	b, err := os.ReadFile(f.Key("sa"))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		return writeKey(f.Key("sa"), key)
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
	return WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// WriteFile replaces a file whole, readable by its owner alone.
func WriteFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
