// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Keys of the data Secret. Part of the bootstrap contract.
const (
	valueKey  = "value"
	formatKey = "format"
)

// takeOver records data that the machine already has.
func (s *state) takeOver(ctx context.Context) {
	ctrl.LoggerFrom(ctx).Info("Taking over bootstrap data that the machine already has", "Secret", s.machine.DataSecretName)
	s.config.Status.DataSecretName = s.machine.DataSecretName
	s.config.Status.Initialization.DataSecretCreated = new(true)
}

// ownSecret makes the config the controller of its Secret. A deleted Secret is not
// created again: its machine has read it, or never will.
func (r *Reconciler) ownSecret(ctx context.Context, s *state, name string) error {
	secret := &corev1.Secret{}
	err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: name}, secret)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get Secret %s/%s: %w", s.config.Namespace, name, err)
	}
	ref, err := owner.Controller(s.config, r.Mgmt)
	if err != nil {
		return err
	}
	if err := s.mayOwn(secret, ref); err != nil {
		return err
	}
	before := secret.DeepCopy()
	if !owner.Set(secret, ref) {
		return nil
	}
	if err := r.Mgmt.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("own Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}

// mayOwn refuses a Secret that has another owner, or that is no bootstrap data: it
// would be overwritten, and deleted with the config.
func (s *state) mayOwn(secret *corev1.Secret, mine metav1.OwnerReference) error {
	const remedy = "delete the Secret, or rename the KubeadmConfig"
	if v := (reference.Claim{Owner: mine, Cluster: s.cluster.Name}).Evaluate(secret); v.Holder != "" {
		return s.refuse("Secret %s/%s, which is to hold the bootstrap data, is held by %s: %s", secret.Namespace, secret.Name, v.Holder, remedy)
	}
	if certs.IsOf(s.cluster.Name, secret.Name) {
		return s.refuse("Secret %s/%s, which is to hold the bootstrap data, is named as one that Cluster %s needs: %s", secret.Namespace, secret.Name, s.cluster.Name, remedy)
	}
	if secret.Type != certs.SecretType {
		return s.refuse("Secret %s/%s, which is to hold the bootstrap data, has the type %s: %s", secret.Namespace, secret.Name, secret.Type, remedy)
	}
	return nil
}

// store writes the data. Older data of the same name is replaced.
func (r *Reconciler) store(ctx context.Context, s *state, data []byte) error {
	ref, err := owner.Controller(s.config, r.Mgmt)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.config.Namespace, Name: s.config.Name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Type: certs.SecretType,
		Data: map[string][]byte{
			valueKey:  data,
			formatKey: []byte(cmp.Or(s.config.Spec.Format, bootstrapv1.CloudConfig)),
		},
	}
	if s.made() { // otherwise it most likely does not exist
		err = r.replace(ctx, s, secret)
	}
	if !s.made() || apierrors.IsNotFound(err) {
		err = r.Mgmt.Create(ctx, secret)
	}
	if apierrors.IsAlreadyExists(err) {
		err = r.replace(ctx, s, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Made bootstrap data", "Secret", secret.Name)
	s.config.Status.DataSecretName = secret.Name
	s.config.Status.Initialization.DataSecretCreated = new(true)
	return nil
}

func (r *Reconciler) replace(ctx context.Context, s *state, want *corev1.Secret) error {
	have := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return err
	}
	if err := s.mayOwn(have, want.OwnerReferences[0]); err != nil {
		return err
	}
	before := have.DeepCopy()
	owner.Set(have, want.OwnerReferences[0])
	metav1.SetMetaDataLabel(&have.ObjectMeta, clusterv1.ClusterNameLabel, s.cluster.Name)
	have.Data = want.Data
	if equality.Semantic.DeepEqual(before, have) {
		return nil
	}
	return r.Mgmt.Update(ctx, have)
}
