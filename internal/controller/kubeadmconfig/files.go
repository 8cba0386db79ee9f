// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// resolve is the spec with everything in place that it only refers to: files
// and passwords from Secrets, and files that are templates.
func (r *Reconciler) resolve(ctx context.Context, s *state) (bootstrapv1.KubeadmConfigSpec, error) {
	spec := *s.config.Spec.DeepCopy()
	for i := range spec.Files {
		f := &spec.Files[i]
		if from := f.ContentFrom.Secret; from.Name != "" {
			content, err := r.fromSecret(ctx, s, from.Name, from.Key)
			if err != nil {
				return spec, fmt.Errorf("spec.files[%d].contentFrom: %w", i, err)
			}
			f.Content, f.ContentFrom = content, bootstrapv1.FileSource{}
		}
	}
	for i := range spec.Users {
		u := &spec.Users[i]
		if from := u.PasswdFrom.Secret; from.Name != "" {
			passwd, err := r.fromSecret(ctx, s, from.Name, from.Key)
			if err != nil {
				return spec, fmt.Errorf("spec.users[%d].passwdFrom: %w", i, err)
			}
			u.Passwd, u.PasswdFrom = passwd, bootstrapv1.PasswdSource{}
		}
	}
	if !kubeadm.HasTemplates(spec.Files) {
		return spec, nil
	}
	version, err := r.controlPlaneVersion(ctx, s)
	if err != nil {
		return spec, err
	}
	if spec.Files, err = kubeadm.Expand(spec.Files, version); err != nil {
		return spec, s.refuse("spec.files: %v", err)
	}
	return spec, nil
}

// fromSecret reads a key of a Secret that the user names. Such Secrets need no
// label, so the cache does not have them.
func (r *Reconciler) fromSecret(ctx context.Context, s *state, name, key string) (string, error) {
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: name}, secret); err != nil {
		return "", fmt.Errorf("get Secret %s/%s: %w", s.config.Namespace, name, err)
	}
	if v := reference.ToShare(s.cluster).Evaluate(secret); v.Holder != "" {
		return "", s.refuse("secret %s/%s is held by %s: name another Secret, or remove that owner or label", secret.Namespace, secret.Name, v.Holder)
	}
	value, ok := secret.Data[key]
	if !ok {
		return "", fmt.Errorf("secret %s/%s has no key %q", s.config.Namespace, name, key)
	}
	return string(value), nil
}

// controlPlaneVersion returns the desired version of the control plane, or "" if
// there is no control plane object or it has none.
func (r *Reconciler) controlPlaneVersion(ctx context.Context, s *state) (string, error) {
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return "", nil
	}
	obj, err := r.Providers.Get(ctx, s.cluster.Namespace, ref)
	if err != nil {
		return "", err
	}
	c, err := contract.ControlPlaneFor(obj.Contract)
	if err != nil {
		return "", err
	}
	version, _, err := c.Version.Get(obj.Unstructured)
	return version, err
}
