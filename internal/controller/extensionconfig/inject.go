// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
)

// authorityKey is where a Secret keeps the certificate of an authority.
const authorityKey = "ca.crt"

// inject copies the certificate authority from the Secret that the annotation
// names into the spec. What the user got wrong is s.failed: the watch of the
// Secret, or of the annotation, wakes us when it is put right.
func (r *Reconciler) inject(ctx context.Context, s *state) (phase.Next, error) {
	value, annotated := s.config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	var key client.ObjectKey
	if annotated {
		var err error
		if key, err = fieldrules.SecretKey(value); err != nil {
			s.misplaced(fmt.Errorf("annotation %s: %w", runtimev1.InjectCAFromSecretAnnotation, err))
		}
	}
	err := r.whileThere(ctx, s.config, func() error {
		r.secrets.follow(s.config.Name, key) // before it is read: no change is missed
		return nil
	})
	if err != nil || key.Name == "" {
		return phase.Continue(), err
	}
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		s.misplaced(fmt.Errorf("Secret %s, named by annotation %s, does not exist: create it, or correct the annotation", key, runtimev1.InjectCAFromSecretAnnotation))
		return phase.Continue(), nil
	} else if err != nil {
		return phase.Continue(), fmt.Errorf("read Secret %s: %w", key, err)
	}
	bundle, ok := secret.Data[authorityKey]
	if !ok {
		s.misplaced(fmt.Errorf("Secret %s, named by annotation %s, has no key %s", key, runtimev1.InjectCAFromSecretAnnotation, authorityKey))
		return phase.Continue(), nil
	}
	// Who may write an ExtensionConfig need not be one who may read Secrets:
	// certificates are public, and nothing else of the Secret goes anywhere.
	if bundle, err = fieldrules.CertificateBundle(bundle); err != nil {
		s.misplaced(fmt.Errorf("%s of Secret %s, named by annotation %s: %w", authorityKey, key, runtimev1.InjectCAFromSecretAnnotation, err))
		return phase.Continue(), nil
	}
	if !bytes.Equal(bundle, s.config.Spec.ClientConfig.CABundle) {
		s.config.Spec.ClientConfig.CABundle = bundle
	}
	return phase.Continue(), nil
}
