// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// core has the behavior of the core controllers that providers see: it owns what
// Clusters, Machines and MachinePools refer to, forwards what that reports, and deletes
// it before them.
type core struct{ client client.WithWatch }

func (c *core) observe(ctx context.Context, namespace string) error {
	var clusters clusterv1.ClusterList
	var machines clusterv1.MachineList
	var pools clusterv1.MachinePoolList
	for _, list := range []client.ObjectList{&clusters, &machines, &pools} {
		if err := c.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	paused := map[string]bool{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if paused[cluster.Name] = ptr.Deref(cluster.Spec.Paused, false); paused[cluster.Name] {
			continue
		}
		first := slices.DeleteFunc(slices.Clone(machines.Items), func(m clusterv1.Machine) bool { return m.Spec.ClusterName != cluster.Name })
		if err := c.cluster(ctx, cluster, first); err != nil {
			return err
		}
	}
	for i := range machines.Items {
		if m := &machines.Items[i]; !paused[m.Spec.ClusterName] {
			if err := c.machine(ctx, m); err != nil {
				return err
			}
		}
	}
	for i := range pools.Items {
		if p := &pools.Items[i]; !paused[p.Spec.ClusterName] {
			if err := c.pool(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *core) cluster(ctx context.Context, cluster *clusterv1.Cluster, machines []clusterv1.Machine) error {
	infra, plane, err := c.pair(ctx, cluster, cluster.Spec.InfrastructureRef, cluster.Spec.ControlPlaneRef)
	if err != nil {
		return err
	}
	if !cluster.DeletionTimestamp.IsZero() {
		if plane != nil { // it deletes its own, and those are deleted with it
			machines = slices.DeleteFunc(machines, func(m clusterv1.Machine) bool { return metav1.GetControllerOf(&m) != nil })
		}
		for i := range machines {
			if err := c.delete(ctx, &machines[i]); err != nil {
				return err
			}
		}
		return c.end(ctx, cluster, len(machines) > 0, plane, infra)
	}
	if err := c.own(ctx, cluster, infra, plane); err != nil {
		return err
	}
	return c.change(ctx, cluster, func() {
		for _, from := range []*unstructured.Unstructured{infra, plane} {
			if host := text(from, "spec", "controlPlaneEndpoint", "host"); host != "" && cluster.Spec.ControlPlaneEndpoint.Host == "" && (done(from, "provisioned") || done(from, "controlPlaneInitialized")) {
				port, _, _ := unstructured.NestedInt64(from.Object, "spec", "controlPlaneEndpoint", "port")
				cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: int32(port)}
			}
		}
	}, func() {
		init := &cluster.Status.Initialization
		if done(infra, "provisioned") || infra == nil && !cluster.Spec.InfrastructureRef.IsDefined() {
			init.InfrastructureProvisioned = new(true)
		}
		if done(plane, "controlPlaneInitialized") {
			init.ControlPlaneInitialized = new(true)
		}
		if infra == nil {
			return
		}
		cluster.Status.FailureDomains = nil
		domains, _, _ := unstructured.NestedSlice(infra.Object, "status", "failureDomains")
		for _, d := range domains {
			name, _ := d.(map[string]any)["name"].(string)
			of, _ := d.(map[string]any)["controlPlane"].(bool)
			cluster.Status.FailureDomains = append(cluster.Status.FailureDomains, clusterv1.FailureDomain{Name: name, ControlPlane: &of})
		}
	})
}

func (c *core) machine(ctx context.Context, m *clusterv1.Machine) error {
	infra, config, err := c.pair(ctx, m, m.Spec.InfrastructureRef, m.Spec.Bootstrap.ConfigRef)
	if err != nil || !m.DeletionTimestamp.IsZero() {
		return c.orEnd(ctx, err, m, infra, config)
	}
	if err := c.own(ctx, m, infra, config); err != nil {
		return err
	}
	return c.change(ctx, m, func() { takeData(&m.Spec.Bootstrap, config) }, nothingMore)
}

func (c *core) pool(ctx context.Context, p *clusterv1.MachinePool) error {
	spec := &p.Spec.Template.Spec
	infra, config, err := c.pair(ctx, p, spec.InfrastructureRef, spec.Bootstrap.ConfigRef)
	if err != nil || !p.DeletionTimestamp.IsZero() {
		return c.orEnd(ctx, err, p, infra, config)
	}
	if err := c.own(ctx, p, infra, config); err != nil {
		return err
	}
	return c.change(ctx, p, func() { takeData(&spec.Bootstrap, config) }, nothingMore)
}

func (c *core) orEnd(ctx context.Context, err error, obj client.Object, of ...*unstructured.Unstructured) error {
	if err != nil {
		return err
	}
	return c.end(ctx, obj, false, of...)
}

func nothingMore() {}

// takeData copies the name of the Secret.
func takeData(b *clusterv1.Bootstrap, config *unstructured.Unstructured) {
	if name := text(config, "status", "dataSecretName"); name != "" && done(config, "dataSecretCreated") {
		b.DataSecretName = &name
	}
}

// done reports whether an object has a status of done, in any version of the contract.
func done(obj *unstructured.Unstructured, field string) bool {
	if obj == nil {
		return false
	}
	now, _, _ := unstructured.NestedBool(obj.Object, "status", "initialization", field)
	ready, _, _ := unstructured.NestedBool(obj.Object, "status", "ready")
	initialized, _, _ := unstructured.NestedBool(obj.Object, "status", "initialized")
	return now || ready || initialized
}

// pair reads what an object refers to; nil if it does not exist.
func (c *core) pair(ctx context.Context, of client.Object, a, b clusterv1.ContractVersionedObjectReference) (first, second *unstructured.Unstructured, err error) {
	if first, err = c.read(ctx, of, a); err == nil {
		second, err = c.read(ctx, of, b)
	}
	return first, second, err
}

func (c *core) read(ctx context.Context, of client.Object, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: ref.APIGroup, Version: "v1", Kind: ref.Kind})
	err := c.client.Get(ctx, client.ObjectKey{Namespace: of.GetNamespace(), Name: ref.Name}, obj)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return obj, nil
}

const coreFinalizer = "example.com/core"

// own sets the owner on what it refers to.
func (c *core) own(ctx context.Context, owner client.Object, of ...*unstructured.Unstructured) error {
	if !slices.Contains(owner.GetFinalizers(), coreFinalizer) {
		controllerutil.AddFinalizer(owner, coreFinalizer)
		if err := c.client.Update(ctx, owner); err != nil {
			return err
		}
	}
	kind, err := c.client.GroupVersionKindFor(owner)
	if err != nil {
		return err
	}
	for _, obj := range of {
		if obj == nil || len(obj.GetOwnerReferences()) > 0 {
			continue
		}
		obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)})
		if err := c.client.Update(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// end deletes what an object refers to, and then removes its finalizer.
func (c *core) end(ctx context.Context, obj client.Object, wait bool, of ...*unstructured.Unstructured) error {
	for _, o := range of {
		if wait || o == nil {
			continue
		}
		wait = true
		if err := c.delete(ctx, o); err != nil {
			return err
		}
	}
	if wait {
		return nil
	}
	controllerutil.RemoveFinalizer(obj, coreFinalizer)
	return c.client.Update(ctx, obj)
}

func (c *core) delete(ctx context.Context, obj client.Object) error {
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return client.IgnoreNotFound(c.client.Delete(ctx, obj))
}

// change writes what changes.
func (c *core) change(ctx context.Context, obj client.Object, spec, status func()) error {
	before := obj.DeepCopyObject().(client.Object)
	if spec(); !reflect.DeepEqual(before, obj) {
		if err := c.client.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	before = obj.DeepCopyObject().(client.Object)
	if status(); reflect.DeepEqual(before, obj) {
		return nil
	}
	return c.client.Status().Patch(ctx, obj, client.MergeFrom(before))
}
