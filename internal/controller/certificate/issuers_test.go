// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func server(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, certmanagerv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// authority returns the Secret of an authority.
func authority(t *testing.T, namespace string, kind corev1.SecretType) *corev1.Secret {
	t.Helper()
	ca, err := certs.NewCA("", "ca", now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca"}, Type: kind, Data: map[string][]byte{"tls.crt": ca.Cert, "tls.key": ca.Key}}
}

func TestWhatAnIssuerSignsWith(t *testing.T) {
	t.Parallel()
	by := certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}
	local := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"}, Spec: by}
	everywhere := &certmanagerv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: by}
	broken := authority(t, "ns", corev1.SecretTypeTLS)
	broken.Data["tls.key"] = []byte("-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----")
	tests := map[string]struct {
		issuer issuerSpec
		secret *corev1.Secret
		want   string // of the problem
	}{
		"an authority of its namespace":        {local, authority(t, "ns", corev1.SecretTypeTLS), ""},
		"one of another namespace":             {local, authority(t, "cert-manager", corev1.SecretTypeTLS), "ErrGetKeyPair Error getting keypair for CA issuer: Secret ns/ca does not exist"},
		"one for all namespaces":               {everywhere, authority(t, "cert-manager", corev1.SecretTypeOpaque), ""},
		"one for all namespaces, not in place": {everywhere, authority(t, "ns", corev1.SecretTypeTLS), "ErrGetKeyPair Error getting keypair for CA issuer: Secret cert-manager/ca does not exist"},
		"one with a broken key":                {local, broken, "ErrInvalidKeyPair Error getting keypair for CA issuer: Secret ns/ca: tls.key: the EC PRIVATE KEY cannot be parsed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, problem, err := openAuthority(t.Context(), server(t, tc.secret), tc.issuer, now)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if problem != nil {
				got = problem.Reason + " " + problem.Message
			}
			if got != tc.want || a.SelfSigned() != (tc.want != "") {
				t.Errorf("problem %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheAuthorityOfAClusterSignsNothingElse(t *testing.T) {
	t.Parallel()
	issuer := &certmanagerv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"}, Spec: certmanagerv1.IssuerSpec{CA: &certmanagerv1.CAIssuer{SecretName: "ca"}}}
	a, problem, err := openAuthority(t.Context(), server(t, authority(t, "ns", clusterv1.ClusterSecretType)), issuer, now)
	if err != nil || problem == nil || !a.SelfSigned() || !strings.Contains(problem.Message, "is that of a Cluster, whose authority signs nothing else") {
		t.Errorf("problem %v, error %v", problem, err)
	}
}

func TestOnlyDefinitionsOfOursAreHonoured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"ours":                            {map[string]string{certmanagerv1.DefinitionLabel: "capstan", "mine": "x"}, true},
		"cert-manager's":                  {map[string]string{"app.kubernetes.io/name": "cert-manager", "app": "cert-manager"}, false},
		"cert-manager's, put in place of": {map[string]string{certmanagerv1.DefinitionLabel: "capstan", "app.kubernetes.io/name": "cert-manager"}, false},
		"unowned":                         {nil, false},
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "certificates.cert-manager.io", Labels: tc.labels}}
		if got, err := issuersHonoured(t.Context(), server(t, crd)); err != nil || got != tc.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := issuersHonoured(t.Context(), server(t)); err != nil || got {
		t.Errorf("without a definition: %v, %v", got, err)
	}
}
