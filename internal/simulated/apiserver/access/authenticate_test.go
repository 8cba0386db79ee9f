// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// cluster is the store of a cluster, its authenticator, and the time that both read.
type cluster struct {
	*objects.Store
	authn *access.Authenticator
	clock *testclock.FakePassiveClock
}

func newCluster(t *testing.T, more ...objects.Object) *cluster {
	t.Helper()
	c := &cluster{clock: testclock.NewFakePassiveClock(start)}
	var err error
	if c.Store, err = objects.Open(objects.Options{Clock: c.clock}); err != nil {
		t.Fatal(err)
	}
	c.add(t, more...)
	c.authn = access.NewAuthenticator(c.Store, c.clock)
	return c
}

func (c *cluster) add(t *testing.T, more ...objects.Object) {
	t.Helper()
	for _, obj := range more {
		if err := c.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// authority signs certificates that are valid for an hour from start.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	a.cert = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) sign(t *testing.T, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore = big.NewInt(1), start.Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = start.Add(time.Hour)
	}
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// client is the certificate of a user.
func (a *authority) client(t *testing.T, name string, groups ...string) *x509.Certificate {
	t.Helper()
	return a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// with is a request with a certificate, unless that is nil, and a header.
func with(cert *x509.Certificate, authorization string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	if cert != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return r
}

// The rows without a bearer token are those of k8s.io/apiserver, whose authenticators do not
// see a header of another scheme, nor an empty token: such clients are anonymous.
func TestUserIsThatOfTheCredentials(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := newCluster(t, joinToken("aaaaaa", nil))
	c.authn.Trust(ca.pool(), nil)
	anonymous := access.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	joining := access.User{Name: "system:bootstrap:aaaaaa", Groups: []string{"system:bootstrappers", "system:authenticated"}}
	for name, tc := range map[string]struct {
		request *http.Request
		want    access.User // without a name: the credentials are refused
	}{
		"nothing":                      {with(nil, ""), anonymous},
		"a password":                   {with(nil, "Basic YTpi"), anonymous},
		"a scheme alone":               {with(nil, "Bearer"), anonymous},
		"an empty token":               {with(nil, "Bearer  "), anonymous},
		"a token":                      {with(nil, "Bearer aaaaaa.0123456789abcdef"), joining},
		"a token of a lower scheme":    {with(nil, "bearer aaaaaa.0123456789abcdef"), joining},
		"spaces around a token":        {with(nil, "  Bearer   aaaaaa.0123456789abcdef "), joining},
		"another secret":               {with(nil, "Bearer aaaaaa.0123456789abcdee"), access.User{}},
		"another ID":                   {with(nil, "Bearer bbbbbb.0123456789abcdef"), access.User{}},
		"a token of no form":           {with(nil, "Bearer AAAAAA.0123456789abcdef"), access.User{}},
		"a certificate":                {with(ca.client(t, "jane", "a", "b"), ""), access.User{Name: "jane", Groups: []string{"a", "b", "system:authenticated"}}},
		"a certificate of an unknown":  {with(newAuthority(t).client(t, "jane"), ""), access.User{}},
		"a certificate for no user":    {with(ca.client(t, "", "system:masters"), ""), access.User{}},
		"a certificate of the wrong":   {with(ca.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "jane"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}), ""), access.User{}},
		"a certificate that has ended": {with(ca.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "jane"}, NotAfter: start.Add(-time.Second)}), ""), access.User{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time from the cache
				got, err := c.authn.User(tc.request)
				if refused := tc.want.Name == ""; refused != errors.Is(err, access.ErrUnauthorized) || !refused && err != nil {
					t.Errorf("error %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("user (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestCertificateIsCachedUntilItEnds(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	c := newCluster(t)
	request := with(ca.client(t, "jane"), "")
	steps := []struct {
		name string
		do   func()
		want string
	}{
		{"before any authority", func() {}, ""},
		{"trusted", func() { c.authn.Trust(ca.pool(), nil) }, "jane"},
		{"of an authority that was replaced", func() { c.authn.Trust(other.pool(), nil) }, ""},
		{"trusted again", func() { c.authn.Trust(ca.pool(), nil) }, "jane"},
		{"in its last second", func() { c.clock.SetTime(start.Add(time.Hour - time.Second)) }, "jane"},
		{"after its end", func() { c.clock.SetTime(start.Add(time.Hour + time.Second)) }, ""},
	}
	for _, s := range steps {
		s.do()
		if got, err := c.authn.User(request); got.Name != s.want || (err == nil) != (s.want != "") {
			t.Errorf("%s: user %q, error %v, want %q", s.name, got.Name, err, s.want)
		}
	}
}

// An authority that is removed while one of its certificates is verified must not be trusted
// through the cache.
func TestCertificateIsNotCachedForReplacedAuthority(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := newCluster(t)
	replaced := false
	pool := x509.NewCertPool()
	pool.AddCertWithConstraint(ca.cert, func([]*x509.Certificate) error {
		if !replaced {
			replaced = true
			c.authn.Trust(newAuthority(t).pool(), nil)
		}
		return nil
	})
	c.authn.Trust(pool, nil)
	request := with(ca.client(t, "jane"), "")
	_, _ = c.authn.User(request) // it was valid when it was verified
	if got, err := c.authn.User(request); !replaced || !errors.Is(err, access.ErrUnauthorized) {
		t.Errorf("user %+v, error %v, replaced %v", got, err, replaced)
	}
}

func TestCacheOfCertificatesIsBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	c := newCluster(t)
	c.authn.Trust(ca.pool(), nil)
	for i := range 300 { // more than the cache holds
		name := fmt.Sprint("user", i)
		if got, err := c.authn.User(with(ca.client(t, name), "")); err != nil || got.Name != name {
			t.Fatalf("user %+v, error %v, want %s", got, err, name)
		}
	}
}

// joinToken is a bootstrap token with data that differs from that of kubeadm.
func joinToken(id string, differs map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true")},
	}
	for key, value := range differs {
		s.Data[key] = []byte(value)
	}
	return s
}

// The rows are what k8s.io/cluster-bootstrap and the authenticator of bootstrap tokens do.
func TestBootstrapTokenIsThatOfItsSecret(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) map[string]string {
		return map[string]string{"expiration": start.Add(d).Format(time.RFC3339)}
	}
	groups := func(text string) map[string]string { return map[string]string{"auth-extra-groups": text} }
	other := joinToken("aaaaaa", nil)
	other.Type = corev1.SecretTypeOpaque
	leaving := joinToken("aaaaaa", nil)
	leaving.Finalizers = []string{"example.com/hold"}
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   []string // groups; none if the token is refused
	}{
		"of kubeadm":             {joinToken("aaaaaa", groups("system:bootstrappers:kubeadm:default-node-token")), []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}},
		"two groups":             {joinToken("aaaaaa", groups("system:bootstrappers:b,system:bootstrappers:a")), []string{"system:bootstrappers", "system:bootstrappers:b", "system:bootstrappers:a", "system:authenticated"}},
		"a group of masters":     {joinToken("aaaaaa", groups("system:masters")), nil},
		"one group of two":       {joinToken("aaaaaa", groups("system:bootstrappers:a,system:masters")), nil},
		"a space before a group": {joinToken("aaaaaa", groups("system:bootstrappers:a, system:bootstrappers:b")), nil},
		"an empty group":         {joinToken("aaaaaa", groups("system:bootstrappers:a,")), nil},
		"a group of no name":     {joinToken("aaaaaa", groups("system:bootstrappers:")), nil},
		"before its end":         {joinToken("aaaaaa", at(time.Second)), []string{"system:bootstrappers", "system:authenticated"}},
		"at its end":             {joinToken("aaaaaa", at(0)), nil},
		"an end of no form":      {joinToken("aaaaaa", map[string]string{"expiration": "tomorrow"}), nil},
		"for signing only":       {joinToken("aaaaaa", map[string]string{"usage-bootstrap-authentication": "false", "usage-bootstrap-signing": "true"}), nil},
		"of another ID":          {joinToken("aaaaaa", map[string]string{"token-id": "bbbbbb"}), nil},
		"of another secret":      {joinToken("aaaaaa", map[string]string{"token-secret": "0123456789abcdee"}), nil},
		"of another type":        {other, nil},
		"being deleted":          {leaving, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.secret)
			if tc.secret == leaving {
				if err := c.Remove(corev1.SchemeGroupVersion.WithResource("secrets"), leaving.Namespace, leaving.Name); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.authn.Token("aaaaaa.0123456789abcdef")
			if !slices.Equal(got.Groups, tc.want) || (err == nil) != (tc.want != nil) {
				t.Errorf("user %+v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}
