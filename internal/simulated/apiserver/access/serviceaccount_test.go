// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
)

func account(name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: meta(name)}
}

func podOf(name, account string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "v1"}}}}
}

// issue creates a token of the account worker that is valid for an hour.
func (c *cluster) issue(t *testing.T, to *authenticationv1.BoundObjectReference) string {
	t.Helper()
	token, until, err := c.authn.Issue("default", "worker", to, nil, time.Hour)
	if err != nil || !until.Equal(start.Add(time.Hour)) {
		t.Fatalf("valid until %v, error %v", until, err)
	}
	return token
}

// expect checks that a token is accepted, or refused.
func (c *cluster) expect(t *testing.T, what, token string, accepted bool) {
	t.Helper()
	got, err := c.authn.Token(token)
	if (err == nil) != accepted || !accepted && !errors.Is(err, access.ErrUnauthorized) {
		t.Errorf("%s: user %+v, error %v, want accepted %v", what, got, err, accepted)
	}
}

func TestTokensAreSignedByTheKeyOfTheCluster(t *testing.T) {
	t.Parallel()
	generate := func(key crypto.Signer, err error) crypto.Signer {
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	p384, err384 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	p521, err521 := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	small, errSmall := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, errEd := ed25519.GenerateKey(rand.Reader)
	for name, tc := range map[string]struct {
		key  crypto.Signer
		want string // the algorithm; none if it cannot sign
	}{
		"P-256":   {newKey(t), "ES256"},
		"P-384":   {generate(p384, err384), "ES384"},
		"P-521":   {generate(p521, err521), ""},
		"RSA":     {generate(small, errSmall), "RS256"},
		"Ed25519": {generate(ed, errEd), ""},
		"none":    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, account("worker"))
			c.authn.Trust(nil, tc.key)
			token, _, err := c.authn.Issue("default", "worker", nil, nil, time.Hour)
			if tc.want == "" {
				if err == nil {
					t.Error("a token was issued")
				}
				c.expect(t, "any token", "a.b.c", false)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
			if err != nil || parsed.Method.Alg() != tc.want {
				t.Errorf("signed by %v, error %v, want %s", parsed.Header, err, tc.want)
			}
			want := access.Proven("system:serviceaccount:default:worker", parsed.Claims.(jwt.MapClaims)["kubernetes.io"].(map[string]any)["serviceaccount"].(map[string]any)["uid"].(string),
				"system:serviceaccounts", "system:serviceaccounts:default")
			got, err := c.authn.Token(token)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v, user (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTokenEndsWithItsTimeKeyAndAccount(t *testing.T) {
	t.Parallel()
	held := account("worker")
	held.Finalizers = []string{"example.com/hold"}
	accounts := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	for name, tc := range map[string]struct {
		change func(*testing.T, *cluster)
		want   bool
	}{
		"in its last second":           {func(_ *testing.T, c *cluster) { c.clock.SetTime(start.Add(time.Hour - time.Second)) }, true},
		"after its time":               {func(_ *testing.T, c *cluster) { c.clock.SetTime(start.Add(time.Hour + time.Second)) }, false},
		"before its time":              {func(_ *testing.T, c *cluster) { c.clock.SetTime(start.Add(-time.Minute)) }, false},
		"with another key":             {func(t *testing.T, c *cluster) { c.authn.Trust(nil, newKey(t)) }, false},
		"without a key":                {func(_ *testing.T, c *cluster) { c.authn.Trust(nil, nil) }, false},
		"its account is being deleted": {func(t *testing.T, c *cluster) { remove(t, c, accounts, "worker") }, true},
		"its account should be deleted": {func(t *testing.T, c *cluster) {
			remove(t, c, accounts, "worker")
			c.clock.SetTime(start.Add(2 * time.Minute))
		}, false},
		"its account is a new one": {func(t *testing.T, c *cluster) {
			remove(t, c, accounts, "worker")
			release(t, c, "worker")
			c.add(t, account("worker"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, held.DeepCopy())
			c.authn.Trust(nil, newKey(t))
			token := c.issue(t, nil)
			c.expect(t, "at first", token, true)
			tc.change(t, c)
			c.expect(t, "then", token, tc.want)
		})
	}
}

func TestTokenOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	c := newCluster(t, account("worker"), account("other"))
	c.authn.Trust(nil, key)
	own := c.issue(t, nil)
	forAudience, _, err := c.authn.Issue("default", "worker", nil, []string{"vault"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// signed is own with other claims, signed by the right key.
	signed := func(change func(jwt.MapClaims)) string {
		parsed, _, err := jwt.NewParser().ParseUnverified(own, jwt.MapClaims{})
		if err != nil {
			t.Fatal(err)
		}
		change(parsed.Claims.(jwt.MapClaims))
		text, err := jwt.NewWithClaims(jwt.SigningMethodES256, parsed.Claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "system:serviceaccount:default:worker"}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(own, ".")
	c.expect(t, "the same claims", signed(func(jwt.MapClaims) {}), true)
	for name, token := range map[string]string{
		"for another audience":  forAudience,
		"without a signature":   parts[0] + "." + parts[1] + ".",
		"of no algorithm":       unsigned,
		"of another issuer":     signed(func(m jwt.MapClaims) { m["iss"] = "https://example.com" }),
		"without an end":        signed(func(m jwt.MapClaims) { delete(m, "exp") }),
		"of another subject":    signed(func(m jwt.MapClaims) { m["sub"] = "system:serviceaccount:default:other" }),
		"of no service account": signed(func(m jwt.MapClaims) { delete(m, "kubernetes.io") }),
		"of a missing account": signed(func(m jwt.MapClaims) {
			m["kubernetes.io"] = map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "nope"}}
		}),
		"empty":    "",
		"two dots": "..",
	} {
		c.expect(t, name, token, false)
	}
}

func TestIssueRefusesWhatATokenCannotBeBoundTo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, account("worker"), account("other"), podOf("p", "worker"))
	c.authn.Trust(nil, newKey(t))
	to := func(apiVersion, kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
	}
	for name, tc := range map[string]struct {
		account string
		to      *authenticationv1.BoundObjectReference
		refused func(error) bool
	}{
		"an account that is missing":  {"nope", nil, apierrors.IsNotFound},
		"a Pod that is missing":       {"worker", to("v1", "Pod", "q", ""), apierrors.IsNotFound},
		"another Pod of that name":    {"worker", to("v1", "Pod", "p", "x"), apierrors.IsConflict},
		"a Pod of another account":    {"other", to("v1", "Pod", "p", ""), apierrors.IsBadRequest},
		"a kind that no token has":    {"worker", to("v1", "ConfigMap", "p", ""), apierrors.IsBadRequest},
		"a version that is no":        {"worker", to("v2", "Pod", "p", ""), apierrors.IsBadRequest},
		"a Secret that is missing":    {"worker", to("v1", "Secret", "p", ""), apierrors.IsNotFound},
		"a Node that is missing":      {"worker", to("v1", "Node", "n", ""), apierrors.IsNotFound},
		"the kind of its own account": {"worker", to("v1", "ServiceAccount", "worker", ""), apierrors.IsBadRequest},
	} {
		if _, _, err := c.authn.Issue("default", tc.account, tc.to, nil, time.Hour); !tc.refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenEndsWithWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	held := podOf("held", "worker")
	held.Finalizers = []string{"example.com/hold"}
	secret := &corev1.Secret{ObjectMeta: meta("s")}
	c := newCluster(t, account("worker"), podOf("p", "worker"), held, secret, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	c.authn.Trust(nil, newKey(t))
	tokens := map[string]string{}
	for kind, name := range map[string]string{"Pod": "p", "Secret": "s", "Node": "n"} {
		tokens[kind] = c.issue(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name})
		c.expect(t, "bound to a "+kind, tokens[kind], true)
	}
	leaving := c.issue(t, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "held"})
	for kind, name := range map[string]string{"pods": "p", "secrets": "s", "nodes": "n"} {
		remove(t, c, corev1.SchemeGroupVersion.WithResource(kind), name)
	}
	for kind, token := range tokens {
		c.expect(t, "bound to a "+kind+" that is deleted", token, false)
	}
	c.add(t, podOf("p", "worker"))
	c.expect(t, "bound to an earlier Pod", tokens["Pod"], false)

	remove(t, c, corev1.SchemeGroupVersion.WithResource("pods"), "held")
	c.clock.SetTime(start.Add(59 * time.Second))
	c.expect(t, "bound to a Pod that is leaving", leaving, true)
	c.clock.SetTime(start.Add(3 * time.Minute))
	c.expect(t, "bound to a Pod that should have left", leaving, false)
}
