// SPDX-License-Identifier: Apache-2.0

// Package inventory holds which providers are installed on a management cluster:
// one Provider object each, as upstream's clusterctl writes and reads them.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	// servedTimeout is how long an API server may take to serve a kind that is
	// new, and servedPeriod how often it is asked whether it does.
	servedTimeout = time.Minute
	servedPeriod  = 100 * time.Millisecond

	fieldOwner = "capstan"
)

// Inventory reads and writes the Provider objects of one management cluster.
type Inventory struct{ mgmt client.Client }

// New returns the inventory of the management cluster that mgmt talks to. It may
// have any scheme.
func New(mgmt client.Client) Inventory { return Inventory{mgmt} }

// Ensure makes the API server serve Providers, if it does not yet.
func (i Inventory) Ensure(ctx context.Context) error {
	err := i.list(ctx, &unstructured.UnstructuredList{})
	if !missing(err) {
		return err
	}
	crd, err := definition()
	if err != nil {
		return err
	}
	if err := i.mgmt.Create(ctx, crd, client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CustomResourceDefinition %s of the inventory: %w", crd.GetName(), err)
	}
	err = wait.PollUntilContextTimeout(ctx, servedPeriod, servedTimeout, true, func(ctx context.Context) (bool, error) {
		err := i.list(ctx, &unstructured.UnstructuredList{})
		return err == nil, ignoreMissing(err)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("CustomResourceDefinition %s exists, and is not served after %s: check its conditions", crd.GetName(), servedTimeout)
	}
	return err
}

// definition is the CRD of the inventory.
func definition() (*unstructured.Unstructured, error) {
	crds, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if crd.Spec.Group == clusterctlv1.GroupVersion().Group {
			obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
			if err != nil {
				return nil, err
			}
			delete(obj, "status")
			u := &unstructured.Unstructured{Object: obj}
			u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
			return u, nil
		}
	}
	return nil, fmt.Errorf("there is no CustomResourceDefinition of the group %s", clusterctlv1.GroupVersion().Group)
}

// missing reports whether an error means that the API server does not serve the kind.
func missing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

func ignoreMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

func (i Inventory) list(ctx context.Context, into *unstructured.UnstructuredList) error {
	into.SetGroupVersionKind(clusterctlv1.GroupVersion().WithKind("ProviderList"))
	return i.mgmt.List(ctx, into)
}

// List returns what is installed, by type in the order of their installation, and then by name. It
// is empty if the API server does not serve Providers.
func (i Inventory) List(ctx context.Context) (Providers, error) {
	list := &unstructured.UnstructuredList{}
	if err := ignoreMissing(i.list(ctx, list)); err != nil {
		return nil, fmt.Errorf("list Providers of the inventory: %w", err)
	}
	var all Providers
	for _, obj := range list.Items {
		p := clusterctlv1.Provider{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &p); err != nil {
			return nil, fmt.Errorf("read Provider %s of the inventory: %w", client.ObjectKeyFromObject(&obj), err)
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, compare)
	return all, nil
}

// Written is the object that Record writes.
func Written(p clusterctlv1.Provider) (*unstructured.Unstructured, error) {
	p.TypeMeta = metav1.TypeMeta{APIVersion: clusterctlv1.GroupVersion().String(), Kind: "Provider"}
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p)
	if err != nil {
		return nil, fmt.Errorf("write Provider %s of the inventory: %w", client.ObjectKeyFromObject(&p), err)
	}
	u := &unstructured.Unstructured{Object: obj}
	u.SetResourceVersion("")
	return u, nil
}

// Record writes a provider down, or its new version.
func (i Inventory) Record(ctx context.Context, p clusterctlv1.Provider) error {
	u, err := Written(p)
	if err != nil {
		return err
	}
	err = i.mgmt.Create(ctx, u.DeepCopy(), client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		err = i.mgmt.Patch(ctx, u, client.Merge, client.FieldOwner(fieldOwner)) // the whole of it, over what is there
	}
	if err != nil {
		return fmt.Errorf("write Provider %s of the inventory: %w", client.ObjectKeyFromObject(&p), err)
	}
	return nil
}

// Remove takes a provider off the list.
func (i Inventory) Remove(ctx context.Context, p clusterctlv1.Provider) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterctlv1.GroupVersion().WithKind("Provider"))
	u.SetNamespace(p.Namespace)
	u.SetName(p.Name)
	if err := i.mgmt.Delete(ctx, u); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Provider %s of the inventory: %w", client.ObjectKeyFromObject(u), err)
	}
	return nil
}

// Object is the Provider that records that a version of a provider is installed in a namespace.
// label is the label of its components, such as infrastructure-aws.
func Object(label, name string, t clusterctlv1.ProviderType, version, namespace string) clusterctlv1.Provider {
	return clusterctlv1.Provider{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterctlv1.GroupVersion().String(), Kind: "Provider"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: label, Labels: map[string]string{
			clusterctlv1.ClusterctlLabel:     "",
			clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue,
			clusterv1.ProviderNameLabel:      label,
		}},
		ProviderName: name, Type: string(t), Version: version,
	}
}

// BuiltIn reports whether a provider is part of the program that runs the management cluster: it
// exists only in that, and nothing else installs, upgrades or deletes it.
func BuiltIn(p clusterctlv1.Provider) bool {
	return p.Namespace == manifests.Namespace
}

// compare orders providers as they are installed, and instances of one by namespace.
func compare(a, b clusterctlv1.Provider) int {
	as := func(p clusterctlv1.Provider) config.Provider {
		return config.Provider{Name: p.ProviderName, Type: p.GetProviderType()}
	}
	return cmp.Or(config.Compare(as(a), as(b)), cmp.Compare(a.Namespace, b.Namespace))
}

// Providers are those that are installed.
type Providers []clusterctlv1.Provider

// OfType are those of one type.
func (l Providers) OfType(t clusterctlv1.ProviderType) Providers {
	return l.where(func(p clusterctlv1.Provider) bool { return p.GetProviderType() == t })
}

// Named are those of one type and name.
func (l Providers) Named(name string, t clusterctlv1.ProviderType) Providers {
	return l.where(func(p clusterctlv1.Provider) bool { return p.GetProviderType() == t && p.ProviderName == name })
}

// BuiltIn are those that are part of the program.
func (l Providers) BuiltIn() Providers { return l.where(BuiltIn) }

func (l Providers) where(is func(clusterctlv1.Provider) bool) (found Providers) {
	for _, p := range l {
		if is(p) {
			found = append(found, p)
		}
	}
	return found
}

// DefaultVersion is the version of a provider, if only one is installed.
func (l Providers) DefaultVersion(name string, t clusterctlv1.ProviderType) string {
	return l.Named(name, t).unique(func(p clusterctlv1.Provider) string { return p.Version })
}

func (l Providers) unique(of func(clusterctlv1.Provider) string) string {
	value := ""
	for i, p := range l {
		if i > 0 && of(p) != value {
			return ""
		}
		value = of(p)
	}
	return value
}
