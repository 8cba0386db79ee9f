// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
)

// inMemory examines the provider of these tests on a management cluster in memory.
func inMemory(t *testing.T, c provider.Config, all map[string]*crd) (r conformance.Report) {
	t.Helper()
	withMemory(t, all, func(ctx context.Context, f *fakeProvider) {
		provider.InMemory(&c, f.client, f.nodes)
		r = provider.Examine(ctx, c)
	})
	return r
}

// withMemory runs the provider of these tests on a management cluster in memory, with a
// core in memory and simulated time: the speed of the machine does not matter, and
// waiting for what never happens costs nothing.
func withMemory(t *testing.T, all map[string]*crd, use func(context.Context, *fakeProvider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		mgmt := memory(t, all)
		f, err := startFake(ctx, mgmt, &core{client: mgmt}, all)
		if err != nil {
			t.Fatal(err)
		}
		use(ctx, f)
	})
}

// scheme has the types that providers and the suite use.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(corev1.AddToScheme(s), rbacv1.AddToScheme(s), apiextensionsv1.AddToScheme(s), clusterv1.AddToScheme(s))
}

// memory is a management cluster in memory. Templates that are marked as frozen refuse
// changes, in dry runs too.
func memory(t *testing.T, all map[string]*crd) client.WithWatch {
	t.Helper()
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{gvk("FakeMachine").GroupVersion()})
	apart := []client.Object{&clusterv1.Cluster{}, &clusterv1.Machine{}, &clusterv1.MachinePool{}}
	for kind, d := range all {
		kinds.Add(gvk(kind), meta.RESTScopeNamespace)
		if d.Spec.Versions[0].Subresources != nil {
			obj := &unstructured.Unstructured{}
			obj.SetGroupVersionKind(gvk(kind))
			apart = append(apart, obj)
		}
	}
	return fake.NewClientBuilder().WithScheme(s).WithRESTMapper(kinds).WithStatusSubresource(apart...).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
			if strings.HasPrefix(kind, "Fake") && all[kind] == nil {
				return nil, &meta.NoKindMatchError{GroupKind: gvk(kind).GroupKind(), SearchedVersions: []string{"v1"}}
			}
			events, err := c.Watch(ctx, list, opts...)
			return newUntyped(events, s), err
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				return err
			}
			if frozen, _, _ := unstructured.NestedBool(fields, "spec", "template", "spec", "frozen"); frozen {
				return errors.New("it is frozen")
			}
			return nil // it is a dry run
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if all, ok := list.(*unstructured.UnstructuredList); ok {
				for i := range all.Items {
					tidy(&all.Items[i])
				}
			}
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			defer tidy(obj)
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			defer tidy(obj)
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			u, ok := obj.(*unstructured.Unstructured)
			if !ok || u.Object["status"] != nil { // otherwise it would be stored as null
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			}
			now := u.DeepCopy()
			if err := c.Get(ctx, client.ObjectKeyFromObject(u), now); err != nil {
				return err
			}
			u.SetResourceVersion(now.GetResourceVersion())
			u.Object["status"] = map[string]any{}
			return c.SubResource(sub).Update(ctx, u)
		},
	}).Build()
}

// tidy removes a missing status, which the fake client stores as null.
func tidy(obj client.Object) {
	if u, ok := obj.(*unstructured.Unstructured); ok && u.Object["status"] == nil {
		delete(u.Object, "status")
	}
}

// untyped delivers events as a client without the Go types would receive them.
type untyped struct {
	watch.Interface
	out  chan watch.Event
	done chan struct{}
}

func newUntyped(events watch.Interface, s *runtime.Scheme) watch.Interface {
	w := &untyped{events, make(chan watch.Event), make(chan struct{})}
	go func() {
		for e := range events.ResultChan() {
			if fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e.Object); err == nil {
				obj := &unstructured.Unstructured{Object: fields}
				if kinds, _, err := s.ObjectKinds(e.Object); err == nil {
					obj.SetGroupVersionKind(kinds[0])
				}
				tidy(obj)
				e.Object = obj
			}
			select {
			case w.out <- e:
			case <-w.done:
				return
			}
		}
	}()
	return w
}

// ResultChan implements watch.Interface.
func (w *untyped) ResultChan() <-chan watch.Event { return w.out }

// Stop implements watch.Interface. It is called once.
func (w *untyped) Stop() {
	close(w.done)
	w.Interface.Stop()
}

// sameID is a provider ID that has a Node in every cluster.
const sameID = "fake://same"

// nodes are those of all clusters: one for each FakeMachine, with the provider ID that it
// should have.
func (f *fakeProvider) nodes(ctx context.Context) ([]corev1.Node, error) {
	machines := &unstructured.UnstructuredList{}
	machines.SetGroupVersionKind(gvk("FakeMachineList"))
	if err := f.client.List(ctx, machines); err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	ids := []string{sameID}
	for i := range machines.Items {
		ids = append(ids, providerID(&machines.Items[i]))
	}
	var all []corev1.Node
	for _, id := range ids {
		all = append(all, corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
	}
	return all, nil
}
