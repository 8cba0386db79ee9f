// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

func (r *Reconciler) tokenTTL() time.Duration { return cmp.Or(r.TokenTTL, DefaultTokenTTL) }

// createToken makes a token in the workload cluster.
func (r *Reconciler) createToken(ctx context.Context, s *state) (string, error) {
	c, err := r.Workload.Client(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return "", err
	}
	newToken := r.NewToken
	if newToken == nil {
		newToken = randomToken
	}
	token, err := newToken()
	if err != nil {
		return "", fmt.Errorf("make a bootstrap token: %w", err)
	}
	secret := kubeadm.TokenSecret(token, "made by Capstan for "+s.machine.String(), s.now.Add(r.tokenTTL()))
	if err := c.Create(ctx, secret); err != nil {
		return "", fmt.Errorf("create bootstrap token in the workload cluster of Cluster %s: %w", s.cluster.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Created bootstrap token", "tokenID", token.ID)
	return token.String(), nil
}

// keepToken extends the token of a machine without a node before it ends. A
// MachinePool's machines may come at any time, so its token is replaced before
// it ends, and made again when it is gone.
func (r *Reconciler) keepToken(ctx context.Context, s *state) (phase.Next, error) {
	d := s.config.Spec.JoinConfiguration.Discovery
	token, err := bootstrapv1.NewBootstrapTokenString(d.BootstrapToken.Token)
	if err != nil || d.File.KubeConfigPath != "" || (s.machine.hasNodes && !s.machine.pool) {
		r.upkeep.Forget(client.ObjectKeyFromObject(s.config)) // no token of ours, or nobody needs it any more
		return phase.Wait(0), nil
	}
	if left := r.upkeep.Get(s.config).Sub(s.now); left > 0 {
		return phase.Wait(left), nil
	}
	c, err := r.Workload.Client(ctx, client.ObjectKeyFromObject(s.cluster))
	if errors.Is(err, workload.ErrNotConnected) {
		return phase.Wait(r.tokenTTL() / 6), nil // the token goes on ending meanwhile
	}
	if err != nil {
		return phase.Continue(), err
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: kubeadm.TokenNamespace, Name: kubeadm.TokenSecretName(token.ID)}, secret)
	switch {
	case apierrors.IsNotFound(err) && s.machine.pool:
		return r.rotate(ctx, s)
	case apierrors.IsNotFound(err):
		ctrl.LoggerFrom(ctx).V(2).Info("The bootstrap token of the machine is gone", "tokenID", token.ID)
		return phase.Wait(0), nil
	case err != nil:
		return phase.Continue(), fmt.Errorf("get bootstrap token %s in the workload cluster of Cluster %s: %w", token.ID, s.cluster.Name, err)
	}
	return r.extend(ctx, s, c, secret)
}

func (r *Reconciler) extend(ctx context.Context, s *state, c client.Client, secret *corev1.Secret) (phase.Next, error) {
	expires, err := kubeadm.TokenExpiry(secret)
	if err != nil {
		return phase.Continue(), err
	}
	extend, again := kubeadm.TokenUpkeep(s.now, expires, r.tokenTTL())
	if s.machine.pool && s.machine.hasNodes {
		if !expires.IsZero() && expires.Sub(s.now) < r.tokenTTL()/2 {
			return r.rotate(ctx, s)
		}
		extend = false
	}
	if extend {
		before := secret.DeepCopy()
		kubeadm.ExtendToken(secret, s.now.Add(r.tokenTTL()))
		ctrl.LoggerFrom(ctx).Info("Extending bootstrap token", "Secret", secret.Name)
		if err := c.Patch(ctx, secret, client.MergeFrom(before)); err != nil {
			return phase.Continue(), fmt.Errorf("extend bootstrap token, Secret %s in the workload cluster of Cluster %s: %w", secret.Name, s.cluster.Name, err)
		}
	}
	if again > 0 {
		r.upkeep.Set(s.config, s.now.Add(again))
	}
	return phase.Wait(again), nil
}

// rotate gives a MachinePool a new token, and data with it. While that cannot
// be done the old one stays, which the data has: so it is tried again.
func (r *Reconciler) rotate(ctx context.Context, s *state) (phase.Next, error) {
	t := &s.config.Spec.JoinConfiguration.Discovery.BootstrapToken
	old := t.Token
	t.Token = ""
	next, err := r.join(ctx, s)
	if t.Token == "" || err != nil {
		t.Token = old
	}
	if s.waiting != "" {
		return phase.Wait(r.tokenTTL() / 6), err
	}
	return next, err
}

// watchToken asks for a look at the token that the data has, while it lasts.
func (r *Reconciler) watchToken(s *state, d bootstrapv1.Discovery) phase.Next {
	if d.File.KubeConfigPath != "" || d.BootstrapToken.Token == "" {
		return phase.Wait(0)
	}
	after := r.tokenTTL() / 3
	r.upkeep.Set(s.config, s.now.Add(after))
	return phase.Wait(after)
}

// randomToken draws a token from the characters that tokens are made of.
func randomToken() (bootstrapv1.BootstrapTokenString, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	const length = 6 + 16
	var text []byte
	for b := make([]byte, 1); len(text) < length; {
		if _, err := rand.Read(b); err != nil {
			return bootstrapv1.BootstrapTokenString{}, err
		}
		if i := int(b[0]); i < 256/len(alphabet)*len(alphabet) { // the rest would favour some characters
			text = append(text, alphabet[i%len(alphabet)])
		}
	}
	return bootstrapv1.BootstrapTokenString{ID: string(text[:6]), Secret: string(text[6:])}, nil
}
