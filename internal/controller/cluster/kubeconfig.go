// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/phase"
)

// kubeconfig makes the admin kubeconfig of a Cluster without a control plane
// object, from the certificate authority that its bootstrap provider made.
func (r *Reconciler) kubeconfig(ctx context.Context, s *state) (phase.Next, error) {
	c := s.cluster
	if s.controlPlane.Ref.IsDefined() || c.Spec.Topology.IsDefined() || !c.Spec.ControlPlaneEndpoint.IsValid() {
		return phase.Continue(), nil
	}
	key := client.ObjectKeyFromObject(c)
	secret := &corev1.Secret{}
	err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: certs.SecretName(key.Name, certs.Kubeconfig)}, secret)
	if err == nil || !apierrors.IsNotFound(err) {
		return phase.Continue(), err
	}
	err = r.Mgmt.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: certs.SecretName(key.Name, certs.CA)}, secret)
	if apierrors.IsNotFound(err) {
		return phase.Continue(), nil // its bootstrap provider has yet to make it; the first Machine wakes us
	}
	if err != nil {
		return phase.Continue(), fmt.Errorf("get certificate authority: %w", err)
	}
	authority, err := certs.FromSecret(secret, certs.CA)
	if err != nil {
		return phase.Continue(), err
	}
	data, err := kubeconfig.New(kubeconfig.Options{
		Cluster: key.Name, Server: "https://" + c.Spec.ControlPlaneEndpoint.String(), CA: authority, Now: s.now,
	})
	if err != nil {
		return phase.Continue(), fmt.Errorf("make kubeconfig: %w", err)
	}
	mine, err := owner.Reference(c, r.Mgmt)
	if err != nil {
		return phase.Continue(), err
	}
	ctrl.LoggerFrom(ctx).Info("Creating the kubeconfig Secret")
	if err := r.Mgmt.Create(ctx, kubeconfig.Secret(key, data, &mine)); err != nil && !apierrors.IsAlreadyExists(err) {
		return phase.Continue(), fmt.Errorf("create kubeconfig Secret: %w", err)
	}
	return phase.Continue(), nil
}
