// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const name = "hosts.x.io"

// definition is one that is stored at v2, and was at v1.
func definition() *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	crd.Spec.Group, crd.Spec.Names.Kind = "x.io", "Host"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}}
	crd.Status.StoredVersions = []string{"v1", "v2"}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

// server has a definition and hosts, and asks refuse about each write.
func server(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, hosts int, refuse func(name string) error) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "x.io", Version: "v2", Kind: "Host"}
	scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("HostList"), &unstructured.UnstructuredList{})
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd).WithStatusSubresource(crd)
	for i := range hosts {
		host := &unstructured.Unstructured{}
		host.SetGroupVersionKind(kind)
		host.SetNamespace("ns")
		host.SetName(fmt.Sprintf("h%d", i))
		b = b.WithObjects(host)
	}
	return b.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := refuse(obj.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := refuse(obj.GetName()); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	}).Build()
}

func TestObjectsAreStoredAtTheStorageVersion(t *testing.T) {
	t.Parallel()
	hosts := schema.GroupResource{Group: "x.io", Resource: "hosts"}
	unserved, settled := definition(), definition()
	unserved.Spec.Versions[1].Served = false
	settled.Status.StoredVersions = []string{"v2"}
	tests := map[string]struct {
		crd    *apiextensionsv1.CustomResourceDefinition
		refuse map[string][]error // the answers to writes, one after the other; then they are done
		want   int
		stored string
		err    string
	}{
		"each is written once":                    {definition(), nil, 3, "v2", ""},
		"none where there is no other version":    {settled, nil, 0, "v2", ""},
		"those that go need nothing":              {definition(), map[string][]error{"h1": {apierrors.NewNotFound(hosts, "h1")}}, 2, "v2", ""},
		"nor do those that others write":          {definition(), map[string][]error{"h1": {apierrors.NewConflict(hosts, "h1", errors.New("x"))}}, 2, "v2", ""},
		"one that is refused is tried again":      {definition(), map[string][]error{"h1": {errors.New("busy"), errors.New("busy")}}, 3, "v2", ""},
		"a definition that changes is read again": {definition(), map[string][]error{name: {apierrors.NewConflict(hosts, name, errors.New("x"))}}, 6, "v2", ""},
		"one that is always refused is named": {
			definition(), map[string][]error{"h1": slices.Repeat([]error{errors.New("a webhook says no")}, 9)}, 2, "v1 v2",
			`store objects of CustomResourceDefinition hosts.x.io at version "v2": 1 objects are left, among them ns/h1: store Host ns/h1 again: a webhook says no`,
		},
		"a definition that is not served": {unserved, nil, 0, "v1 v2", `the API server does not serve them at it`},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := server(t, tc.crd.DeepCopy(), 3, func(name string) error {
				left := tc.refuse[name]
				if len(left) == 0 {
					return nil
				}
				tc.refuse[name] = left[1:]
				return left[0]
			})
			n, err := Run(t.Context(), c, name)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(crd.Status.StoredVersions, " "); n != tc.want || got != tc.stored || Needed(crd) != (tc.stored != "v2") {
				t.Errorf("%d written, stored at %s; want %d, %s", n, got, tc.want, tc.stored)
			}
		})
	}
}

func TestADefinitionThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	c := server(t, definition(), 0, func(string) error { return nil })
	if _, err := Run(t.Context(), c, "boots.x.io"); err == nil || !strings.Contains(err.Error(), "get CustomResourceDefinition boots.x.io: ") {
		t.Errorf("error %v", err)
	}
}

func TestAMigrationEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := server(t, definition(), 3, func(string) error { cancel(); return ctx.Err() })
	if _, err := Run(ctx, c, name); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestEmptyPagesAreSkipped: an API server may return none of the objects of a page, and
// where to continue.
func TestEmptyPagesAreSkipped(t *testing.T) {
	t.Parallel()
	lists := 0
	c := interceptor.NewClient(server(t, definition(), 3, func(string) error { return nil }).(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := client.ListOptions{}
			o.ApplyOptions(opts)
			switch lists++; {
			case lists > 9:
				return errors.New("listed without end")
			case o.Continue == "":
				list.SetContinue("more")
				return nil
			case o.Continue != "more" || o.Limit != PageSize:
				return fmt.Errorf("continues at %q, limit %d", o.Continue, o.Limit)
			}
			return c.List(ctx, list)
		},
	})
	if n, err := Run(t.Context(), c, name); n != 3 || err != nil || lists != 2 {
		t.Errorf("%d written in %d lists, %v", n, lists, err)
	}
}
