// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
)

// groupLabel selects the add-ons of a cluster.
const groupLabel = "addons"

// maxSets is how many ClusterResourceSets can be applied to one Cluster.
const maxSets = 100

// addons has ClusterResourceSets applied to the existing clusters: all to each,
// or, if that is more than a Cluster can have, an equal part of them.
func (b *bench) addons(ctx context.Context, r *Result) error {
	n := b.scenario.ResourceSets
	if n == 0 {
		return nil
	}
	groups := (n + maxSets - 1) / maxSets
	for i := range n {
		if err := b.createSet(ctx, fmt.Sprintf("addon-%04d", i), fmt.Sprint(i%groups)); err != nil {
			return err
		}
	}
	var clusters clusterv1.ClusterList
	if err := b.mgmt.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	before, err := b.settled(ctx)
	if err != nil {
		return err
	}
	begin, want := time.Now(), 0
	for i := range clusters.Items {
		group := i % groups
		want += (n - group + groups - 1) / groups
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, groupLabel, group))
		if err := b.mgmt.Patch(ctx, &clusters.Items[i], patch); err != nil {
			return fmt.Errorf("label Cluster %s: %w", clusters.Items[i].Name, err)
		}
	}
	if err := b.allApplied(ctx, want); err != nil {
		return err
	}
	r.Addons.Applied, r.Addons.Seconds = want, round(time.Since(begin).Seconds())
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	q := after.requests.Since(before.requests)
	r.Addons.CPUSeconds = round(after.cpu - before.cpu)
	r.Addons.Requests, r.Addons.RequestsPerCluster = q.Sum(planes.Counted), round(q.Sum(planes.Counted)/float64(len(clusters.Items)))
	r.Addons.Conflicts, r.Addons.ByVerbAndResource = q.Sum(planes.IsConflict), q.Counts(planes.Counted)
	return nil
}

// createSet creates an add-on of one object, for the clusters of a group.
func (b *bench) createSet(ctx context.Context, name, group string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	set := &addonsv1.ClusterResourceSet{ObjectMeta: meta}
	set.Spec.ClusterSelector.MatchLabels = map[string]string{groupLabel: group}
	set.Spec.Resources = []addonsv1.ResourceRef{{Kind: addonsv1.ConfigMapClusterResourceSetResourceKind, Name: name}}
	set.Spec.Strategy = addonsv1.ClusterResourceSetStrategyReconcile
	payload := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"it": "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}}"}}
	for _, obj := range []client.Object{payload, set} {
		if err := b.mgmt.Create(ctx, obj); err != nil {
			return fmt.Errorf("create %T %s: %w", obj, name, err)
		}
	}
	return nil
}

// allApplied waits until the bindings report that so many resources are applied.
func (b *bench) allApplied(ctx context.Context, want int) error {
	for {
		var bindings addonsv1.ClusterResourceSetBindingList
		if err := b.mgmt.List(ctx, &bindings, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list ClusterResourceSetBindings: %w", err)
		}
		have := 0
		for _, binding := range bindings.Items {
			for _, entry := range binding.Spec.Bindings {
				for _, resource := range entry.Resources {
					if resource.Applied != nil && *resource.Applied {
						have++
					}
				}
			}
		}
		if have == want {
			return nil
		}
		if err := planes.Pause(ctx, 10*lookAgain); err != nil {
			return fmt.Errorf("%d of %d resources are applied: %w", have, want, err)
		}
	}
}
