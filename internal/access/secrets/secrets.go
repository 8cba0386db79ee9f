// SPDX-License-Identifier: Apache-2.0

// Package secrets finds the Secrets with the certificates and the kubeconfig of a
// Cluster, regardless of their creator. It finds them by their names; the cache
// holds those with the cluster-name label.
package secrets

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Interval is how often a Secret that a user must provide is read. While it lacks
// the label, no watch of ours shows it, and watching the Secrets of all namespaces
// for the few without the label would take memory and permissions.
const Interval = 30 * time.Second

// Store reads Secrets of Clusters.
type Store struct {
	Mgmt client.Client // its cache holds objects with the label
	Live client.Reader // without a cache
}

// Get reads a Secret from the cache. It corrects references to owners that have an
// earlier UID or version, and makes controller, which may be nil, the controller of
// Secrets of Cluster API's own type, as upstream: a restore or a tool can lose
// references. If the Secret is not found, the error is a NotFound error.
func (s Store) Get(ctx context.Context, cluster *clusterv1.Cluster, purpose certs.Purpose, controller client.Object) (*corev1.Secret, error) {
	return s.read(ctx, s.Mgmt, cluster, purpose, controller)
}

// Find is Get, but reads from the API server if the cache has no such Secret. A
// Secret that it finds there gets the label, so that its changes trigger reconciles
// from then on.
func (s Store) Find(ctx context.Context, cluster *clusterv1.Cluster, purpose certs.Purpose, controller client.Object) (*corev1.Secret, error) {
	secret, err := s.Get(ctx, cluster, purpose, controller)
	if apierrors.IsNotFound(err) {
		return s.read(ctx, s.Live, cluster, purpose, controller)
	}
	return secret, err
}

func (s Store) read(ctx context.Context, from client.Reader, cluster *clusterv1.Cluster, purpose certs.Purpose, controller client.Object) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: certs.SecretName(cluster.Name, purpose)}
	secret := &corev1.Secret{}
	if err := from.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	if err := free(secret, cluster); err != nil {
		return nil, err
	}
	healed := secret.DeepCopy()
	changed := owner.Heal(healed, owner.OfCluster(cluster))
	if controller != nil {
		ref, err := owner.Controller(controller, s.Mgmt)
		if err != nil {
			return nil, err
		}
		changed = control(healed, ref) || changed
	}
	if labelled := owner.Label(healed, cluster.Name); !labelled && !changed {
		return secret, nil
	}
	if err := s.Mgmt.Patch(ctx, healed, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("label Secret %s and heal its owners: %w", key, err)
	}
	return healed, nil
}

// free refuses a Secret that another object holds: all objects of a Cluster may use
// Secrets of the Cluster or its control plane.
func free(secret *corev1.Secret, cluster *clusterv1.Cluster) error {
	c := reference.ByCluster(cluster)
	if ref := cluster.Spec.ControlPlaneRef; ref.IsDefined() {
		c.Maker = &metav1.OwnerReference{APIVersion: ref.APIGroup + "/", Kind: ref.Kind, Name: ref.Name} // of any version
	}
	if v := c.Evaluate(secret); v.Holder != "" {
		return fmt.Errorf("secret %s/%s, which Cluster %s needs, is held by %s: delete it, or remove that owner or label", secret.Namespace, secret.Name, cluster.Name, v.Holder)
	}
	return nil
}

// control makes the owner of a reference the controller of a Secret of Cluster
// API's own type, if it has none. For other Secrets, and for those with another
// controller, it corrects the reference.
func control(secret *corev1.Secret, ref metav1.OwnerReference) bool {
	by := metav1.GetControllerOfNoCopy(secret)
	if secret.Type != certs.SecretType || by != nil && !owner.Same(*by, ref) {
		return owner.Heal(secret, ref)
	}
	return owner.Set(secret, ref)
}
