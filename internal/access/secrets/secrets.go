// SPDX-License-Identifier: Apache-2.0

// Package secrets finds the Secrets in which the certificates and the
// kubeconfig of a Cluster lie, whoever made them. They are known by their
// names; the cache shows those that carry the cluster-name label.
package secrets

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Get reads a Secret from the cache. References to owners that bear an earlier
// UID, as after a restore, are healed. Not found is told by the error.
func (s Store) Get(ctx context.Context, cluster *clusterv1.Cluster, purpose certs.Purpose, owners ...client.Object) (*corev1.Secret, error) {
	return s.read(ctx, s.Mgmt, cluster, purpose, owners)
}

// Find is Get, and asks the API server when the cache shows none. What it finds
// there gets the label, so that from then on its changes wake who waits.
func (s Store) Find(ctx context.Context, cluster *clusterv1.Cluster, purpose certs.Purpose, owners ...client.Object) (*corev1.Secret, error) {
	secret, err := s.Get(ctx, cluster, purpose, owners...)
	if apierrors.IsNotFound(err) {
		return s.read(ctx, s.Live, cluster, purpose, owners)
	}
	return secret, err
}

func (s Store) read(ctx context.Context, from client.Reader, cluster *clusterv1.Cluster, purpose certs.Purpose, owners []client.Object) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: certs.SecretName(cluster.Name, purpose)}
	secret := &corev1.Secret{}
	if err := from.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	if err := free(secret, cluster); err != nil {
		return nil, err
	}
	healed := secret.DeepCopy()
	changed, err := s.heal(healed, append(owners, cluster))
	if err != nil {
		return nil, err
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

// heal gives references to owners, known by kind and name, the UIDs that they
// have now.
func (s Store) heal(secret *corev1.Secret, owners []client.Object) (changed bool, err error) {
	refs := slices.Clone(secret.OwnerReferences)
	for _, o := range owners {
		now, err := owner.Reference(o, s.Mgmt)
		if err != nil {
			return false, err
		}
		for i, r := range refs {
			if r.Kind == now.Kind && r.Name == now.Name && group(r) == group(now) && r.UID != now.UID {
				refs[i].UID, changed = now.UID, true
			}
		}
	}
	secret.OwnerReferences = refs
	return changed, nil
}

func group(r metav1.OwnerReference) string {
	gv, _ := schema.ParseGroupVersion(r.APIVersion) // of none it is empty
	return gv.Group
}
