// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// resourceSets reads the ClusterResourceSets of the namespace, the binding of the Cluster,
// and what is applied to the Cluster as it is and as with has it.
func (s *shardReader) resourceSets(ctx context.Context, with []client.Object) error {
	before := len(s.Objects)
	err := s.list(ctx, &addonsv1.ClusterResourceSetList{})
	if err == nil {
		err = s.get(ctx, &addonsv1.ClusterResourceSetBinding{}, s.Cluster)
	}
	if apierrors.IsForbidden(err) {
		s.Objects = s.Objects[:before]
		s.Unread = append(s.Unread, "ClusterResourceSets and their bindings may not be read: what is applied to the workload cluster is not predicted")
		return nil
	}
	if err != nil {
		return err
	}
	all := slices.Concat(s.Objects, with)
	for _, obj := range all {
		set, is := obj.(*addonsv1.ClusterResourceSet)
		if !is || !slices.ContainsFunc(all, func(o client.Object) bool {
			c, is := o.(*clusterv1.Cluster)
			return is && c.Namespace == set.Namespace && c.Name == s.Cluster.Name && resourceset.Selects(set, c)
		}) {
			continue
		}
		for _, ref := range set.Spec.Resources {
			var payload client.Object = &corev1.ConfigMap{}
			if ref.Kind == addonsv1.SecretClusterResourceSetResourceKind {
				payload = &corev1.Secret{}
			}
			switch err := s.get(ctx, payload, client.ObjectKey{Namespace: set.Namespace, Name: ref.Name}); {
			case apierrors.IsForbidden(err):
				s.Unread = append(s.Unread, fmt.Sprintf("%s %s of ClusterResourceSet %s may not be read: whether it is applied to the workload cluster is not predicted", ref.Kind, ref.Name, set.Name))
			case err != nil:
				return err
			}
		}
	}
	return nil
}
