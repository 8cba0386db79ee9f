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
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/manifests"
)

// part is one provider in clusterctl's inventory.
type part struct {
	provider string // of Capstan, that runs it
	label    string // on CRDs and roles, and the name of the object
	name     string
	kind     clusterctlv1.ProviderType
	// byManager is set if capstan-manager runs it, and no plane does.
	byManager bool
}

// inventory has the names in clusterctl of the parts of Capstan's providers.
var inventory = []part{
	{provider: "core", label: "cluster-api", name: "cluster-api", kind: clusterctlv1.CoreProviderType},
	{provider: "kubeadm", label: "bootstrap-kubeadm", name: "kubeadm", kind: clusterctlv1.BootstrapProviderType},
	{provider: "kubeadm", label: "control-plane-kubeadm", name: "kubeadm", kind: clusterctlv1.ControlPlaneProviderType},
	{provider: "local", label: "infrastructure-local", name: "local", kind: clusterctlv1.InfrastructureProviderType},
}

var (
	providersResource = clusterctlv1.GroupVersion().WithResource("providers")
	namespaces        = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// Inventory records the providers that a manager runs in clusterctl's inventory, in
// a cluster whose definitions Install has updated.
func Inventory(ctx context.Context, cfg *rest.Config, running []string) error {
	c, err := dynamic.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "capstan-install"))
	if err != nil {
		return err
	}
	return withReplicas(func() error { return noteManager(ctx, c, running) })
}

// writeInventory records the running providers in clusterctl's inventory, which
// clusterctl reads before a move or an upgrade. Entries that are up to date are not
// written.
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
	if apierrors.IsNotFound(err) && !controllers.ClusterAPI(running) {
		return nil // the definition of Providers does not belong to this plane either
	}
	if err != nil {
		return fmt.Errorf("list Providers: %w", err)
	}
	live := byName(list.Items)
	if len(list.Items) == 0 && controllers.ClusterAPI(running) {
		if err := ensureNamespace(ctx, c); err != nil {
			return err
		}
	}
	for _, p := range inventory {
		runs, there := slices.Contains(running, p.provider), live[p.label]
		if !runs && there != nil && manifests.RunByManager(there.GetAnnotations()) {
			continue // a separate manager runs it
		}
		if err := p.sync(ctx, objects, there, runs); err != nil {
			return fmt.Errorf("write Provider %s/%s of the inventory: %w", manifests.Namespace, p.label, err)
		}
	}
	return nil
}

func byName(items []unstructured.Unstructured) map[string]*unstructured.Unstructured {
	named := map[string]*unstructured.Unstructured{}
	for i := range items {
		named[items[i].GetName()] = &items[i]
	}
	return named
}

// noteManager records the providers that a manager runs in clusterctl's inventory,
// so that clusterctl does not install upstream's as well. Entries of others stay:
// those of planes, those that clusterctl wrote for a manager, and those of other
// managers, so that nothing is removed.
func noteManager(ctx context.Context, c dynamic.Interface, running []string) error {
	list, err := c.Resource(providersResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Providers: %w", err)
	}
	ensured, live := false, byName(list.Items) // by name, which identifies the provider, in any namespace
	for _, p := range inventory {
		there := live[p.label]
		if !slices.Contains(running, p.provider) || there != nil && !manifests.RunByManager(there.GetAnnotations()) {
			continue
		}
		if there == nil && !ensured {
			if err := ensureNamespace(ctx, c); err != nil {
				return err
			}
			ensured = true
		}
		p.byManager = true
		if err := p.sync(ctx, c.Resource(providersResource).Namespace(manifests.Namespace), there, true); err != nil {
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

// sync writes differences; a part that does not run is removed.
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

// written returns obj with all fields that clusterctl writes for a provider.
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
	annotations := obj.GetAnnotations()
	delete(annotations, manifests.RunByAnnotation)
	if p.byManager {
		annotations = merge(annotations, map[string]string{manifests.RunByAnnotation: manifests.ManagerRole})
	}
	obj.SetAnnotations(annotations)
	obj.Object["providerName"], obj.Object["type"], obj.Object["version"] = p.name, string(p.kind), manifests.Release
	return obj
}
