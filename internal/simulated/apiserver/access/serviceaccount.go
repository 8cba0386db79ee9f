// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Issuer is who service account tokens say they are from.
const Issuer = "https://kubernetes.default.svc.cluster.local"

var serviceAccountKind = kinds.ByType(&corev1.ServiceAccount{})

type claims struct {
	jwt.RegisteredClaims
	Kubernetes boundTo `json:"kubernetes.io"`
}

type boundTo struct {
	Namespace      string    `json:"namespace"`
	ServiceAccount reference `json:"serviceaccount"`
}

type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Issue makes a token for a service account.
func (a *Authenticator) Issue(namespace, name string, audiences []string, valid time.Duration) (string, time.Time, error) {
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
	now := a.clock.Now()
	until := now.Add(valid)
	token, err := jwt.NewWithClaims(method, claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: Issuer, Subject: accountName(namespace, name), Audience: audiences,
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(until),
		},
		Kubernetes: boundTo{Namespace: namespace, ServiceAccount: reference{Name: name, UID: string(account.UID)}},
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
	account, err := a.objects.Entry(serviceAccountKind, namespace, bound.Name)
	if err != nil || string(account.UID) != bound.UID || c.Subject != accountName(namespace, bound.Name) {
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
