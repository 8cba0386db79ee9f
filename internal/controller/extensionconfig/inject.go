// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// inject copies the certificate authority from the Secret that the annotation names
// into the spec. A mistake of the user is stored in s.failed: the watch of the
// Secret, or of the annotation, triggers a reconcile when it is corrected.
func (r *Reconciler) inject(ctx context.Context, s *state) (reconciler.Next, error) {
	key, err := extensionconfig.AuthoritySecret(s.config)
	if err != nil {
		s.misplaced(err)
	}
	err = r.whileThere(ctx, s.config, func() error {
		r.Secrets.Follow(client.ObjectKeyFromObject(s.config), key) // before it is read: no change is missed
		return nil
	})
	if err != nil || key.Name == "" {
		return reconciler.Continue(), err
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		secret = nil
	} else if err != nil {
		return reconciler.Continue(), fmt.Errorf("read Secret %s: %w", key, err)
	}
	bundle, err := extensionconfig.Authority(key, secret)
	switch {
	case err != nil:
		s.misplaced(err)
	case !bytes.Equal(bundle, s.config.Spec.ClientConfig.CABundle):
		s.config.Spec.ClientConfig.CABundle = bundle
	}
	return reconciler.Continue(), nil
}
