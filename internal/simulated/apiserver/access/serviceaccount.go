// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Issuer is the issuer in service account tokens.
const Issuer = "https://kubernetes.default.svc.cluster.local"

var serviceAccountKind = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))

type claims struct {
	jwt.RegisteredClaims
	Kubernetes boundTo `json:"kubernetes.io"`
}

type boundTo struct {
	Namespace      string     `json:"namespace"`
	ServiceAccount reference  `json:"serviceaccount"`
	Pod            *reference `json:"pod,omitempty"`
	Secret         *reference `json:"secret,omitempty"`
	Node           *reference `json:"node,omitempty"`
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// bindable are the kinds to whose objects a token may be bound: it is good as long
// as they are there.
var bindable = map[string]struct {
	kind  *kinds.Kind
	claim func(*boundTo) **reference
}{
	"Pod":    {podKind, func(b *boundTo) **reference { return &b.Pod }},
	"Secret": {secretKind, func(b *boundTo) **reference { return &b.Secret }},
	"Node":   {nodeKind, func(b *boundTo) **reference { return &b.Node }},
}

// bind notes what a token is bound to.
func (a *Authenticator) bind(to *authenticationv1.BoundObjectReference, b *boundTo) error {
	if to == nil {
		return nil
	}
	by, ok := bindable[to.Kind]
	if !ok || to.APIVersion != "v1" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)))
	}
	e, err := a.objects.Entry(by.kind, b.Namespace, to.Name)
	if err != nil {
		return err
	}
	if to.UID != "" && to.UID != e.UID {
		return apierrors.NewConflict(by.kind.GroupResource(), to.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID)) // the words of an API server
	}
	if to.Kind == podKind.Kind {
		p := pod{}
		if err := json.Unmarshal(e.Raw, &p); err != nil || p.account() != b.ServiceAccount.Name {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", b.ServiceAccount.Name)) // as above
		}
	}
	*by.claim(b) = &reference{Name: to.Name, UID: string(e.UID)}
	return nil
}

// holds reports whether the service account of a token, and what it is bound to, exist.
func (a *Authenticator) holds(b *boundTo) bool {
	for _, by := range bindable {
		if to := *by.claim(b); to != nil && !a.exists(by.kind, b.Namespace, to) {
			return false
		}
	}
	return a.exists(serviceAccountKind, b.Namespace, &b.ServiceAccount)
}

func (a *Authenticator) exists(k *kinds.Kind, namespace string, to *reference) bool {
	var head metav1.PartialObjectMetadata
	e, err := a.objects.Entry(k, namespace, to.Name)
	if err != nil || string(e.UID) != to.UID || json.Unmarshal(e.Raw, &head) != nil {
		return false
	}
	at := head.DeletionTimestamp
	return at == nil || !a.clock.Now().After(at.Add(leaving))
}

// leaving is how long after the end of its grace a token of what is being deleted
// is still good.
const leaving = time.Minute

// Issue creates a token for a service account, bound to an object unless that is
// nil.
func (a *Authenticator) Issue(namespace, name string, to *authenticationv1.BoundObjectReference, audiences []string, valid time.Duration) (string, time.Time, error) {
	a.mu.RLock()
	key := a.key
	a.mu.RUnlock()
	method, err := methodFor(key)
	if err != nil {
		return "", time.Time{}, err
	}
	account, err := a.objects.Entry(serviceAccountKind, namespace, name)
	if err != nil {
		return "", time.Time{}, err
	}
	if len(audiences) == 0 {
		audiences = []string{Issuer}
	}
	bound := boundTo{Namespace: namespace, ServiceAccount: reference{Name: name, UID: string(account.UID)}}
	if err := a.bind(to, &bound); err != nil {
		return "", time.Time{}, err
	}
	now := a.clock.Now()
	until := now.Add(valid)
	token, err := jwt.NewWithClaims(method, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: Issuer, Subject: accountName(namespace, name), Audience: audiences,
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(until),
		},
		Kubernetes: bound,
	}).SignedString(key)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign token of service account %s/%s: %w", namespace, name, err)
	}
	return token, until, nil
}

func (a *Authenticator) serviceAccount(token string) (User, error) {
	a.mu.RLock()
	key := a.key
	a.mu.RUnlock()
	method, err := methodFor(key)
	if err != nil {
		return User{}, ErrUnauthorized
	}
	var c claims
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return key.Public(), nil },
		jwt.WithValidMethods([]string{method.Alg()}), jwt.WithIssuer(Issuer), jwt.WithAudience(Issuer),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(a.clock.Now))
	if err != nil {
		return User{}, ErrUnauthorized
	}
	namespace, bound := c.Kubernetes.Namespace, c.Kubernetes.ServiceAccount
	if c.Subject != accountName(namespace, bound.Name) || !a.holds(&c.Kubernetes) {
		return User{}, ErrUnauthorized
	}
	return Proven(c.Subject, bound.UID, "system:serviceaccounts", "system:serviceaccounts:"+namespace), nil
}

func accountName(namespace, name string) string {
	return strings.Join([]string{"system:serviceaccount", namespace, name}, ":")
}

func methodFor(key crypto.Signer) (jwt.SigningMethod, error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return jwt.SigningMethodRS256, nil
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return jwt.SigningMethodES256, nil
		case 384:
			return jwt.SigningMethodES384, nil
		}
	case nil:
		return nil, errors.New("the cluster has no key for service account tokens yet")
	}
	return nil, fmt.Errorf("a %T cannot sign service account tokens", key)
}
