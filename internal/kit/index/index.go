// SPDX-License-Identifier: Apache-2.0

// Package index finds the objects of one Cluster in the cache without reading
// those of the others.
package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ClusterName is the field by which the kinds of Kinds can be listed, with
// client.MatchingFields, to get those of one Cluster of a namespace.
const ClusterName = "spec.clusterName"

// ClusterLabel is the same for kinds that name their Cluster only by its label,
// and for which ByLabel was called.
const ClusterLabel = "metadata.labels." + clusterv1.ClusterNameLabel

// Fields by which Machines can be listed too, to get that of a Node.
const (
	ProviderID = "spec.providerID"
	NodeName   = "status.nodeRef.name"
)

// ClusterClass is the field by which Clusters can be listed to get those of one
// class, by its namespace and name.
const ClusterClass = "spec.topology.classRef"

// OfClass returns the class of a Cluster.
func OfClass(obj client.Object) []string {
	if c := obj.(*clusterv1.Cluster); c.Spec.Topology.IsDefined() {
		return []string{c.GetClassKey().String()}
	}
	return nil
}

// Kinds are the kinds that are indexed.
func Kinds() []client.Object {
	return []client.Object{&clusterv1.Machine{}, &clusterv1.MachineSet{}, &clusterv1.MachineDeployment{}, &clusterv1.MachinePool{}, &clusterv1.MachineHealthCheck{}}
}

// Of returns the name of the Cluster of an object of one of the Kinds.
func Of(obj client.Object) []string {
	switch o := obj.(type) {
	case *clusterv1.Machine:
		return []string{o.Spec.ClusterName}
	case *clusterv1.MachineSet:
		return []string{o.Spec.ClusterName}
	case *clusterv1.MachineDeployment:
		return []string{o.Spec.ClusterName}
	case *clusterv1.MachinePool:
		return []string{o.Spec.ClusterName}
	case *clusterv1.MachineHealthCheck:
		return []string{o.Spec.ClusterName}
	}
	return nil
}

// Register creates these indexes. Call it once, before the cache starts.
func Register(ctx context.Context, indexer client.FieldIndexer) error {
	for _, obj := range Kinds() {
		if err := indexer.IndexField(ctx, obj, ClusterName, Of); err != nil {
			return fmt.Errorf("index %T by cluster: %w", obj, err)
		}
	}
	for field, value := range map[string]func(*clusterv1.Machine) string{
		ProviderID: func(m *clusterv1.Machine) string { return m.Spec.ProviderID },
		NodeName:   func(m *clusterv1.Machine) string { return m.Status.NodeRef.Name },
	} {
		err := indexer.IndexField(ctx, &clusterv1.Machine{}, field, func(o client.Object) []string {
			if v := value(o.(*clusterv1.Machine)); v != "" {
				return []string{v}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index Machines by %s: %w", field, err)
		}
	}
	if err := indexer.IndexField(ctx, &clusterv1.Cluster{}, ClusterClass, OfClass); err != nil {
		return fmt.Errorf("index Clusters by class: %w", err)
	}
	return nil
}

// OfLabel returns the name of the Cluster in the label of an object.
func OfLabel(obj client.Object) []string {
	if name := obj.GetLabels()[clusterv1.ClusterNameLabel]; name != "" {
		return []string{name}
	}
	return nil
}

// ByLabel creates the index ClusterLabel of a kind. Call it once, before the cache
// starts.
func ByLabel(ctx context.Context, indexer client.FieldIndexer, obj client.Object) error {
	if err := indexer.IndexField(ctx, obj, ClusterLabel, OfLabel); err != nil {
		return fmt.Errorf("index %T by the label of its cluster: %w", obj, err)
	}
	return nil
}
