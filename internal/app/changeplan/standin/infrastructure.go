// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
)

// infrastructure answers for the infrastructure and bootstrap providers of a copy, of
// any kind, by the contract: what is requested exists after a while, and what is
// deleted disappears.
type infrastructure struct {
	*workloads
	mgmt      client.Client
	providers *provider.Objects
	boot      time.Duration
	due       map[types.UID]time.Time // when machines will be up
	tooMany   error
}

// maxReplicas is how many Machines a copy can have: Kubernetes supports 5,000 Nodes, of which
// some are replaced at a time.
const maxReplicas = 6_000

// act does what the providers do now. It fails before a mistyped number of replicas fills
// the memory.
func (i *infrastructure) act(ctx context.Context, mgmt client.Client) error {
	if i.mgmt == nil {
		i.mgmt, i.providers = mgmt, provider.New(mgmt, nil)
	}
	replicas := 0
	for _, list := range []client.ObjectList{&clusterv1.MachineSetList{}, &clusterv1.ClusterList{}, &clusterv1.MachinePoolList{}, &clusterv1.MachineList{}} {
		if err := mgmt.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
		err := meta.EachListItem(list, func(obj runtime.Object) error {
			switch obj := obj.(type) {
			case *clusterv1.MachineSet:
				return i.limit(&replicas, obj.Spec.Replicas)
			case *clusterv1.Cluster:
				return i.cluster(ctx, obj)
			case *clusterv1.MachinePool:
				if err := i.limit(&replicas, obj.Spec.Replicas); err != nil {
					return err
				}
				return i.pool(ctx, obj)
			case *clusterv1.Machine:
				if err := i.bootstrap(ctx, obj); err != nil {
					return err
				}
				return i.machine(ctx, obj)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// limit adds replicas to those so far, which must not be too many.
func (i *infrastructure) limit(replicas *int, more *int32) error {
	if *replicas += int(ptr.Deref(more, 0)); *replicas > maxReplicas {
		i.tooMany = fmt.Errorf("a plan has at most %d Machines: correct the number of replicas, which are at least %d", maxReplicas, *replicas)
	}
	return i.tooMany
}

// object returns the object that a reference names; nil if there is none.
func (i *infrastructure) object(ctx context.Context, namespace string, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	obj, err := i.providers.Get(ctx, namespace, ref)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return obj.Unstructured.DeepCopy(), nil
}

// finish removes the finalizers of an object that is being deleted. It reports
// whether the object is.
func (i *infrastructure) finish(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if obj.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	if len(obj.GetFinalizers()) == 0 {
		return true, nil
	}
	obj.SetFinalizers(nil)
	return true, client.IgnoreNotFound(i.mgmt.Update(ctx, obj))
}

func provisioned(obj *unstructured.Unstructured) bool {
	by2, _, _ := unstructured.NestedBool(obj.Object, "status", "initialization", "provisioned")
	by1, _, _ := unstructured.NestedBool(obj.Object, "status", "ready")
	return by2 || by1
}

// provision writes a part of spec, and then the status of either contract.
func (i *infrastructure) provision(ctx context.Context, obj *unstructured.Unstructured, value any, fields ...string) error {
	if err := unstructured.SetNestedField(obj.Object, value, fields...); err != nil {
		return err
	}
	if err := i.mgmt.Update(ctx, obj); err != nil {
		return err
	}
	return i.report(ctx, obj, map[string]any{"status.initialization.provisioned": true, "status.ready": true})
}

// report writes fields of the status.
func (i *infrastructure) report(ctx context.Context, obj *unstructured.Unstructured, fields map[string]any) error {
	for path, value := range fields {
		if err := unstructured.SetNestedField(obj.Object, value, strings.Split(path, ".")...); err != nil {
			return err
		}
	}
	return i.mgmt.Status().Update(ctx, obj)
}

// cluster answers for the infrastructure of a Cluster.
func (i *infrastructure) cluster(ctx context.Context, c *clusterv1.Cluster) error {
	obj, err := i.object(ctx, c.Namespace, c.Spec.InfrastructureRef)
	if obj == nil || err != nil {
		return err
	}
	if going, err := i.finish(ctx, obj); going || err != nil {
		return err
	}
	if provisioned(obj) || len(obj.GetOwnerReferences()) == 0 {
		return nil
	}
	endpoint := map[string]any{"host": c.Name + ".invalid", "port": int64(6443)}
	if host, _, _ := unstructured.NestedString(obj.Object, "spec", "controlPlaneEndpoint", "host"); host != "" {
		endpoint, _, _ = unstructured.NestedMap(obj.Object, "spec", "controlPlaneEndpoint")
	}
	return i.provision(ctx, obj, endpoint, "spec", "controlPlaneEndpoint")
}

// machine answers for the infrastructure of a Machine: it boots once its bootstrap
// data exists, and is a Node of the workload cluster then.
func (i *infrastructure) machine(ctx context.Context, m *clusterv1.Machine) error {
	obj, err := i.object(ctx, m.Namespace, m.Spec.InfrastructureRef)
	if obj == nil || err != nil {
		return err
	}
	c := i.get(client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName})
	if !obj.GetDeletionTimestamp().IsZero() {
		node := m.Status.NodeRef.Name
		if node == "" {
			node = obj.GetName()
		}
		if err := c.leave(ctx, node); err != nil {
			return err
		}
		_, err := i.finish(ctx, obj)
		return err
	}
	if provisioned(obj) || m.Spec.Bootstrap.DataSecretName == nil {
		return nil
	}
	due, known := i.due[obj.GetUID()]
	if !known {
		i.due[obj.GetUID()] = i.clock.Now().Add(i.boot)
		i.clock.Await(i.boot)
		return nil
	}
	if i.clock.Now().Before(due) {
		return nil
	}
	id := "planned://" + m.Namespace + "/" + m.Spec.ClusterName + "/" + obj.GetName()
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	if err := c.add(ctx, c.newNode(obj.GetName(), id, m.Spec.Version, controlPlane), controlPlane); err != nil {
		return err
	}
	return i.provision(ctx, obj, id, "spec", "providerID")
}

// bootstrap answers for a bootstrap provider other than kubeadm's: its data exists
// immediately.
func (i *infrastructure) bootstrap(ctx context.Context, m *clusterv1.Machine) error {
	ref := m.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() || ref.APIGroup == bootstrapv1.GroupVersion().Group {
		return nil
	}
	obj, err := i.object(ctx, m.Namespace, ref)
	if obj == nil || err != nil {
		return err
	}
	if going, err := i.finish(ctx, obj); going || err != nil {
		return err
	}
	if name, _, _ := unstructured.NestedString(obj.Object, "status", "dataSecretName"); name != "" {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: obj.GetName(), Labels: map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName},
	}, Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte("planned")}}
	if err := i.mgmt.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return i.report(ctx, obj, map[string]any{"status.dataSecretName": secret.Name, "status.initialization.dataSecretCreated": true, "status.ready": true})
}
