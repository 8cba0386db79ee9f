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

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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

func TestRolesGrantWhatTheySay(t *testing.T) {
	t.Parallel()
	c := start(t)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubeadm:reader"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubeadm:reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}, {Kind: rbacv1.ServiceAccountKind, Name: "default"}},
	}
	if err := c.Store().Add(role); err != nil {
		t.Fatal(err)
	}
	if err := c.Store().Add(binding); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{
		"granted":         answers(t, c.as(t, "jane"), "/api/v1/namespaces/default/configmaps/a"),
		"another name":    answers(t, c.as(t, "jane"), "/api/v1/namespaces/default/configmaps/b"),
		"another place":   answers(t, c.as(t, "jane"), "/api/v1/namespaces/kube-system/configmaps/a"),
		"another user":    answers(t, c.as(t, "joe"), "/api/v1/namespaces/default/configmaps/a"),
		"a service token": answers(t, bearer(c, serviceToken(t, c)), "/api/v1/namespaces/default/configmaps/a"),
	}
	want := map[string]int{"granted": 404, "another name": 403, "another place": 403, "another user": 403, "a service token": 404}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
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

func TestATokenEndsWithWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	c := start(t)
	admin := clientset(t, c.admin(t))
	p, err := admin.CoreV1().Pods("default").Create(t.Context(), pod("p", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(account string, to authenticationv1.BoundObjectReference) (string, error) {
		req, err := admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &to},
		}, metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return req.Status.Token, nil
	}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		account string
		to      authenticationv1.BoundObjectReference
		refused func(error) bool
	}{
		"a Pod that is not there":       {"default", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "q"}, apierrors.IsNotFound},
		"another Pod of that name":      {"default", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "x"}, apierrors.IsConflict},
		"a Pod of another account":      {"other", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}, apierrors.IsBadRequest},
		"what no token is bound to":     {"default", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "p"}, apierrors.IsBadRequest},
		"a Secret that is not there":    {"default", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "p"}, apierrors.IsNotFound},
		"a Pod in a version that is no": {"default", authenticationv1.BoundObjectReference{APIVersion: "v2", Kind: "Pod", Name: "p"}, apierrors.IsBadRequest},
	} {
		if _, err := issue(tc.account, tc.to); !tc.refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	token, err := issue("default", authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: p.UID})
	if err != nil {
		t.Fatal(err)
	}
	if got := answers(t, bearer(c, token), "/apis"); got != 200 {
		t.Errorf("with the Pod: %d, want 200", got)
	}
	if err := admin.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	if got := answers(t, bearer(c, token), "/apis"); got != 401 {
		t.Errorf("without the Pod: %d, want 401", got)
	}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pod("p", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := answers(t, bearer(c, token), "/apis"); got != 401 {
		t.Errorf("with another Pod of that name: %d, want 401", got)
	}
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
