// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func mustNew(t *testing.T, p Purpose, a Algorithm) Pair {
	t.Helper()
	pair, err := New(p, a, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func TestEveryAlgorithmMakesAnAuthorityThatSigns(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{"", ECDSAP256, ECDSAP384, RSA2048} {
		t.Run("algorithm "+string(a), func(t *testing.T) {
			t.Parallel()
			ca := mustNew(t, CA, a)
			leaf, err := ca.Issue(Leaf{CommonName: "admin", Organization: []string{"system:masters"}, Client: true, Algorithm: a, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if err := leaf.Check(Kubeconfig); err != nil {
				t.Error(err)
			}
			root, _ := ParseCertificate(ca.Cert)
			cert, _ := ParseCertificate(leaf.Cert)
			pool := x509.NewCertPool()
			pool.AddCert(root)
			if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
				t.Errorf("verify: %v", err)
			}
			if got, want := cert.NotAfter, now.Add(LeafValidity); !got.Equal(want) {
				t.Errorf("leaf expires %s, want %s", got, want)
			}
			if got, want := root.NotAfter, now.Add(CAValidity); !got.Equal(want) {
				t.Errorf("authority expires %s, want %s", got, want)
			}
		})
	}
}

func TestLeafDoesNotOutliveItsAuthority(t *testing.T) {
	t.Parallel()
	ca, err := NewCA(ECDSAP256, "short", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(Leaf{CommonName: "x", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseCertificate(leaf.Cert); err != nil || !got.NotAfter.Equal(now.Add(time.Hour)) {
		t.Errorf("expires %v, %v", got, err)
	}
}

func TestIssueNeedsTheKey(t *testing.T) {
	t.Parallel()
	external := Pair{Cert: mustNew(t, CA, "").Cert}
	if _, err := external.Issue(Leaf{CommonName: "x", Now: now}); !errors.Is(err, ErrNoKey) {
		t.Errorf("error %v", err)
	}
}

func TestUnknownAlgorithmIsRefusedByName(t *testing.T) {
	t.Parallel()
	if _, err := New(CA, "DES", now, 0); err == nil || !strings.Contains(err.Error(), `unknown key algorithm "DES"`) {
		t.Errorf("error %v", err)
	}
}

func TestSecretRoundTrip(t *testing.T) {
	t.Parallel()
	cluster := types.NamespacedName{Namespace: "ns", Name: "demo"}
	owner := metav1.OwnerReference{Kind: "KubeadmControlPlane", Name: "demo-cp", UID: "u"}
	for _, p := range []Purpose{CA, Etcd, FrontProxy, ServiceAccount} {
		pair := mustNew(t, p, "")
		s := pair.Secret(cluster, p, &owner)
		got, err := FromSecret(s, p)
		if err != nil || !bytes.Equal(got.Cert, pair.Cert) || !bytes.Equal(got.Key, pair.Key) {
			t.Errorf("%s: %v", p, err)
		}
		want := metav1.ObjectMeta{Namespace: "ns", Name: "demo-" + string(p), Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "demo"},
			OwnerReferences: []metav1.OwnerReference{owner}}
		if diff := cmp.Diff(want, s.ObjectMeta); diff != "" || s.Type != "cluster.x-k8s.io/secret" {
			t.Errorf("%s: type %s (-want +got)\n%s", p, s.Type, diff)
		}
	}
}

func TestFromSecretNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	ca, other, sa := mustNew(t, CA, ""), mustNew(t, CA, ""), mustNew(t, ServiceAccount, "")
	leaf, err := ca.Issue(Leaf{CommonName: "leaf", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		purpose   Purpose
		cert, key []byte
		want      string
	}{
		"an external authority is fine":     {CA, ca.Cert, nil, ""},
		"nothing at all":                    {CA, nil, nil, `secret ns/s, key "tls.crt": it is missing; put the PEM`},
		"rubbish instead of a certificate":  {CA, []byte("hunter2"), ca.Key, `secret ns/s, key "tls.crt": it holds no PEM block`},
		"rubbish instead of a key":          {CA, ca.Cert, []byte("hunter2"), `secret ns/s, key "tls.key": it holds no PEM block`},
		"the key of another":                {CA, ca.Cert, other.Key, `secret ns/s, key "tls.key": the key does not belong`},
		"a leaf instead of an authority":    {Etcd, leaf.Cert, leaf.Key, `secret ns/s, key "tls.crt": the certificate is not one of a certificate authority`},
		"a certificate for service account": {ServiceAccount, ca.Cert, ca.Key, `secret ns/s, key "tls.crt": it holds no PEM block`},
		"public and private do not match":   {ServiceAccount, sa.Cert, ca.Key, `secret ns/s, key "tls.key": the key does not belong`},
		"far too much":                      {CA, bytes.Repeat([]byte("x"), maxPEM+1), nil, `it is larger than 256 KiB`},
		"PEM around rubbish":                {CA, ca.Cert, []byte("-----BEGIN EC PRIVATE KEY-----\naHVudGVyMg==\n-----END EC PRIVATE KEY-----\n"), `key "tls.key": the EC PRIVATE KEY cannot be parsed`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"tls.crt": tc.cert, "tls.key": tc.key}}
			_, err := FromSecret(s, tc.purpose)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the error quotes the data: %v", err)
			}
		})
	}
}

func TestPairDoesNotPrintItsKey(t *testing.T) {
	t.Parallel()
	ca := mustNew(t, CA, "")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(verb, ca); len(out) > 40 {
			t.Errorf("%s prints %q", verb, out)
		}
	}
}

func TestPinHashesAreOnePerCertificate(t *testing.T) {
	t.Parallel()
	a, b := mustNew(t, CA, ""), mustNew(t, CA, "")
	got, err := PinHashes(append(bytes.Clone(a.Cert), b.Cert...))
	if err != nil || len(got) != 2 || got[0] == got[1] || !strings.HasPrefix(got[0], "sha256:") || len(got[0]) != 7+64 {
		t.Errorf("hashes %v, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	ca, _ := NewCA(ECDSAP256, "x", now, 0)
	f.Add(ca.Cert, ca.Key)
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		_ = Pair{cert, key}.Check(CA)
		_ = Pair{cert, key}.Check(ServiceAccount)
	})
}
