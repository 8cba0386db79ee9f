// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// cluster is one server at its address, with the authority it trusts.
type cluster struct {
	*apiserver.Server
	host  string
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
	caPEM []byte
}

// start serves a cluster until the test ends. Options may be changed by with.
func start(t testing.TB, with ...func(*apiserver.Options)) *cluster {
	t.Helper()
	log := testr.NewWithInterface(t, testr.Options{})
	listeners := apiserver.NewListeners(log)
	kept := func(o *apiserver.Options) {
		o.Log, o.Journal = log, store.FileAt(filepath.Join(t.TempDir(), "journal"), log)
	}
	c := serve(t, listeners, append([]func(*apiserver.Options){kept}, with...)...)
	t.Cleanup(func() {
		c.Close()
		if err := listeners.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// serve serves a cluster until it, or its listeners, are closed.
func serve(t testing.TB, listeners *apiserver.Listeners, with ...func(*apiserver.Options)) *cluster {
	t.Helper()
	o := apiserver.Options{Name: "test", Version: func() string { return "v1.34.2" }, Clock: clock.RealClock{}, Log: discard()}
	for _, f := range with {
		f(&o)
	}
	s, err := apiserver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := listeners.Open(netip.MustParseAddrPort("127.0.0.1:0"), s)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Server: s, host: "https://" + addr.String()}
	c.caKey = key(t)
	c.ca = c.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, c.caKey)
	c.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ca.Raw})
	serving := key(t)
	cert := c.sign(t, &x509.Certificate{
		IPAddresses: []net.IP{net.IP(addr.Addr().AsSlice())}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, serving)
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	s.Trust(apiserver.Trust{
		Serving:   tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: serving},
		ClientCAs: pool, ServiceAccountKey: key(t),
	})
	return c
}

func discard() logr.Logger { return logr.Discard() }

func key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sign creates a certificate by the cluster's authority, or the authority's own.
func (c *cluster) sign(t testing.TB, template *x509.Certificate, k *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent := c.ca
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, k.Public(), c.caKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// anonymous is a client without credentials.
func (c *cluster) anonymous() *rest.Config {
	return &rest.Config{Host: c.host, TLSClientConfig: rest.TLSClientConfig{CAData: c.caPEM}, QPS: -1}
}

// as is a client with a certificate.
func (c *cluster) as(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	k := key(t)
	cert := c.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: user, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, k)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.anonymous()
	cfg.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	cfg.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return cfg
}

func (c *cluster) admin(t testing.TB) *rest.Config {
	t.Helper()
	return c.as(t, "kubernetes-admin", "kubeadm:cluster-admins")
}

func clientset(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// echo is a PortForward that answers what it is sent.
func echo(_ context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	_, err := io.Copy(stream, stream)
	return err
}
