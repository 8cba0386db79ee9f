// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

const certificatesDir = "/etc/kubernetes/pki"

// PKI is what the machines of a control plane share. Etcd is empty if etcd is
// external. It marshals with its keys: only into a file that other users cannot
// read.
type PKI struct {
	CA             certs.Pair `json:"ca"`
	Etcd           certs.Pair `json:"etcd"`
	FrontProxy     certs.Pair `json:"frontProxy"`
	ServiceAccount certs.Pair `json:"serviceAccount"`
}

// shared are the files of a PKI, with the phase of kubeadm init that loads
// them.
var shared = []struct {
	purpose     certs.Purpose
	phase       string
	cert, key   string
	description string
	pair        func(*PKI) *certs.Pair
}{
	{certs.CA, "certs/ca", "ca.crt", "ca.key", "CA", func(p *PKI) *certs.Pair { return &p.CA }},
	{certs.FrontProxy, "certs/front-proxy-ca", "front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy CA", func(p *PKI) *certs.Pair { return &p.FrontProxy }},
	{certs.Etcd, "certs/etcd-ca", "etcd/ca.crt", "etcd/ca.key", "etcd CA", func(p *PKI) *certs.Pair { return &p.Etcd }},
	{certs.ServiceAccount, "certs/sa", "sa.pub", "sa.key", "service account", func(p *PKI) *certs.Pair { return &p.ServiceAccount }},
}

// PKI reads the files that the machines of a control plane share and checks them.
// With an external etcd its CA is not among them.
func (r *Run) PKI(now time.Time, externalEtcd bool) (PKI, error) {
	dir := certificatesDir
	if r.docs.Cluster != nil && r.docs.Cluster.CertificatesDir != "" {
		dir = r.docs.Cluster.CertificatesDir
	}
	var p PKI
	var errs []error
	for _, s := range shared {
		if s.purpose == certs.Etcd && externalEtcd {
			continue
		}
		pair := certs.Pair{Cert: r.files[path.Join(dir, s.cert)], Key: r.files[path.Join(dir, s.key)]}
		if field, err := usable(pair, s.purpose, now); err != nil {
			file := s.cert
			if field == certs.PrivateKeyKey {
				file = s.key
			}
			errs = append(errs, r.badFile(s.phase, s.description, path.Join(dir, file), err))
			continue
		}
		*s.pair(&p) = pair
	}
	if len(errs) > 0 {
		return PKI{}, errors.Join(errs...)
	}
	return p, nil
}

// CertificateValidity is how long the certificates are valid that kubeadm init
// creates.
func (r *Run) CertificateValidity() time.Duration { return CertificateValidity(r.docs) }

// CertificateValidity is how long the certificates are valid that kubeadm creates
// from the configuration of a cluster.
func CertificateValidity(docs *kubeadm.Documents) time.Duration {
	if docs.Cluster == nil || docs.Cluster.CertificateValidityPeriodDays == 0 {
		return certs.LeafValidity
	}
	return time.Duration(docs.Cluster.CertificateValidityPeriodDays) * 24 * time.Hour
}

// badFile is kubeadm's complaint about one file.
func (r *Run) badFile(phase, description, file string, err error) error {
	if r.IsInit() {
		return fmt.Errorf("kubeadm init: error execution phase %s: %s: %w", phase, file, err)
	}
	return fmt.Errorf("kubeadm join: error execution phase preflight: "+
		"one or more conditions for hosting a new control plane instance is not satisfied: failure loading certificate for %s: %s: %w", description, file, err)
}

var errNoFile = errors.New("no such file or directory")

// usable returns an error, and the half of the pair that it concerns, if the pair
// cannot be used.
func usable(p certs.Pair, purpose certs.Purpose, now time.Time) (field string, err error) {
	if len(p.Cert) == 0 {
		return certs.CertKey, errNoFile
	}
	if !p.HasKey() {
		return certs.PrivateKeyKey, errNoFile
	}
	if err := (certs.Pair{Cert: p.Cert}).Check(purpose); err != nil {
		return certs.CertKey, errors.Unwrap(err)
	}
	if err := p.Check(purpose); err != nil {
		return certs.PrivateKeyKey, errors.Unwrap(err)
	}
	if purpose == certs.ServiceAccount {
		return "", nil
	}
	cert, err := certs.ParseCertificate(p.Cert)
	if err != nil {
		return certs.CertKey, err
	}
	if now.Before(cert.NotBefore) {
		return certs.CertKey, fmt.Errorf("the certificate is not valid before %s", cert.NotBefore.Format(time.RFC3339))
	}
	if now.After(cert.NotAfter) {
		return certs.CertKey, fmt.Errorf("the certificate has expired on %s", cert.NotAfter.Format(time.RFC3339))
	}
	return "", nil
}

// Matches compares the keys of a joining machine with those of the cluster: an API
// server with other keys would be of no use.
func (p PKI) Matches(cluster PKI) error {
	for _, s := range shared {
		got, want := s.pair(&p), s.pair(&cluster)
		if string(got.Cert) != string(want.Cert) {
			return fmt.Errorf("kubeadm join: error execution phase control-plane-prepare/certs: the %s of the machine is not that of the cluster", s.description)
		}
	}
	return nil
}
