// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/machinepool"
)

// pool answers for the infrastructure of a MachinePool that has a machine for each
// replica: more replicas get machines, and a deleted pool disappears once it has none.
// Which machines a provider deletes, and which it replaces, is its own decision.
func (i *infrastructure) pool(ctx context.Context, p *clusterv1.MachinePool) error {
	obj, err := i.object(ctx, p.Namespace, p.Spec.Template.Spec.InfrastructureRef)
	if obj == nil || err != nil {
		return err
	}
	kind, _, _ := unstructured.NestedString(obj.Object, "status", "infrastructureMachineKind")
	if kind == "" {
		_, err := i.finish(ctx, obj)
		return err
	}
	hosts, err := i.providers.List(ctx, schema.GroupKind{Group: obj.GroupVersionKind().Group, Kind: kind}, p.Namespace, clusterv1.MachinePoolNameLabel, client.MatchingLabels{
		clusterv1.ClusterNameLabel: p.Spec.ClusterName, clusterv1.MachinePoolNameLabel: machinepool.NameLabel(p),
	})
	if err != nil {
		return err
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		if len(hosts) == 0 {
			_, err = i.finish(ctx, obj)
		}
		return err
	}
	for n, number := len(hosts), 1; n < int(ptr.Deref(p.Spec.Replicas, 0)); n++ {
		if number, err = i.createHost(ctx, p, obj, kind, number); err != nil {
			return err
		}
	}
	return i.count(ctx, obj, hosts)
}

// createHost creates an infrastructure machine of a pool, with the first number from n that
// is free, and returns the next one.
func (i *infrastructure) createHost(ctx context.Context, p *clusterv1.MachinePool, of *unstructured.Unstructured, kind string, n int) (int, error) {
	k, err := i.providers.Kind(ctx, schema.GroupKind{Group: of.GroupVersionKind().Group, Kind: kind})
	if err != nil {
		return n, err
	}
	for ; ; n++ {
		host := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		host.SetGroupVersionKind(k.GroupVersionKind)
		host.SetNamespace(p.Namespace)
		host.SetName(fmt.Sprintf("%s-%d", of.GetName(), n))
		host.SetLabels(map[string]string{clusterv1.ClusterNameLabel: p.Spec.ClusterName, clusterv1.MachinePoolNameLabel: machinepool.NameLabel(p)})
		host.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(of, of.GroupVersionKind())})
		if err := i.mgmt.Create(ctx, host); !apierrors.IsAlreadyExists(err) {
			return n + 1, err
		}
	}
}

// count reports the machines of a pool: those that it lists and that exist stay in
// their order.
func (i *infrastructure) count(ctx context.Context, of *unstructured.Unstructured, hosts []unstructured.Unstructured) error {
	listed, _, _ := unstructured.NestedStringSlice(of.Object, "spec", "providerIDList")
	var ids []string
	for n := range hosts {
		if id, _, _ := unstructured.NestedString(hosts[n].Object, "spec", "providerID"); id != "" {
			ids = append(ids, id)
		}
	}
	next := slices.DeleteFunc(slices.Clone(listed), func(id string) bool { return !slices.Contains(ids, id) })
	for _, id := range ids {
		if !slices.Contains(next, id) {
			next = append(next, id)
		}
	}
	if slices.Equal(listed, next) {
		return nil
	}
	if err := unstructured.SetNestedStringSlice(of.Object, next, "spec", "providerIDList"); err != nil {
		return err
	}
	if err := i.mgmt.Update(ctx, of); err != nil {
		return err
	}
	return i.report(ctx, of, map[string]any{"status.replicas": int64(len(next))})
}
