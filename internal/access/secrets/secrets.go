// SPDX-License-Identifier: Apache-2.0

// Package secrets finds the Secrets in which the certificates and the
// kubeconfig of a Cluster lie, whoever made them. They are known by their
// names; the cache shows those that carry the cluster-name label.
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
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// Interval is how often a Secret that a user has to bring is looked for. While
// it lacks the label no watch of ours shows it, and to watch the Secrets of all
// namespaces for the few that lack it would take memory and rights.
const Interval = 30 * time.Second

// Store reads Secrets of Clusters.
type Store struct {
	Mgmt client.Client // with a cache of what carries the label
	Live client.Reader // without one
}

// Get reads a Secret from the cache. References to owners that have an earlier UID
// or version are healed, and controller, which may be nil, controls what has the type
// of Cluster API's own Secrets, as upstream: a restore or a tool can lose references.
// Not found is told by the error.
func (s Store) Get(ctx context.Context, cluster *clusterv1.Cluster, purpose certs.Purpose, controller client.Object) (*corev1.Secret, error) {
	return s.read(ctx, s.Mgmt, cluster, purpose, controller)
}

// Find is Get, and asks the API server when the cache shows none. What it finds
// there gets the label, so that from then on its changes wake who waits.
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

// free refuses a Secret that another holds: all of a Cluster may use what the
// Cluster or its control plane has.
func free(secret *corev1.Secret, cluster *clusterv1.Cluster) error {
	c := claim.ByCluster(cluster)
	if ref := cluster.Spec.ControlPlaneRef; ref.IsDefined() {
		c.Maker = &metav1.OwnerReference{APIVersion: ref.APIGroup + "/", Kind: ref.Kind, Name: ref.Name} // whatever the version
	}
	if v := c.Judge(secret); v.Holder != "" {
		return fmt.Errorf("secret %s/%s, which Cluster %s needs, is held by %s: delete it, or remove that owner or label", secret.Namespace, secret.Name, cluster.Name, v.Holder)
	}
	return nil
}

// control makes the owner of a reference the controller of a Secret of Cluster API's
// own type, if it has none. Of other Secrets, and of those that something else
// controls, the reference is healed.
func control(secret *corev1.Secret, ref metav1.OwnerReference) bool {
	by := metav1.GetControllerOfNoCopy(secret)
	if secret.Type != certs.SecretType || by != nil && !owner.Same(*by, ref) {
		return owner.Heal(secret, ref)
	}
	return owner.Set(secret, ref)
}
