// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var birth = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func folder(t *testing.T) (Folder, *time.Time) {
	t.Helper()
	now := birth
	return Folder{Dir: filepath.Join(t.TempDir(), "pki"), Now: func() time.Time { return now }}, &now
}

func ensure(t *testing.T, f Folder, hosts ...string) {
	t.Helper()
	if err := f.Ensure(append([]string{"127.0.0.1"}, hosts...), "10.0.0.7", "node"); err != nil {
		t.Fatal(err)
	}
}

func certificate(t *testing.T, f Folder, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(f.Cert(name), f.Key(name))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestEnsureMakesAllThatAPlaneNeeds(t *testing.T) {
	t.Parallel()
	f, _ := folder(t)
	ensure(t, f, "localhost")
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, f, "ca"))
	verify := func(name, host string, usage x509.ExtKeyUsage) {
		t.Helper()
		_, err := certificate(t, f, name).Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: birth, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	verify("apiserver", "127.0.0.1", x509.ExtKeyUsageServerAuth)
	verify("apiserver", "localhost", x509.ExtKeyUsageServerAuth)
	verify("admin", "", x509.ExtKeyUsageClientAuth)
	verify(Kubelet, "10.0.0.7", x509.ExtKeyUsageServerAuth)
	verify(Kubelet, "node", x509.ExtKeyUsageServerAuth)
	verify(KubeletClient, "", x509.ExtKeyUsageClientAuth)
	if err := certificate(t, f, "front-proxy-client").CheckSignatureFrom(certificate(t, f, "front-proxy-ca")); err != nil {
		t.Error(err)
	}
	if got := certificate(t, f, "admin").Subject.Organization; len(got) != 1 || got[0] != "system:masters" {
		t.Errorf("admin is of %v", got)
	}
	if got := certificate(t, f, KubeletClient).Subject; len(got.Organization) != 0 || got.CommonName != KubeletClient {
		t.Errorf("what kubelets are shown is of %v", got)
	}
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestEnsureKeepsWhatIsSoundAndRenewsWhatIsNot(t *testing.T) {
	t.Parallel()
	all := []string{"ca", "front-proxy-ca", "apiserver", "admin", "front-proxy-client", Kubelet, KubeletClient}
	tests := map[string]struct {
		after     time.Duration
		hosts     []string
		spoil     string
		wantFresh string // space-separated
	}{
		"nothing changes at once":             {},
		"nothing changes half a year later":   {after: 180 * 24 * time.Hour},
		"leaves near their end are renewed":   {after: 300 * 24 * time.Hour, wantFresh: "apiserver admin front-proxy-client kubelet kube-apiserver-kubelet-client"},
		"a new host wants a new serving cert": {hosts: []string{"192.0.2.1"}, wantFresh: "apiserver"},
		"a leaf that is rubbish is replaced":  {spoil: "admin.crt", wantFresh: "admin"},
		"a leaf without a key is replaced":    {spoil: "admin.key", wantFresh: "admin"},
		"a server without a key is replaced":  {spoil: "apiserver.key", wantFresh: "apiserver"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, now := folder(t)
			ensure(t, f)
			before := map[string]string{}
			for _, c := range all {
				before[c] = certificate(t, f, c).SerialNumber.String()
			}
			sa, err := os.ReadFile(f.Key("sa"))
			if err != nil {
				t.Fatal(err)
			}
			if tc.spoil != "" {
				write(t, filepath.Join(f.Dir, tc.spoil), "")
			}
			*now = birth.Add(tc.after)
			ensure(t, f, tc.hosts...)
			var fresh []string
			for _, c := range all {
				if certificate(t, f, c).SerialNumber.String() != before[c] {
					fresh = append(fresh, c)
				}
			}
			if got := strings.Join(fresh, " "); got != tc.wantFresh {
				t.Errorf("created again: %q, want %q", got, tc.wantFresh)
			}
			if again, err := os.ReadFile(f.Key("sa")); err != nil || string(again) != string(sa) {
				t.Errorf("service account key changed, %v", err)
			}
		})
	}
}

func TestEnsureRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(t *testing.T, f Folder, now *time.Time)
		want  string
	}{
		"a key that others can read": {
			func(t *testing.T, f Folder, _ *time.Time) { chmod(t, f.Key("ca"), 0o644) }, "ca.key has mode 0644, so others may use it"},
		"a folder that others can enter": {
			func(t *testing.T, f Folder, _ *time.Time) { chmod(t, f.Dir, 0o755) }, "pki has mode 0755, so others may use it"},
		"an authority that is rubbish": {
			func(t *testing.T, f Folder, _ *time.Time) { write(t, f.Cert("ca"), "rubbish") }, "pki/ca.crt: "},
		"an authority whose key is empty": {
			func(t *testing.T, f Folder, _ *time.Time) { write(t, f.Key("ca"), "") }, "pki/ca.key: "},
		"an authority whose key is rubbish": {
			func(t *testing.T, f Folder, _ *time.Time) { halve(t, f.Key("front-proxy-ca")) }, "pki/front-proxy-ca.key: "},
		"an authority with another's key": {
			func(t *testing.T, f Folder, _ *time.Time) {
				other, err := os.ReadFile(f.Key("sa"))
				if err != nil {
					t.Fatal(err)
				}
				write(t, f.Key("ca"), string(other))
			}, "pki/ca.key: "},
		"what to do about it": {
			func(t *testing.T, f Folder, _ *time.Time) { write(t, f.Key("ca"), "") }, ": put a copy of it in its place, or remove "},
		"an authority without its key": {
			func(t *testing.T, f Folder, _ *time.Time) { remove(t, f.Key("ca")) }, "ca.key: no such file"},
		"an authority that has expired": {
			func(_ *testing.T, _ Folder, now *time.Time) { *now = birth.AddDate(11, 0, 0) }, "expired on 2035-12-30: remove "},
		"a service account key that is rubbish": {
			func(t *testing.T, f Folder, _ *time.Time) { write(t, f.Key("sa"), "rubbish") }, "pki/sa.key: "},
		"a service account key that is cut": {
			func(t *testing.T, f Folder, _ *time.Time) { halve(t, f.Key("sa")) }, "pki/sa.key: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, now := folder(t)
			ensure(t, f)
			tc.spoil(t, f, now)
			if err := f.Ensure([]string{"127.0.0.1"}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func halve(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(b[:len(b)/2]))
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
