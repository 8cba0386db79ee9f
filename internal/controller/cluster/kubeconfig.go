// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/secrets"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// kubeconfig creates the admin kubeconfig of a Cluster without a control plane
// object, from the certificate authority that its bootstrap provider created.
func (r *Reconciler) kubeconfig(ctx context.Context, s *state) (reconciler.Next, error) {
	c := s.cluster
	if s.controlPlane.Ref.IsDefined() || c.Spec.Topology.IsDefined() || !c.Spec.ControlPlaneEndpoint.IsValid() {
		return reconciler.Continue(), nil
	}
	key := client.ObjectKeyFromObject(c)
	store := secrets.Store{Mgmt: r.Mgmt, Live: r.Live}
	_, err := store.Find(ctx, c, certs.Kubeconfig, nil)
	if err == nil || !apierrors.IsNotFound(err) {
		return reconciler.Continue(), err
	}
	secret, err := store.Find(ctx, c, certs.CA, nil)
	if apierrors.IsNotFound(err) {
		return reconciler.RequeueAfter(secrets.Interval), nil // its bootstrap provider, or a user, has to create one of the two
	}
	if err != nil {
		return reconciler.Continue(), err
	}
	authority, err := certs.WithKey(secret, certs.CA)
	if err != nil {
		return reconciler.Continue(), err
	}
	data, err := kubeconfig.New(kubeconfig.Options{
		Cluster: key.Name, Server: "https://" + c.Spec.ControlPlaneEndpoint.String(), CA: authority, Algorithm: certs.Chosen(""), Now: s.now,
	})
	if err != nil {
		return reconciler.Continue(), fmt.Errorf("make kubeconfig: %w", err)
	}
	mine, err := owner.Reference(c, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	ctrl.LoggerFrom(ctx).Info("Creating the kubeconfig Secret")
	if err := r.Mgmt.Create(ctx, kubeconfig.Secret(key, data, &mine)); err != nil && !apierrors.IsAlreadyExists(err) {
		return reconciler.Continue(), fmt.Errorf("create kubeconfig Secret: %w", err)
	}
	return reconciler.Continue(), nil
}
