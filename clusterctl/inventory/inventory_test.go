// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

const (
	core, bootstrap = clusterctlv1.CoreProviderType, clusterctlv1.BootstrapProviderType
	infra           = clusterctlv1.InfrastructureProviderType
)

// mgmt is a management cluster that serves Providers only once it has their definition.
func mgmt(served bool) (client.Client, *[]string) {
	created := &[]string{}
	kind := clusterctlv1.GroupVersion().WithKind("ProviderList")
	return fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if !served {
				return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			*created = append(*created, obj.GetObjectKind().GroupVersionKind().Kind+" "+obj.GetName())
			served = true
			return c.Create(ctx, obj, opts...)
		},
	}).Build(), created
}

func TestTheKindOfTheInventoryIsInstalledOnce(t *testing.T) {
	t.Parallel()
	c, created := mgmt(false)
	i := New(c)
	if all, err := i.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v: a cluster without the kind has no providers", all, err)
	}
	for range 2 {
		if err := i.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"CustomResourceDefinition providers.clusterctl.cluster.x-k8s.io"}, *created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := c.Get(t.Context(), client.ObjectKey{Name: "providers.clusterctl.cluster.x-k8s.io"}, crd); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory"}, crd.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestAProviderIsWrittenAsUpstreamWritesIt compares with an object that upstream's
// clusterctl created, except for fields that API servers set.
func TestAProviderIsWrittenAsUpstreamWritesIt(t *testing.T) {
	t.Parallel()
	c, _ := mgmt(true)
	i := New(c)
	for _, version := range []string{"v2.10.0", "v2.11.1"} {
		if err := i.Record(t.Context(), Object("infrastructure-aws", "aws", infra, version, "capa-system")); err != nil {
			t.Fatal(err)
		}
	}
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(clusterctlv1.GroupVersion().WithKind("Provider"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "capa-system", Name: "infrastructure-aws"}, got); err != nil {
		t.Fatal(err)
	}
	got.SetResourceVersion("")
	if diff := cmp.Diff(map[string]any{
		"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
		"metadata": map[string]any{"namespace": "capa-system", "name": "infrastructure-aws", "labels": map[string]any{
			"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/core": "inventory", "cluster.x-k8s.io/provider": "infrastructure-aws",
		}},
		"providerName": "aws", "type": "InfrastructureProvider", "version": "v2.11.1",
	}, got.Object); diff != "" {
		t.Errorf("Provider (-want +got):\n%s", diff)
	}
	for range 2 { // it may have been deleted meanwhile
		if err := i.Remove(t.Context(), Object("infrastructure-aws", "aws", infra, "", "capa-system")); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := i.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v: want none any more", all, err)
	}
}

func TestProvidersAreListedInTheOrderOfTheirInstallation(t *testing.T) {
	t.Parallel()
	c, _ := mgmt(true)
	i := New(c)
	for _, p := range []clusterctlv1.Provider{
		Object("infrastructure-b", "b", infra, "v1.0.0", "b"), Object("infrastructure-a", "a", infra, "v1.0.0", "a"),
		Object("bootstrap-kubeadm", "kubeadm", bootstrap, "v1.0.0", "capi"), Object("cluster-api", "cluster-api", core, "v1.0.0", "capi"),
	} {
		if err := i.Record(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	all, err := i.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"cluster-api", "bootstrap-kubeadm", "infrastructure-a", "infrastructure-b"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestADefaultIsWhatAllHaveInCommon(t *testing.T) {
	t.Parallel()
	aws := func(version, namespace string) clusterctlv1.Provider {
		return Object("infrastructure-aws", "aws", infra, version, namespace)
	}
	local := Object("infrastructure-local", "local", infra, "v1.14.2", "capstan-system")
	for name, tc := range map[string]struct {
		installed Providers
		want      string
	}{
		"one":                        {Providers{aws("v1.0.0", "a")}, "v1.0.0"},
		"one of a type":              {Providers{Object("cluster-api", "cluster-api", core, "v1.9.0", "c"), aws("v1.0.0", "a")}, "v1.0.0"},
		"several of a name":          {Providers{aws("v1.0.0", "a"), aws("v1.0.0", "b")}, "v1.0.0"},
		"several of a name, unequal": {Providers{aws("v1.0.0", "a"), aws("v1.1.0", "a")}, ""},
		"several names":              {Providers{aws("v1.0.0", "a"), local}, "v1.0.0"},
		"none":                       {Providers{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.installed.DefaultVersion("aws", infra); got != tc.want {
				t.Errorf("version %q, want %q", got, tc.want)
			}
		})
	}
	if !BuiltIn(local) || BuiltIn(aws("v1.0.0", "capa-system")) {
		t.Error("what a plane has in its own namespace is built in, and nothing else")
	}
}
