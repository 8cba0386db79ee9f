// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

func (r *Reconciler) tokenTTL() time.Duration { return cmp.Or(r.TokenTTL, DefaultTokenTTL) }

// createToken creates a token in the workload cluster.
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

// findToken reads the token that the data has.
func (r *Reconciler) findToken(ctx context.Context, s *state) (a bootstrapdata.Answer, err error) {
	id, _, _ := strings.Cut(s.config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token, ".")
	c, err := r.Workload.Client(ctx, client.ObjectKeyFromObject(s.cluster))
	if errors.Is(err, workload.ErrNotConnected) {
		return bootstrapdata.Answer{Disconnected: true}, nil
	}
	if err != nil {
		return a, err
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: kubeadm.TokenNamespace, Name: kubeadm.TokenSecretName(id)}, secret)
	if apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).V(2).Info("The bootstrap token of the machine is gone", "tokenID", id)
		return bootstrapdata.Answer{Gone: true}, nil
	}
	if err != nil {
		return a, fmt.Errorf("get bootstrap token %s in the workload cluster of Cluster %s: %w", id, s.cluster.Name, err)
	}
	s.token = secret
	a.Expires, err = kubeadm.TokenExpiry(secret)
	return a, err
}

// extend lets the token that was found last as long as a new one.
func (r *Reconciler) extend(ctx context.Context, s *state) error {
	c, err := r.Workload.Client(ctx, client.ObjectKeyFromObject(s.cluster))
	if err != nil {
		return err
	}
	before := s.token.DeepCopy()
	kubeadm.ExtendToken(s.token, s.now.Add(r.tokenTTL()))
	ctrl.LoggerFrom(ctx).Info("Extending bootstrap token", "Secret", s.token.Name)
	if err := c.Patch(ctx, s.token, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("extend bootstrap token, Secret %s in the workload cluster of Cluster %s: %w", s.token.Name, s.cluster.Name, err)
	}
	return nil
}

// randomToken returns a random token of the characters that are valid in tokens.
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
