// SPDX-License-Identifier: Apache-2.0

// Package access authenticates and authorizes the clients of a simulated API
// server: by client certificates, bootstrap tokens and service account tokens on
// the one hand, by built-in rules and RBAC objects on the other.
package access

import (
	"crypto"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// Groups and users with a special meaning.
const (
	Masters       = "system:masters"
	ClusterAdmins = "kubeadm:cluster-admins"
	Nodes         = "system:nodes"
	Bootstrappers = "system:bootstrappers"
	authenticated = "system:authenticated"
	anonymous     = "system:anonymous"
	nobody        = "system:unauthenticated"
)

// ErrUnauthorized means that a client's credentials are not valid.
var ErrUnauthorized = errors.New("the credentials are not valid")

// User is the user that sent a request.
type User struct {
	Name   string
	UID    string
	Groups []string
}

// In reports whether the user is in a group.
func (u User) In(group string) bool { return slices.Contains(u.Groups, group) }

// Authenticator authenticates the clients of one cluster.
type Authenticator struct {
	objects *objects.Store
	clock   clock.PassiveClock

	mu        sync.RWMutex // guards all below
	clientCAs *x509.CertPool
	key       crypto.Signer
	verified  map[string]verifiedCert // by the certificate's DER
}

type verifiedCert struct {
	user  User
	until time.Time
}

// maxVerified bounds how many certificates are cached; beyond it all are verified
// again.
const maxVerified = 256

// NewAuthenticator returns one that trusts no certificate or token yet.
func NewAuthenticator(o *objects.Store, c clock.PassiveClock) *Authenticator {
	return &Authenticator{objects: o, clock: c, verified: map[string]verifiedCert{}}
}

// Trust replaces the certificate authorities for clients, and the key that
// signs tokens of service accounts; a nil key refuses such tokens.
func (a *Authenticator) Trust(clientCAs *x509.CertPool, key crypto.Signer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clientCAs, a.key = clientCAs, key
	clear(a.verified)
}

// User returns the user that sent a request. A client without credentials is
// anonymous; one with credentials that are not valid is refused.
func (a *Authenticator) User(r *http.Request) (User, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return a.certificate(r.TLS.PeerCertificates)
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); token != "" && strings.EqualFold(scheme, "bearer") {
		return a.Token(token)
	}
	return User{Name: anonymous, Groups: []string{nobody}}, nil
}

// certificate caches what it has verified, because a client presents its
// certificate with every request and verifying costs more than most answers. A
// cached one still expires with its validity, and with a change of the roots.
func (a *Authenticator) certificate(chain []*x509.Certificate) (User, error) {
	leaf, now := chain[0], a.clock.Now()
	a.mu.RLock()
	known, ok := a.verified[string(leaf.Raw)]
	roots := a.clientCAs
	a.mu.RUnlock()
	if ok && now.Before(known.until) {
		return known.user, nil
	}
	if roots == nil {
		return User{}, ErrUnauthorized
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || leaf.Subject.CommonName == "" {
		return User{}, ErrUnauthorized
	}
	user := Proven(leaf.Subject.CommonName, "", leaf.Subject.Organization...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.verified) >= maxVerified {
		clear(a.verified)
	}
	if a.clientCAs == roots { // else Trust has replaced them since
		a.verified[string(leaf.Raw)] = verifiedCert{user: user, until: leaf.NotAfter}
	}
	return user, nil
}

// maxBootstrapGroup is the length of a group of a bootstrap token. It is not in the
// pattern, as in that of Kubernetes, which takes 150 kB when the program starts.
const maxBootstrapGroup = len("system:bootstrappers:") + 256

// bootstrapToken is the form of a token created by kubeadm, and bootstrapGroup that of its
// groups: an API server accepts no token with another one.
var (
	bootstrapToken = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	bootstrapGroup = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]*[a-z0-9]$`)
)

// Token returns the user of a bearer token.
func (a *Authenticator) Token(token string) (User, error) {
	if m := bootstrapToken.FindStringSubmatch(token); m != nil {
		return a.bootstrap(m[1], m[2])
	}
	return a.serviceAccount(token)
}

var secretKind = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Secret"))

// bootstrap rejects every token that is not valid in the same way, and compares in
// constant time: neither reveals which part of a guess was right.
func (a *Authenticator) bootstrap(id, secret string) (User, error) {
	e, err := a.objects.Entry(secretKind, metav1.NamespaceSystem, "bootstrap-token-"+id)
	if err != nil {
		return User{}, ErrUnauthorized
	}
	u, err := objects.Parse(e)
	if err != nil {
		return User{}, ErrUnauthorized
	}
	field := func(name string) string {
		text, _, _ := unstructured.NestedString(u.Object, "data", name)
		value, _ := base64.StdEncoding.DecodeString(text)
		return string(value)
	}
	kind, _, _ := unstructured.NestedString(u.Object, "type")
	usable := kind == string(corev1.SecretTypeBootstrapToken) && u.GetDeletionTimestamp() == nil &&
		field("token-id") == id && field("usage-bootstrap-authentication") == "true" &&
		subtle.ConstantTimeCompare([]byte(field("token-secret")), []byte(secret)) == 1
	if !usable {
		return User{}, ErrUnauthorized
	}
	if expires := field("expiration"); expires != "" {
		at, err := time.Parse(time.RFC3339, expires)
		if err != nil || !a.clock.Now().Before(at) {
			return User{}, ErrUnauthorized
		}
	}
	groups := []string{Bootstrappers}
	if extra := field("auth-extra-groups"); extra != "" {
		groups = append(groups, strings.Split(extra, ",")...)
	}
	if slices.ContainsFunc(groups[1:], func(group string) bool { return len(group) > maxBootstrapGroup || !bootstrapGroup.MatchString(group) }) {
		return User{}, ErrUnauthorized
	}
	return Proven("system:bootstrap:"+id, "", groups...), nil
}

// Proven is a user whose credentials were verified.
func Proven(name, uid string, groups ...string) User {
	return User{Name: name, UID: uid, Groups: append(slices.Clone(groups), authenticated)}
}
