// SPDX-License-Identifier: Apache-2.0

// Package pki is the folder of certificates and keys of a management plane:
// its authorities, what its servers and its administrator show, and the key of
// its service accounts.
//
// A join file gives another plane what it needs to share the store of this one: where
// the store is, how to reach it, and the authorities and keys that planes of one store
// have in common. It grants administrator access to all of them.
package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// renewBefore is how long before its end a leaf is renewed: a plane that is
// started once a quarter never serves an expired certificate.
const renewBefore = 90 * 24 * time.Hour

// Kubelet is the file of what a kubelet shows to the API server, KubeletClient
// that of what the API server shows to kubelets, and its common name.
const (
	Kubelet       = "kubelet"
	KubeletClient = "kube-apiserver-kubelet-client"
)

// Folder holds certificates and keys in PEM, one .crt and one .key each.
type Folder struct {
	Dir string
	Now func() time.Time
}

// Cert is the path of a certificate.
func (f Folder) Cert(name string) string { return filepath.Join(f.Dir, name+".crt") }

// Key is the path of a key.
func (f Folder) Key(name string) string { return filepath.Join(f.Dir, name+".key") }

// leaf is a certificate that one of the authorities signs.
type leaf struct {
	file, authority string
	certs.Leaf
}

// leaves lists what a plane needs that answers at hosts, and whose kubelet does
// at kubelets, if at all.
func leaves(hosts, kubelets []string) []leaf {
	all := []leaf{
		{"apiserver", "ca", server("kube-apiserver", hosts)},
		// Of no group: it is for kubelets, and may do nothing at the API server.
		{KubeletClient, "ca", certs.Leaf{CommonName: KubeletClient, Client: true}},
		{"admin", "ca", certs.Leaf{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}, Client: true}},
		{"front-proxy-client", "front-proxy-ca", certs.Leaf{CommonName: "front-proxy-client", Client: true}},
	}
	if len(kubelets) > 0 {
		all = append(all, leaf{Kubelet, "ca", server(Kubelet, kubelets)})
	}
	return all
}

// server is a leaf for these names and addresses.
func server(name string, hosts []string) certs.Leaf {
	l := certs.Leaf{CommonName: name, Server: true}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			l.IPs = append(l.IPs, ip)
		} else {
			l.DNSNames = append(l.DNSNames, host)
		}
	}
	return l
}

// Ensure creates the certificates that are missing, expired or about to expire, or
// issued for other hosts: those of the API server, and those of its kubelet, if it
// has one. It never replaces a valid authority or the service account key:
// everything issued by them would be worthless.
func (f Folder) Ensure(hosts []string, kubelets ...string) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	if err := f.checkPrivate(); err != nil {
		return err
	}
	authorities := map[string]certs.Pair{}
	for _, name := range []string{"ca", "front-proxy-ca"} {
		ca, err := f.ensureAuthority(name)
		if err != nil {
			return fmt.Errorf("certificate authority: %w", err)
		}
		authorities[name] = ca
	}
	for _, l := range leaves(hosts, kubelets) {
		if err := f.ensureLeaf(authorities[l.authority], l); err != nil {
			return fmt.Errorf("make certificate %s: %w", f.Cert(l.file), err)
		}
	}
	if err := f.ensureServiceAccountKey(); err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	return nil
}

// lasting are created once; all others follow from them.
var lasting = []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key"}

// LastingNames are the names of the files that Lasting returns.
func LastingNames() []string { return slices.Clone(lasting) }

// Fingerprint is equal for two folders if they have the same authorities and the
// same key of service accounts, and reveals nothing of these.
func (f Folder) Fingerprint() (string, error) {
	files, err := f.Lasting()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range lasting {
		sum := sha256.Sum256(files[name])
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Lasting returns the authorities and the key of service accounts, by the names of
// their files. They are secrets.
func (f Folder) Lasting() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range lasting {
		b, err := os.ReadFile(filepath.Join(f.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("read certificates and keys: %w", err)
		}
		files[name] = b
	}
	return files, nil
}

// Take writes what another folder's Lasting has returned. It refuses to replace
// what is there and differs.
func (f Folder) Take(files map[string][]byte) error {
	for _, name := range lasting {
		path, want := filepath.Join(f.Dir, name), files[name]
		if len(want) == 0 {
			return fmt.Errorf("take over certificates and keys: %s is missing", name)
		}
		switch got, err := os.ReadFile(path); {
		case err == nil && !bytes.Equal(got, want):
			return fmt.Errorf("take over certificates and keys: %s is another one: use a new data directory", path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("take over certificates and keys: %w", err)
		}
	}
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder of certificates: %w", err)
	}
	for _, name := range lasting {
		if err := atomicfile.Write(filepath.Join(f.Dir, name), files[name]); err != nil {
			return fmt.Errorf("take over certificates and keys: %w", err)
		}
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

func (f Folder) ensureAuthority(name string) (certs.Pair, error) {
	ca, cert, err := f.read(name, certs.CA)
	if errors.Is(err, fs.ErrNotExist) && !exists(f.Cert(name)) {
		if ca, err = certs.NewCA("", name, f.Now(), 0); err != nil {
			return ca, err
		}
		return ca, f.write(name, ca)
	}
	if err != nil {
		return ca, f.damaged(err) // half of a pair, or garbage: not ours to overwrite
	}
	if f.Now().After(cert.NotAfter) {
		return ca, fmt.Errorf("%s expired on %s: remove %s to start with new certificates", f.Cert(name), cert.NotAfter.Format(time.DateOnly), f.Dir)
	}
	return ca, nil
}

func (f Folder) ensureLeaf(ca certs.Pair, l leaf) error {
	if f.usable(ca, l) {
		return nil
	}
	l.Now = f.Now()
	pair, err := ca.Issue(l.Leaf)
	if err != nil {
		return err
	}
	return f.write(l.file, pair)
}

// usable reports whether the leaf on disk is whole, signed by ca, good for all
// hosts, and not near its end.
func (f Folder) usable(ca certs.Pair, l leaf) bool {
	_, cert, err := f.read(l.file, "")
	if err != nil {
		return false
	}
	authority, err := certs.ParseCertificate(ca.Cert)
	if err != nil || cert.CheckSignatureFrom(authority) != nil || f.Now().Add(renewBefore).After(cert.NotAfter) {
		return false
	}
	hosts := slices.Clone(l.DNSNames)
	for _, ip := range l.IPs {
		hosts = append(hosts, ip.String())
	}
	return !slices.ContainsFunc(hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

func (f Folder) ensureServiceAccountKey() error {
	b, err := os.ReadFile(f.Key("sa"))
	if errors.Is(err, fs.ErrNotExist) {
		pair, err := certs.NewServiceAccount("")
		if err != nil {
			return err
		}
		return atomicfile.Write(f.Key("sa"), pair.Key)
	}
	if err != nil {
		return err
	}
	if _, err := certs.ParseKey(b); err != nil {
		return f.damaged(fmt.Errorf("%s: %w", f.Key("sa"), err))
	}
	return nil
}

// damaged adds the remedy to an error about a file that all others depend on.
func (f Folder) damaged(err error) error {
	return fmt.Errorf("%w: put a copy of it in its place, or remove %s to start with new certificates and keys, which ends all that the old ones made", err, f.Dir)
}

// read returns a pair that is whole: its key belongs to its certificate. The
// error names the file that is not.
func (f Folder) read(file string, purpose certs.Purpose) (pair certs.Pair, cert *x509.Certificate, err error) {
	if pair.Cert, err = os.ReadFile(f.Cert(file)); err != nil {
		return pair, nil, err
	}
	if pair.Key, err = os.ReadFile(f.Key(file)); err != nil {
		return pair, nil, err
	}
	if cert, err = certs.ParseCertificate(pair.Cert); err != nil {
		return pair, nil, fmt.Errorf("%s: %w", f.Cert(file), err)
	}
	if _, err := certs.ParseKey(pair.Key); err != nil {
		return pair, nil, fmt.Errorf("%s: %w", f.Key(file), err)
	}
	if err := pair.Check(purpose); err != nil { // of a Secret's data; the file names are clearer
		return pair, nil, fmt.Errorf("%s and %s: %w", f.Cert(file), f.Key(file), errors.Unwrap(err))
	}
	return pair, cert, nil
}

// write writes the key first: a certificate without its key looks like half a pair.
func (f Folder) write(file string, pair certs.Pair) error {
	if err := atomicfile.Write(f.Key(file), pair.Key); err != nil {
		return err
	}
	return atomicfile.Write(f.Cert(file), pair.Cert)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
