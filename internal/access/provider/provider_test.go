// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

var ref = clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Host", Name: "h0"}

func crd(name string, labels map[string]string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func host(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("x.io/v1")
	u.SetKind("Host")
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID("host-uid")
	return u
}

func scheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func good() client.Object {
	return crd("hosts.x.io", map[string]string{"cluster.x-k8s.io/v1beta2": "v1"})
}

func TestGet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		objects  []client.Object
		want     string // contract of the object found
		wantErr  string
		wantKind bool // a KindError
	}{
		"found, with its contract": {objects: []client.Object{good(), host("h0")}, want: "v1beta2"},
		"object not there":         {objects: []client.Object{good()}, wantErr: `get Host ns/h0: hosts.x.io "h0" not found`},
		"kind without CRD": {
			wantErr:  "kind Host.x.io: there is no CRD hosts.x.io: install the provider that brings it, or correct apiGroup and kind",
			wantKind: true,
		},
		"CRD without contract label": {
			objects:  []client.Object{crd("hosts.x.io", nil)},
			wantErr:  "kind Host.x.io: CRD hosts.x.io: no label cluster.x-k8s.io/v1beta2 says which API version follows the contract; install the provider's CRDs with their labels",
			wantKind: true,
		},
		"CRD of a contract too old": {
			objects:  []client.Object{crd("hosts.x.io", map[string]string{"cluster.x-k8s.io/v1alpha3": "v1"})},
			wantErr:  "kind Host.x.io: CRD hosts.x.io: label cluster.x-k8s.io/v1alpha3: contract v1alpha3 is not supported; use a provider version for one of v1beta2, v1beta1",
			wantKind: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := New(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(tc.objects...).Build(), nil)
			obj, err := o.Get(t.Context(), "ns", ref)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("error = %v, want %s", err, tc.wantErr)
				}
				if _, ok := errors.AsType[*KindError](err); ok != tc.wantKind || apierrors.IsNotFound(err) == tc.wantKind {
					t.Errorf("KindError %v, want %v", ok, tc.wantKind)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if obj.Contract != tc.want || obj.GetName() != "h0" {
				t.Errorf("got %s by contract %s, want h0 by %s", obj.GetName(), obj.Contract, tc.want)
			}
		})
	}
}

func TestAdoptWritesOnceAndThenNothing(t *testing.T) {
	t.Parallel()
	h := host("h0")
	h.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "s", UID: "s"}})
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), h).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, obj, p, opts...)
		}}).Build()
	o := New(c, nil)
	a := Adoption{
		Owner:   metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: "m", Controller: new(true), BlockOwnerDeletion: new(true)},
		Cluster: "demo",
		Drop:    func(r metav1.OwnerReference) bool { return r.Kind == "MachineSet" },
	}
	for round := range 2 {
		obj, err := o.Get(t.Context(), "ns", ref)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Adopt(t.Context(), obj, a); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]metav1.OwnerReference{a.Owner}, obj.GetOwnerReferences()); diff != "" {
			t.Errorf("round %d: owners (-want +got):\n%s", round, diff)
		}
		if got := obj.GetLabels()[clusterv1.ClusterNameLabel]; got != "demo" {
			t.Errorf("round %d: cluster label %q", round, got)
		}
		if patches != 1 {
			t.Errorf("round %d: %d patches in all, want 1", round, patches)
		}
	}
}

func TestAdoptRefusesTheObjectOfAnother(t *testing.T) {
	t.Parallel()
	h := host("h0")
	h.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "other", UID: "o", Controller: new(true)}})
	o := New(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), h).Build(), nil)
	obj, err := o.Get(t.Context(), "ns", ref)
	if err != nil {
		t.Fatal(err)
	}
	err = o.Adopt(t.Context(), obj, Adoption{Owner: metav1.OwnerReference{APIVersion: "v1", Kind: "Machine", Name: "m", UID: "m", Controller: new(true)}})
	const want = "Host ns/h0 is controlled by Machine other: refer to another object, or remove that owner"
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), host("h0")).Build()
	o := New(c, nil)
	obj, err := o.Get(t.Context(), "ns", ref)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it gone
		if err := o.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Get(t.Context(), "ns", ref); !apierrors.IsNotFound(err) {
		t.Errorf("after Delete: error %v, want not found", err)
	}
}

func TestEventsWakeTheOwnerOrElseWhoRefers(t *testing.T) {
	t.Parallel()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "refers"}, Spec: clusterv1.MachineSpec{InfrastructureRef: ref}}
	refs := func(o client.Object) []string {
		r := o.(*clusterv1.Machine).Spec.InfrastructureRef
		return []string{refKey(r.GroupKind(), r.Name)}
	}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(machine).WithIndex(&clusterv1.Machine{}, RefIndex, refs).Build()
	requests, err := New(c, nil).requests(&clusterv1.MachineList{})
	if err != nil {
		t.Fatal(err)
	}
	owned := host("h0")
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: "owns"}})
	foreign := host("h0")
	foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "s"}})
	wake := func(name string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}}}
	}
	for name, tc := range map[string]struct {
		obj  *unstructured.Unstructured
		want []reconcile.Request
	}{
		"the owner, whatever its version":   {owned, wake("owns")},
		"who refers, before it is owned":    {host("h0"), wake("refers")},
		"who refers, past another's owning": {foreign, wake("refers")},
		"nobody":                            {host("h1"), nil},
	} {
		if diff := cmp.Diff(tc.want, requests(t.Context(), tc.obj)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}

func TestInstantiate(t *testing.T) {
	t.Parallel()
	template := func(kind string, spec map[string]any) *Object {
		return &Object{&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "x.io/v1", "kind": kind, "metadata": map[string]any{"namespace": "ns", "name": "small"}, "spec": spec,
		}}, "v1beta2"}
	}
	full := map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "template", "b": "template"}, "annotations": map[string]any{"note": "x"}},
		"spec":     map[string]any{"size": int64(3)},
	}}
	tests := map[string]struct {
		template *Object
		want     map[string]any
		wantErr  string
	}{
		"spec, metadata, origin, label and owner": {
			template: template("HostTemplate", full),
			want: map[string]any{
				"apiVersion": "x.io/v1", "kind": "Host", "spec": map[string]any{"size": int64(3)},
				"metadata": map[string]any{
					"namespace": "ns", "name": "h0",
					"labels":          map[string]any{"a": "machine", "b": "template", "cluster.x-k8s.io/cluster-name": "demo"},
					"annotations":     map[string]any{"note": "x", "cluster.x-k8s.io/cloned-from-name": "small", "cluster.x-k8s.io/cloned-from-groupkind": "HostTemplate.x.io"},
					"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "MachineSet", "name": "s", "uid": "s"}},
				},
			},
		},
		"not a template":    {template: template("Host", full), wantErr: "Host ns/small is not a template: its kind must end in Template"},
		"nothing to copy":   {template: template("HostTemplate", map[string]any{}), wantErr: "HostTemplate ns/small has no spec.template.spec: add it to the template"},
		"rubbish in labels": {template: template("HostTemplate", map[string]any{"template": map[string]any{"spec": map[string]any{}, "metadata": map[string]any{"labels": "x"}}}), wantErr: "decode spec.template.metadata.labels of HostTemplate small: json: cannot unmarshal string into Go value of type map[string]string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Instantiate(Copy{
				Template: tc.template, Name: "h0", Cluster: "demo", Labels: map[string]string{"a": "machine"},
				Owner: &metav1.OwnerReference{APIVersion: "v1", Kind: "MachineSet", Name: "s", UID: "s"},
			})
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr {
					t.Fatalf("error = %v, want %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}
