// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/reference"
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
			wantErr:  "kind Host.x.io: CRD hosts.x.io: no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME cluster.x-k8s.io/v1beta2=VERSION",
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

func TestGetRefusesWhatIsNoProviders(t *testing.T) {
	t.Parallel()
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good()).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if u, ok := obj.(*unstructured.Unstructured); ok { // like the response of an API server for a cluster-scoped kind
				u.SetName(key.Name)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	for _, tc := range []struct {
		ref  clusterv1.ContractVersionedObjectReference
		want string
	}{
		{ref, "kind Host.x.io: its objects are in no namespace, and belong to all users: refer to a kind whose objects are in namespaces"},
		{
			clusterv1.ContractVersionedObjectReference{APIGroup: "runtime.cluster.x-k8s.io", Kind: "ExtensionConfig", Name: "all"},
			"kind ExtensionConfig.runtime.cluster.x-k8s.io: group runtime.cluster.x-k8s.io is Cluster API's own, and not a provider's",
		},
	} {
		_, err := New(c, nil).Get(t.Context(), "ns", tc.ref)
		if err == nil || err.Error() != tc.want || !Refused(err) {
			t.Errorf("error %v, want it refused: %s", err, tc.want)
		}
	}
}

func TestAdoptWritesOnceAndThenNothing(t *testing.T) {
	t.Parallel()
	h := host("h0")
	h.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: "s", UID: "s"}})
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), h).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			patches++
			return c.Patch(ctx, obj, p, opts...)
		}}).Build()
	o := New(c, nil)
	maker := h.GetOwnerReferences()[0]
	a := Adoption{
		Claim: reference.Claim{
			Owner: metav1.OwnerReference{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "m", UID: "m", Controller: new(true), BlockOwnerDeletion: new(true)},
			Maker: &maker, Cluster: "demo",
		},
		Drop: func(r metav1.OwnerReference) bool { return r.Kind == "MachineSet" },
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

func TestToAdoptAgainCopiesNothing(t *testing.T) {
	h := host("h0")
	rows := make([]any, 1000)
	for i := range rows {
		rows[i] = map[string]any{"n": int64(i)}
	}
	h.Object["spec"] = map[string]any{"rows": rows}
	o := New(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), h).Build(), nil)
	obj, err := o.Get(t.Context(), "ns", ref)
	if err != nil {
		t.Fatal(err)
	}
	adopt := func() {
		if err := o.Adopt(t.Context(), obj, Adoption{Claim: reference.ByCluster(demo())}); err != nil {
			t.Fatal(err)
		}
	}
	adopt()
	if allocs := testing.AllocsPerRun(10, adopt); allocs > 100 {
		t.Errorf("%.0f allocations where nothing changes, want a few", allocs)
	}
}

func owned(obj *unstructured.Unstructured, cluster string, controls bool) *unstructured.Unstructured {
	o := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: cluster, UID: "u"}
	if controls {
		o.Controller = new(true)
	}
	obj.SetOwnerReferences([]metav1.OwnerReference{o})
	return obj
}

func demo() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "u"}}
}

// TestWhatBelongsToAnotherIsLeftAlone calls all functions for references on an
// object of another owner, and checks that nothing is written.
func TestWhatBelongsToAnotherIsLeftAlone(t *testing.T) {
	t.Parallel()
	wrote := func(verb string) { t.Errorf("%s was sent", verb) }
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), owned(host("h0"), "prod", true)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			wrote("a patch")
			return nil
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			wrote("a deletion")
			return nil
		},
	}).Build()
	o := New(c, nil)
	const want = "spec.ref: Host ns/h0 is held by Cluster prod: refer to another object, or remove that owner or label"
	for name, try := range map[string]func(*Reference) error{
		"take":   func(r *Reference) error { return o.Take(t.Context(), r, Adoption{Claim: reference.ByCluster(demo())}) },
		"remove": func(r *Reference) error { return o.Remove(t.Context(), r, reference.ByCluster(demo())) },
	} {
		r := &Reference{Ref: ref, Role: reference.ClusterInfrastructure, Field: "spec.ref"}
		if err := errors.Join(o.Look(t.Context(), "ns", r, Trigger{}), try(r)); err != nil {
			t.Errorf("%s: error %v, want it kept in the reference", name, err)
		}
		if !r.Held() || r.Err.Error() != want || r.Obj != nil {
			t.Errorf("%s: held %v, object %v, said %v, want %s", name, r.Held(), r.Obj, r.Err, want)
		}
	}
}

func TestATemplateIsSharedWithinItsCluster(t *testing.T) {
	t.Parallel()
	template := func(name string) *unstructured.Unstructured {
		u := host(name)
		u.SetKind("HostTemplate")
		return u
	}
	theirs := template("labelled")
	theirs.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "prod"})
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), crd("hosttemplates.x.io", map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}),
		template("free"), owned(template("mine"), "demo", false), owned(template("theirs"), "prod", false), theirs, host("h0")).Build()
	o := New(c, nil)
	tests := map[string]struct {
		ref  clusterv1.ContractVersionedObjectReference
		want string
	}{
		"one that does not exist":      {clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "free"}, ""},
		"one of the Cluster":           {clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "mine"}, ""},
		"one of another":               {clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "theirs"}, "HostTemplate ns/theirs is held by Cluster prod: refer to another object, or remove that owner or label"},
		"one that another's label has": {clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "labelled"}, "HostTemplate ns/labelled is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: refer to another object, or remove that owner or label"},
		"no template":                  {ref, "kind Host.x.io: is not a template, the kind of which ends in Template: refer to a template for the infrastructure of a Machine"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := o.Template(t.Context(), demo(), tc.ref, reference.MachineInfrastructure)
			if tc.want == "" && err == nil {
				return
			}
			if err == nil || err.Error() != tc.want || !Refused(err) {
				t.Errorf("error %v, refused %v, want %s", err, Refused(err), tc.want)
			}
		})
	}
}

func TestLookTemplateKeepsWhatHinders(t *testing.T) {
	t.Parallel()
	template, stolen := host("free"), owned(host("theirs"), "prod", false)
	template.SetKind("HostTemplate")
	stolen.SetKind("HostTemplate")
	labels := map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(crd("hosttemplates.x.io", labels), template, stolen).Build()
	tests := map[string]struct {
		kind, name string
		want       string // the problem
		wantErr    bool   // whether it is retried
	}{
		"nothing":                {kind: "HostTemplate", name: "free"},
		"one that is not there":  {kind: "HostTemplate", name: "gone", want: "HostTemplate gone, named by spec.ref, does not exist: create it, or correct the reference"},
		"one of another Cluster": {kind: "HostTemplate", name: "theirs", want: "spec.ref: HostTemplate ns/theirs is held by Cluster prod: refer to another object, or remove that owner or label"},
		"no template":            {kind: "Host", name: "h0", want: "spec.ref: kind Host.x.io: is not a template, the kind of which ends in Template: refer to a template for the infrastructure of a Machine"},
		"one of a kind without a CRD": {kind: "NewTemplate", name: "n", wantErr: true,
			want: "spec.ref: kind NewTemplate.x.io: there is no CRD newtemplates.x.io: install the provider that brings it, or correct apiGroup and kind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Reference{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: tc.kind, Name: tc.name}, Role: reference.MachineInfrastructure, Field: "spec.ref"}
			err := New(c, nil).LookTemplate(t.Context(), demo(), &r, Trigger{})
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, want one: %v", err, tc.wantErr)
			}
			if got := r.Known().Problem(); got != tc.want || (r.Obj == nil) != (tc.want != "") {
				t.Errorf("object %v, problem %q, want %q", r.Obj, got, tc.want)
			}
		})
	}
}

func TestAdoptNextToTool(t *testing.T) {
	t.Parallel()
	h := host("h0")
	h.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo"})
	h.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "tools.example.com/v1", Kind: "Stack", Name: "t", UID: "t", Controller: new(true)}})
	o := New(fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), h).Build(), nil)
	obj, err := o.Get(t.Context(), "ns", ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Adopt(t.Context(), obj, Adoption{Claim: reference.ByCluster(demo())}); err != nil {
		t.Fatal(err)
	}
	if got := obj.GetOwnerReferences(); len(got) != 2 || got[1].Name != "demo" || got[1].Controller != nil {
		t.Errorf("owners %v, want the Cluster as a second one that does not control", got)
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
	for range 2 { // the second call does not find it
		if err := o.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Get(t.Context(), "ns", ref); !apierrors.IsNotFound(err) {
		t.Errorf("after Delete: error %v, want not found", err)
	}
}

func TestEventsTriggerOwnerAndReferringObjects(t *testing.T) {
	t.Parallel()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "refers"}, Spec: clusterv1.MachineSpec{InfrastructureRef: ref}}
	refs := func(o client.Object) []string {
		return refKeys([]clusterv1.ContractVersionedObjectReference{o.(*clusterv1.Machine).Spec.InfrastructureRef})
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
	wake := func(names ...string) (all []reconcile.Request) {
		for _, name := range names {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}})
		}
		return all
	}
	for name, tc := range map[string]struct {
		obj  *unstructured.Unstructured
		want []reconcile.Request
	}{
		"the owner, in any version":         {owned, wake("refers", "owns")},
		"who refers, before it is owned":    {host("h0"), wake("refers")},
		"who refers, past another's owning": {foreign, wake("refers")},
		"missing":                           {host("h1"), nil},
	} {
		if diff := cmp.Diff(tc.want, requests(t.Context(), tc.obj)); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", name, diff)
		}
	}
}

// TestRetryNowStartsBackoffOver: that of objects that waited for long, for the API server
// serves a kind after the last event of its CRD.
func TestRetryNowStartsBackoffOver(t *testing.T) {
	t.Parallel()
	req := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "waits"}}
	of := func(_ context.Context, crd client.Object) []reconcile.Request {
		if crd.GetName() != "hosts.x.io" {
			return nil
		}
		return []reconcile.Request{req}
	}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
	defer q.ShutDown()
	h := retryNow(of)
	for name, send := range map[string]func(client.Object){
		"created": func(crd client.Object) { h.Create(t.Context(), event.CreateEvent{Object: crd}, q) },
		"changed": func(crd client.Object) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: crd, ObjectNew: crd}, q)
		},
	} {
		q.AddRateLimited(req)
		if send(crd("others.x.io", nil)); q.Len() != 0 || q.NumRequeues(req) != 1 {
			t.Errorf("another is %s: %d in the queue, %d retries", name, q.Len(), q.NumRequeues(req))
		}
		if send(crd("hosts.x.io", nil)); q.Len() != 1 || q.NumRequeues(req) != 0 {
			t.Errorf("it is %s: %d in the queue, %d retries", name, q.Len(), q.NumRequeues(req))
			continue
		}
		q.Get()
		q.Done(req)
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
	bare := map[string]any{
		"apiVersion": "x.io/v1", "kind": "Host",
		"metadata": map[string]any{
			"namespace": "ns", "name": "h0",
			"labels":          map[string]any{"a": "machine", "cluster.x-k8s.io/cluster-name": "demo"},
			"annotations":     map[string]any{"cluster.x-k8s.io/cloned-from-name": "small", "cluster.x-k8s.io/cloned-from-groupkind": "HostTemplate.x.io"},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "MachineSet", "name": "s", "uid": "s"}},
		},
	}
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
		"not a template":        {template: template("Host", full), wantErr: "Host ns/small is not a template: its kind must end in Template"},
		"without spec.template": {template: template("HostTemplate", map[string]any{}), want: bare},
		"without spec":          {template: template("HostTemplate", nil), want: bare},
		"without a spec":        {template: template("HostTemplate", map[string]any{"template": map[string]any{}}), want: bare},
		"rubbish in labels":     {template: template("HostTemplate", map[string]any{"template": map[string]any{"spec": map[string]any{}, "metadata": map[string]any{"labels": "x"}}}), wantErr: "decode spec.template.metadata.labels of HostTemplate small: json: cannot unmarshal string into Go value of type map[string]string"},
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

// indexes is a cache that only records which indexes are created.
type indexes struct {
	cache.Cache

	made []string
	err  error
}

func (i *indexes) IndexField(_ context.Context, obj client.Object, field string, of client.IndexerFunc) error {
	carrier := host("h")
	carrier.SetLabels(map[string]string{"pool": "p"})
	i.made = append(i.made, fmt.Sprint(obj.GetObjectKind().GroupVersionKind().Kind, " ", field, of(carrier), of(host("h"))))
	return i.err
}

func TestObjectsAreListedByAnIndexThatIsMadeOnce(t *testing.T) {
	t.Parallel()
	mine, other := host("mine"), host("other")
	mine.SetLabels(map[string]string{"pool": "p", "cluster": "c"})
	other.SetLabels(map[string]string{"pool": "p", "cluster": "d"})
	var asked []string
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(good(), mine, other).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			asked = append(asked, fmt.Sprint(o.FieldSelector))
			o.FieldSelector = nil
			return c.List(ctx, list, o)
		},
	}).Build()
	i := &indexes{err: errors.New("stopped")}
	o := New(c, i)
	list := func() ([]unstructured.Unstructured, error) {
		return o.List(t.Context(), ref.GroupKind(), "ns", "pool", client.MatchingLabels{"pool": "p", "cluster": "c"})
	}
	if _, err := list(); err == nil || err.Error() != "index Host by label pool: stopped" {
		t.Errorf("error %v", err)
	}
	i.made, i.err = nil, nil
	for range 2 {
		if found, err := list(); err != nil || len(found) != 1 || found[0].GetName() != "mine" {
			t.Errorf("found %v, error %v", found, err)
		}
	}
	if diff := cmp.Diff([]string{"Host metadata.labels.pool[p] []"}, i.made); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"metadata.labels.pool=p", "metadata.labels.pool=p"}, asked); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}
