// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/manifests"
)

// part is one provider as clusterctl has them.
type part struct {
	provider string // of ours, that runs it
	label    string // on CRDs and roles, and the name of the object
	name     string
	kind     clusterctlv1.ProviderType
}

// inventory is what clusterctl knows the parts of Capstan's providers as.
var inventory = []part{
	{"core", "cluster-api", "cluster-api", clusterctlv1.CoreProviderType},
	{"kubeadm", "bootstrap-kubeadm", "kubeadm", clusterctlv1.BootstrapProviderType},
	{"kubeadm", "control-plane-kubeadm", "kubeadm", clusterctlv1.ControlPlaneProviderType},
	{"local", "infrastructure-local", "local", clusterctlv1.InfrastructureProviderType},
}

var (
	providersResource = clusterctlv1.GroupVersion().WithResource("providers")
	namespaces        = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// writeInventory has clusterctl find the providers that run, which it asks
// before a move or an upgrade. What is as it should be is not written.
func writeInventory(ctx context.Context, cfg *rest.Config, running []string) error {
	c, err := dynamic.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "capstan-install"))
	if err != nil {
		return err
	}
	return syncInventory(ctx, c, running)
}

func syncInventory(ctx context.Context, c dynamic.Interface, running []string) error {
	objects := c.Resource(providersResource).Namespace(manifests.Namespace)
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Providers: %w", err)
	}
	live := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		live[list.Items[i].GetName()] = &list.Items[i]
	}
	if len(list.Items) == 0 {
		if err := ensureNamespace(ctx, c); err != nil {
			return err
		}
	}
	for _, p := range inventory {
		if err := p.sync(ctx, objects, live[p.label], slices.Contains(running, p.provider)); err != nil {
			return fmt.Errorf("write Provider %s/%s of the inventory: %w", manifests.Namespace, p.label, err)
		}
	}
	return nil
}

func ensureNamespace(ctx context.Context, c dynamic.Interface) error {
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	ns.SetName(manifests.Namespace)
	_, err := c.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{FieldManager: "capstan"})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", manifests.Namespace, err)
	}
	return nil
}

// sync writes what differs; a part that does not run is taken away.
func (p part) sync(ctx context.Context, c dynamic.ResourceInterface, live *unstructured.Unstructured, runs bool) error {
	if live == nil {
		if !runs {
			return nil
		}
		_, err := c.Create(ctx, p.written(&unstructured.Unstructured{}), metav1.CreateOptions{FieldManager: "capstan"})
		return err
	}
	if !runs {
		err := c.Delete(ctx, p.label, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	update := p.written(live.DeepCopy())
	if equality.Semantic.DeepEqual(live, update) {
		return nil
	}
	_, err := c.Update(ctx, update, metav1.UpdateOptions{FieldManager: "capstan"})
	return err
}

// written is obj with all that clusterctl writes of a provider.
func (p part) written(obj *unstructured.Unstructured) *unstructured.Unstructured {
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	obj.SetGroupVersionKind(clusterctlv1.GroupVersion().WithKind("Provider"))
	obj.SetNamespace(manifests.Namespace)
	obj.SetName(p.label)
	obj.SetLabels(merge(obj.GetLabels(), map[string]string{
		clusterctlv1.ClusterctlLabel:     "",
		clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue,
		clusterv1.ProviderNameLabel:      p.label,
	}))
	obj.Object["providerName"], obj.Object["type"], obj.Object["version"] = p.name, string(p.kind), manifests.Release
	return obj
}
