// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
)

const joinSecret = "0123456789abcdef"

// joinToken is a bootstrap token as kubeadm creates it.
func joinToken(id string, expires time.Time) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte(joinSecret), "expiration": []byte(expires.UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
		},
	}
}

func bearer(c *cluster, token string) *rest.Config {
	cfg := c.anonymous()
	cfg.BearerToken = token
	return cfg
}

// answers returns the status code of a GET.
func answers(t *testing.T, cfg *rest.Config, path string) int {
	t.Helper()
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only the status matters
	return resp.StatusCode
}

func TestEachClientMayDoWhatItMust(t *testing.T) {
	t.Parallel()
	c := start(t)
	for _, secret := range []*corev1.Secret{joinToken("aaaaaa", time.Now().Add(time.Hour)), joinToken("bbbbbb", time.Now().Add(-time.Hour))} {
		if err := c.Store().Add(secret); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, name := range map[string]string{"kube-public": "cluster-info", "kube-system": "kubeadm-config"} {
		if err := c.Store().Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Store().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	const (
		info, config, aNode = "/api/v1/namespaces/kube-public/configmaps/cluster-info", "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", "/api/v1/nodes/n"
		secrets, csrs       = "/api/v1/namespaces/kube-system/secrets", "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	)
	stranger := start(t).as(t, "kubernetes-admin", "system:masters")
	stranger.Host, stranger.CAData = c.host, c.caPEM
	expired := func() *rest.Config {
		k, cfg := key(t), c.admin(t)
		cert := c.sign(t, &x509.Certificate{NotAfter: time.Now().Add(-time.Minute), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, k)
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		cfg.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
		cfg.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
		return cfg
	}
	tests := map[string]struct {
		cfg  *rest.Config
		path string
		want int
	}{
		"an administrator reads secrets":                {c.admin(t), secrets, 200},
		"a master reads secrets":                        {c.as(t, "admin", "system:masters"), secrets, 200},
		"a client without certificate sees health":      {c.anonymous(), "/readyz", 200},
		"a client without certificate sees version":     {c.anonymous(), "/version", 200},
		"a client without certificate reads info":       {c.anonymous(), info, 200},
		"a client without certificate sees no node":     {c.anonymous(), aNode, 403},
		"a client without certificate sees no API":      {c.anonymous(), "/api", 403},
		"a joining machine reads its configuration":     {bearer(c, "aaaaaa."+joinSecret), config, 200},
		"a joining machine reads a node":                {bearer(c, "aaaaaa."+joinSecret), aNode, 200},
		"a joining machine lists requests":              {bearer(c, "aaaaaa."+joinSecret), csrs, 200},
		"a joining machine reads no secret":             {bearer(c, "aaaaaa."+joinSecret), secrets, 403},
		"a joining machine lists no nodes":              {bearer(c, "aaaaaa."+joinSecret), "/api/v1/nodes", 403},
		"an expired token is refused":                   {bearer(c, "bbbbbb."+joinSecret), info, 401},
		"a wrong token is refused":                      {bearer(c, "aaaaaa.ffffffffffffffff"), info, 401},
		"a missing token is refused":                    {bearer(c, "cccccc."+joinSecret), info, 401},
		"an invalid token is refused":                   {bearer(c, "rubbish"), info, 401},
		"a kubelet reads its node":                      {c.as(t, "system:node:n", "system:nodes"), aNode, 200},
		"a kubelet reads no other nodes":                {c.as(t, "system:node:n", "system:nodes"), "/api/v1/nodes", 403},
		"a kubelet reads no secrets":                    {c.as(t, "system:node:n", "system:nodes"), secrets, 403},
		"a kubelet reads no roles":                      {c.as(t, "system:node:n", "system:nodes"), "/apis/rbac.authorization.k8s.io/v1/roles", 403},
		"a known user without rights sees the API":      {c.as(t, "jane"), "/apis", 200},
		"a known user without rights sees no node":      {c.as(t, "jane"), aNode, 403},
		"a certificate of another authority is refused": {stranger, info, 401},
		"an expired certificate is refused":             {expired(), info, 401},
		"what is not served is not found":               {c.admin(t), "/apis/example.com/v1/things", 404},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := answers(t, tc.cfg, tc.path); got != tc.want {
				t.Errorf("GET %s answers %d, want %d", tc.path, got, tc.want)
			}
		})
	}
}

func TestARefusalSaysWhoMayNotDoWhat(t *testing.T) {
	t.Parallel()
	c := start(t)
	_, err := clientset(t, c.as(t, "jane")).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	want := `nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func serviceToken(t *testing.T, c *cluster) string {
	t.Helper()
	req, err := clientset(t, c.admin(t)).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return req.Status.Token
}

func TestClientsMayAskWhoTheyAre(t *testing.T) {
	t.Parallel()
	c := start(t)
	cs := clientset(t, bearer(c, serviceToken(t, c)))
	who, err := cs.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:default:default" {
		t.Errorf("who %+v, error %v", who, err)
	}
	may, err := cs.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}},
	}, metav1.CreateOptions{})
	if err != nil || may.Status.Allowed {
		t.Errorf("may %+v, error %v, want no", may, err)
	}
}

func TestAnAdministratorMayBeTakenForAnother(t *testing.T) {
	t.Parallel()
	c := start(t)
	cfg := c.admin(t)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	if got := answers(t, cfg, "/api/v1/nodes"); got != 403 {
		t.Errorf("as jane: %d, want 403", got)
	}
	cfg = c.as(t, "jane")
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{"system:masters"}}
	if got := answers(t, cfg, "/api/v1/nodes"); got != 403 {
		t.Errorf("jane as a master: %d, want 403", got)
	}
}

func TestACertificateIsAskedForAndApproved(t *testing.T) {
	t.Parallel()
	c := start(t)
	if err := c.Store().Add(joinToken("aaaaaa", time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Request: []byte("x"), SignerName: "kubernetes.io/kube-apiserver-client-kubelet", Username: "forged"},
	}
	made, err := clientset(t, bearer(c, "aaaaaa."+joinSecret)).CertificatesV1().CertificateSigningRequests().Create(t.Context(), csr, metav1.CreateOptions{})
	if err != nil || made.Spec.Username != "system:bootstrap:aaaaaa" || !slices.Contains(made.Spec.Groups, "system:bootstrappers:kubeadm:default-node-token") {
		t.Fatalf("request %+v, error %v", made.Spec, err)
	}
	made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
	made.Status.Certificate = []byte("not by approval")
	made, err = clientset(t, c.admin(t)).CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), "n", made, metav1.UpdateOptions{})
	if err != nil || len(made.Status.Conditions) != 1 || len(made.Status.Certificate) != 0 {
		t.Errorf("status %+v, error %v", made.Status, err)
	}
}

func TestTokenIdentifiesUser(t *testing.T) {
	t.Parallel()
	c := start(t)
	if err := c.Store().Add(joinToken("aaaaaa", time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
	if u, err := c.Token("aaaaaa." + joinSecret); err != nil || u.Name != "system:bootstrap:aaaaaa" {
		t.Errorf("user %+v, error %v", u, err)
	}
	if _, err := c.Token("aaaaaa.ffffffffffffffff"); !errors.Is(err, access.ErrUnauthorized) {
		t.Errorf("error %v, want unauthorized", err)
	}
	review, err := clientset(t, c.admin(t)).AuthenticationV1().TokenReviews().Create(t.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "aaaaaa." + joinSecret}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated || review.Spec.Token != "" {
		t.Errorf("review %+v, error %v", review, err)
	}
}
