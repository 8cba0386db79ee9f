// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/manifests"
)

// chain verifies the certificate of one replica with the authorities that another
// registers.
func chain(t *testing.T, shown, told *servingCert, now time.Time) error {
	t.Helper()
	cert, err := shown.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(told.bundle())
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: shown.host})
	return err
}

// TestReplicasTrustEachOtherWhileTheirAuthorityIsRotated simulates many years of
// two replicas that read their Secret at different hours.
func TestReplicasTrustEachOtherWhileTheirAuthorityIsRotated(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := testclock.NewFakePassiveClock(now)
	c := fake.NewClientBuilder().Build()
	replicas := []*servingCert{{host: "a.b.svc", clock: clock, live: c}, {host: "a.b.svc", clock: clock, live: c}}
	for _, r := range replicas {
		if err := r.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	signers := map[string]bool{}
	for end := now.Add(2 * certs.CAValidity); now.Before(end); {
		step := 40 * 24 * time.Hour
		if secretOf(t, c).Data[nextCertKey] != nil {
			step = time.Hour // while it is rotated each hour counts
		}
		now = now.Add(step)
		clock.SetTime(now)
		for i, r := range replicas {
			if err := r.refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, told := range replicas {
				if err := chain(t, r, told, now); err != nil {
					t.Fatalf("at %s, of replica %d: %v", now, i, err)
				}
			}
		}
		signers[string(replicas[0].authority.Cert)] = true
	}
	if len(signers) < 3 {
		t.Errorf("%d authorities signed in 20 years, want at least 3", len(signers))
	}
	if n, err := certs.ParseCertificates(replicas[0].bundle()); err != nil || len(n) > 3 {
		t.Errorf("%d are trusted: those that have ended should have gone; error %v", len(n), err)
	}
}

func secretOf(t *testing.T, c client.Client) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: manifests.Namespace, Name: webhookSecret}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnAuthorityThatHasEndedIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a, err := authority{}.rotate(now)
	if err != nil {
		t.Fatal(err)
	}
	later, err := a.rotate(now.Add(certs.CAValidity + time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(a.signer.Cert, later.signer.Cert) || bytes.Contains(later.trusted, a.signer.Cert) {
		t.Error("the one that has ended still signs, or is trusted")
	}
}

// TestACertificateOfOthersIsReadAgain changes the files, and corrupts them.
func TestACertificateOfOthersIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	when := time.Now()
	put := func(serial string) {
		ca, err := certs.NewCA(certs.ECDSAP256, serial, when, 0)
		if err != nil {
			t.Fatal(err)
		}
		when = when.Add(time.Minute)
		for name, text := range map[string][]byte{corev1.TLSCertKey: ca.Cert, corev1.TLSPrivateKeyKey: ca.Key} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
	}
	shown := func(f *fileCert) string {
		cert, err := f.get(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.Subject.CommonName
	}
	f := &fileCert{dir: dir}
	if _, err := f.get(nil); err == nil {
		t.Error("there are no files, and no error")
	}
	put("first")
	if got := shown(f); got != "first" {
		t.Errorf("it shows %s", got)
	}
	put("second")
	if got := shown(f); got != "second" {
		t.Errorf("it shows %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, corev1.TLSPrivateKeyKey), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(f); got != "second" {
		t.Errorf("with a broken key it shows %s", got)
	}
}
