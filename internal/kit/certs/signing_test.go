// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
)

var signingTime = time.Date(2026, 8, 1, 12, 0, 0, 500, time.UTC)

const life = 90 * 24 * time.Hour

// full requests everything that is available.
func full() *certmanagerv1.CertificateSpec {
	return &certmanagerv1.CertificateSpec{
		CommonName: "web", DNSNames: []string{"web.ns.svc", "*.web.ns.svc"}, IPAddresses: []string{"10.0.0.1", "fd00::1"},
		URIs: []string{"spiffe://cluster/ns/web"}, EmailAddresses: []string{"ops@example.com"}, IsCA: true,
		Usages:     []string{"signing", "server auth", "client auth", "s/mime", "email protection"},
		Subject:    &certmanagerv1.Subject{Organizations: []string{"O"}, Countries: []string{"DE"}, OrganizationalUnits: []string{"U"}, Localities: []string{"L"}, Provinces: []string{"P"}, StreetAddresses: []string{"S"}, PostalCodes: []string{"1"}, SerialNumber: "2"},
		PrivateKey: &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA, Size: 384, Encoding: certmanagerv1.PKCS8},
	}
}

func request(t *testing.T, spec *certmanagerv1.CertificateSpec) Request {
	t.Helper()
	r, err := NewRequest(spec, life)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func signRequest(t *testing.T, a Authority, r Request) (Signed, crypto.Signer) {
	t.Helper()
	key, err := r.Key.Make()
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Sign(r, key, signingTime)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

// authority is one that top signs, with its chain.
func authority(t *testing.T, top Authority, name string) (Authority, Signed) {
	t.Helper()
	spec := &certmanagerv1.CertificateSpec{CommonName: name, IsCA: true, PrivateKey: &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}}
	r := request(t, spec)
	s, key := signRequest(t, top, r)
	encoded, err := r.Key.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	a, err := OpenAuthority(Pair{Cert: s.Chain, Key: encoded}, signingTime)
	if err != nil {
		t.Fatal(err)
	}
	return a, s
}

func TestACertificateIsAsItIsAskedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]*certmanagerv1.CertificateSpec{
		"everything": full(),
		"a name":     {DNSNames: []string{"a"}, PrivateKey: &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.Ed25519}},
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request(t, spec)
			s, key := signRequest(t, Authority{}, r)
			if got := r.Differences(s.Certificate); len(got) > 0 {
				t.Errorf("differs in %v", got)
			}
			if got := r.Key.Differences(key); len(got) > 0 {
				t.Errorf("key differs in %v", got)
			}
			if from, to := s.Certificate.NotBefore, s.Certificate.NotAfter; !from.Equal(signingTime.Truncate(time.Second)) || to.Sub(from) != life {
				t.Errorf("valid from %s to %s", from, to)
			}
		})
	}
}

func TestDifferencesNameTheField(t *testing.T) {
	t.Parallel()
	s, key := signRequest(t, Authority{}, request(t, full()))
	tests := map[string]struct {
		change func(*certmanagerv1.CertificateSpec)
		want   []string
	}{
		"nothing":        {func(*certmanagerv1.CertificateSpec) {}, nil},
		"order":          {func(s *certmanagerv1.CertificateSpec) { slices.Reverse(s.DNSNames); slices.Reverse(s.Usages) }, nil},
		"common name":    {func(s *certmanagerv1.CertificateSpec) { s.CommonName = "x" }, []string{"spec.subject"}},
		"organization":   {func(s *certmanagerv1.CertificateSpec) { s.Subject.Organizations = nil }, []string{"spec.subject"}},
		"a name more":    {func(s *certmanagerv1.CertificateSpec) { s.DNSNames = append(s.DNSNames, "x") }, []string{"spec.dnsNames"}},
		"an address":     {func(s *certmanagerv1.CertificateSpec) { s.IPAddresses = nil }, []string{"spec.ipAddresses"}},
		"a URI":          {func(s *certmanagerv1.CertificateSpec) { s.URIs = []string{"x:y"} }, []string{"spec.uris"}},
		"mail":           {func(s *certmanagerv1.CertificateSpec) { s.EmailAddresses = nil }, []string{"spec.emailAddresses"}},
		"usage":          {func(s *certmanagerv1.CertificateSpec) { s.Usages = s.Usages[:2] }, []string{"spec.usages"}},
		"no authority":   {func(s *certmanagerv1.CertificateSpec) { s.IsCA = false }, []string{"spec.usages", "spec.isCA"}},
		"size of key":    {func(s *certmanagerv1.CertificateSpec) { s.PrivateKey.Size = 521 }, []string{"spec.privateKey.size"}},
		"kind of key":    {func(s *certmanagerv1.CertificateSpec) { s.PrivateKey = nil }, []string{"spec.privateKey.algorithm"}},
		"form of key":    {func(s *certmanagerv1.CertificateSpec) { s.PrivateKey.Encoding = "" }, nil},
		"several fields": {func(s *certmanagerv1.CertificateSpec) { s.DNSNames, s.URIs = nil, nil }, []string{"spec.dnsNames", "spec.uris"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := full()
			tc.change(spec)
			r := request(t, spec)
			if diff := cmp.Diff(tc.want, append(r.Differences(s.Certificate), r.Key.Differences(key)...)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
	short := request(t, full())
	if short.Duration = life / 2; !slices.Equal(short.Differences(s.Certificate), []string{"spec.duration"}) {
		t.Error("another duration makes no difference")
	}
}

func TestWhatCannotBeReadIsNamed(t *testing.T) {
	t.Parallel()
	_, err := NewRequest(&certmanagerv1.CertificateSpec{
		DNSNames: []string{"", "ü.example.com", "a b"}, EmailAddresses: []string{"\n"}, IPAddresses: []string{"10.0.0.300"}, URIs: []string{"", "%zz", "x:é"},
		Usages: []string{"world domination"}, PrivateKey: &certmanagerv1.PrivateKey{Algorithm: "DSA", Encoding: "DER", RotationPolicy: "Sometimes"},
	}, life)
	want := []string{
		`spec.dnsNames[0]: "" is not a name in ASCII`, `spec.dnsNames[1]: "ü.example.com" is not a name in ASCII`, `spec.dnsNames[2]: "a b" is not a name in ASCII`,
		`spec.emailAddresses[0]: "\n" is not a name in ASCII`, `spec.ipAddresses[0]: "10.0.0.300" is not an address`,
		`spec.privateKey.algorithm: "DSA" is none of RSA, ECDSA and Ed25519`, `spec.privateKey.encoding: "DER" is none of PKCS1 and PKCS8`, `spec.privateKey.rotationPolicy: "Sometimes" is none of Always and Never`,
		`spec.uris[0]: "" is not a URI`, `spec.uris[1]: "%zz" is not a URI`, `spec.uris[2]: "x:é" is not a URI`, `spec.usages[0]: "world domination" is not known`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for want, key := range map[string]certmanagerv1.PrivateKey{
		"spec.privateKey.size: 1024 is not between 2048 and 8192":    {Size: 1024},
		"spec.privateKey.size: 1000000 is not between 2048 and 8192": {Size: 1000000},
		"spec.privateKey.size: -1 is not between 2048 and 8192":      {Size: -1},
		"spec.privateKey.size: 255 is none of 256, 384 and 521":      {Algorithm: certmanagerv1.ECDSA, Size: 255},
	} {
		if err := new(Key).read(&key); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestKeysAreWrittenInTheFormThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for want, key := range map[string]certmanagerv1.PrivateKey{
		"RSA PRIVATE KEY": {Algorithm: certmanagerv1.RSA},
		"EC PRIVATE KEY":  {Algorithm: certmanagerv1.ECDSA},
		"PRIVATE KEY":     {Algorithm: certmanagerv1.Ed25519, Encoding: certmanagerv1.PKCS1},
	} {
		var k Key
		if err := k.read(&key); err != nil {
			t.Fatal(err)
		}
		made, err := k.Make()
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{want, "PRIVATE KEY"} {
			k.PKCS8 = form == "PRIVATE KEY"
			encoded, err := k.Encode(made)
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode(encoded)
			read, err := ParseKey(encoded)
			if err != nil || block.Type != form || len(k.Differences(read)) > 0 {
				t.Errorf("%s: %s, %v", want, block.Type, err)
			}
		}
	}
}

func TestAChainLeadsToTheAuthorityToTrust(t *testing.T) {
	t.Parallel()
	root, top := authority(t, Authority{}, "root")
	middle, _ := authority(t, root, "middle")
	lost := middle
	lost.chain = middle.chain[:1] // whose root is not known
	tests := map[string]struct {
		by     Authority
		length int
		ca     string
	}{
		"itself":              {Authority{}, 1, ""},
		"an authority":        {root, 1, "root"},
		"one below it":        {middle, 2, "root"},
		"one without its top": {lost, 2, "middle"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "one below it" {
				tc.by.chain = append(slices.Clone(tc.by.chain[:1]), top.Certificate)
			}
			s, _ := signRequest(t, tc.by, request(t, &certmanagerv1.CertificateSpec{DNSNames: []string{"web"}, PrivateKey: &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}}))
			chain, err := ParseCertificates(s.Chain)
			if err != nil {
				t.Fatal(err)
			}
			ca, err := ParseCertificate(s.CA)
			if err != nil {
				t.Fatal(err)
			}
			if len(chain) != tc.length || ca.Subject.CommonName != tc.ca {
				t.Errorf("%d certificates below %q, want %d below %q", len(chain), ca.Subject.CommonName, tc.length, tc.ca)
			}
			roots, between := x509.NewCertPool(), x509.NewCertPool()
			roots.AddCert(ca)
			for _, c := range chain[1:] {
				between.AddCert(c)
			}
			if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: "web", Roots: roots, Intermediates: between, CurrentTime: signingTime.Add(time.Hour)}); err != nil {
				t.Error(err)
			}
			if err := tc.by.Check(s); err != nil {
				t.Error(err)
			}
			if err := otherThan(tc.by, root).Check(s); !errors.Is(err, ErrOther) {
				t.Errorf("another authority says %v", err)
			}
		})
	}
}

// otherThan is an authority that did not sign what a did.
func otherThan(a, root Authority) Authority {
	if a.SelfSigned() {
		return root
	}
	return Authority{}
}

func TestAnAuthorityThatCannotSignIsRefused(t *testing.T) {
	t.Parallel()
	leaf, key := signRequest(t, Authority{}, request(t, &certmanagerv1.CertificateSpec{DNSNames: []string{"web"}, PrivateKey: &certmanagerv1.PrivateKey{Algorithm: certmanagerv1.ECDSA}}))
	encoded, err := Key{}.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := NewCA("", "ca", signingTime.Add(-48*time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		pair Pair
		want string
	}{
		"no certificate": {Pair{Key: encoded}, "no PEM block"},
		"no authority":   {Pair{Cert: leaf.Chain, Key: encoded}, ErrNotCA.Error()},
		"no key":         {Pair{Cert: ca.Cert}, ErrNoKey.Error()},
		"another's key":  {Pair{Cert: ca.Cert, Key: encoded}, ErrMismatch.Error()},
		"too old":        {ca, "the certificate of the authority expired at 2026-07-31T12:00:00Z"},
	} {
		if _, err := OpenAuthority(tc.pair, signingTime); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
}
