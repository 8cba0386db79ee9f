// SPDX-License-Identifier: Apache-2.0

package references

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
)

// server serves the kinds of some CRDs, named RESOURCE.GROUP, each with KIND.
type server struct {
	Reader
	requests []string
	fails    func(request string) error
}

func newServer(t *testing.T, crds map[string]string, objects ...client.Object) *server {
	t.Helper()
	var versions []schema.GroupVersion
	for name := range crds {
		versions = append(versions, schema.GroupVersion{Group: schema.ParseGroupResource(name).Group, Version: "v1"})
	}
	kinds, scheme := meta.NewDefaultRESTMapper(versions), runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	for name, kind := range crds {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}})
		resource := schema.ParseGroupResource(name)
		scope := meta.RESTScope(meta.RESTScopeNamespace)
		if kind == "Zone" {
			scope = meta.RESTScopeRoot
		}
		gv := schema.GroupVersion{Group: resource.Group, Version: "v1"}
		kinds.AddSpecific(gv.WithKind(kind), gv.WithResource(resource.Resource), gv.WithResource(resource.Resource+".one"), scope)
	}
	s := &server{}
	ask := func(request string) error {
		s.requests = append(s.requests, request)
		if s.fails != nil {
			return s.fails(request)
		}
		return nil
	}
	s.Mgmt = fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(kinds).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := ask("get " + obj.GetObjectKind().GroupVersionKind().Kind + " " + key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			of := ""
			if o.LabelSelector != nil {
				of = " " + o.LabelSelector.String()
			}
			if err := ask("list " + list.GetObjectKind().GroupVersionKind().Kind + of); err != nil {
				return err
			}
			if short, ok := list.(*shortList); ok { // which the fake client does not know
				return c.List(ctx, &short.UnstructuredList, opts...)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	return s
}

var fleet = map[string]string{
	"machines.cluster.x-k8s.io": "Machine", "machines.other.io": "Machine", "clusterclasses.cluster.x-k8s.io": "ClusterClass",
	"hosts.infra.io": "Host", "hosts.metal.io": "Host", "policies.x.io": "Policy", "zones.x.io": "Zone",
}

func host(name, cluster string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: "infra.io", Version: "v1", Kind: "Host"})
	obj.SetNamespace("fleet")
	obj.SetName(name)
	if cluster != "" {
		obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster})
	}
	return obj
}

func hostAt(name string) Reference {
	return To(causes.Key{Group: "infra.io", Kind: "Host", Namespace: "fleet", Name: name})
}

func TestParseObjectFindsAKindInAnyForm(t *testing.T) {
	t.Parallel()
	s := newServer(t, fleet)
	for text, want := range map[string]string{
		"machine/m":                  "cluster.x-k8s.io Machine fleet/m", // of Cluster API, though another group has it too
		"Machines/m":                 "cluster.x-k8s.io Machine fleet/m",
		"ma/m":                       "cluster.x-k8s.io Machine fleet/m",
		"machine.other.io/m":         "other.io Machine fleet/m",
		"ClusterClass/k":             "cluster.x-k8s.io ClusterClass fleet/k",
		"cc/k":                       "cluster.x-k8s.io ClusterClass fleet/k",
		"policy/p":                   "x.io Policy fleet/p",
		"policies/p":                 "x.io Policy fleet/p",
		"zone/z":                     "x.io Zone z", // it has no namespace
		"hosts.metal.io/h":           "metal.io Host fleet/h",
		"host/h":                     `several groups have kind "host": use one of hosts.infra.io, hosts.metal.io`,
		"machine":                    `"machine" is not KIND/NAME, such as cluster/demo`,
		"machine/":                   `"machine/" is not KIND/NAME, such as cluster/demo`,
		"/m":                         `"/m" is not KIND/NAME, such as cluster/demo`,
		"machine/fleet/m":            `"machine/fleet/m" is not KIND/NAME, such as cluster/demo`,
		"machine.none.io/m":          `no CRD defines kind "machine.none.io": did you mean "machine"?`,
		"clusterclas/k":              `no CRD defines kind "clusterclas": did you mean "clusterclass"?`,
		"something-else-entirely/so": `no CRD defines kind "something-else-entirely"`,
	} {
		key, err := s.ParseObject(t.Context(), text, "fleet")
		got := key.Group + " " + key.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	s.fails = func(string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "", nil)
	}
	if _, err := s.ParseObject(t.Context(), "machine/m", "fleet"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "list CRDs") {
		t.Errorf("without permission: %v", err)
	}
}

// TestFindReadsEachObjectOnce, with requests that depend on the kinds: few objects one at a
// time, many from lists, and those without the label of the Cluster too.
func TestFindReadsEachObjectOnce(t *testing.T) {
	t.Parallel()
	cluster := client.ObjectKey{Namespace: "fleet", Name: "demo"}
	for name, tc := range map[string]struct {
		refs     int
		unnamed  bool
		requests []string
	}{
		"none":               {0, false, nil},
		"without a name":     {0, true, nil},
		"few":                {few, false, []string{"get Host h-0", "get Host h-1", "get Host h-2", "get Host h-3"}},
		"many":               {few + 1, false, []string{"list HostList cluster.x-k8s.io/cluster-name=demo", "get Host h-4"}},
		"many without label": {2*few + 2, false, []string{"list HostList cluster.x-k8s.io/cluster-name=demo", "list HostList", "get Host h-missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var objects []client.Object
			var refs []Reference
			for n := range 2*few + 1 {
				of := "demo"
				if n >= few {
					of = ""
				}
				objects = append(objects, host(fmt.Sprint("h-", n), of))
			}
			objects = append(objects, host("unrelated", "demo"))
			for n := range tc.refs {
				ref := hostAt(fmt.Sprint("h-", n))
				if n == 2*few+1 {
					ref = hostAt("h-missing")
				}
				refs = append(refs, ref, ref) // two objects may refer to one
			}
			if tc.unnamed {
				refs = append(refs, hostAt(""))
			}
			s := newServer(t, fleet, objects...)
			found, err := s.Find(t.Context(), cluster, refs)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.requests, tc.requests) {
				t.Errorf("requests %q, want %q", s.requests, tc.requests)
			}
			for _, ref := range refs {
				obj, read := found[ref]
				if exists := ref.Name != "" && ref.Name != "h-missing"; !read || (obj != nil) != exists || exists && obj.GetName() != ref.Name {
					t.Errorf("%s: read %t as %v", ref.Key(), read, obj)
				}
			}
			if len(found) != len(refs)/2 && !tc.unnamed {
				t.Errorf("found %d of %d", len(found), len(refs)/2)
			}
		})
	}
}

// TestFindLeavesOutWhatItCannotRead, and reads the other kinds.
func TestFindLeavesOutWhatItCannotRead(t *testing.T) {
	t.Parallel()
	s := newServer(t, fleet, host("h", "demo"))
	zone, absent := To(causes.Key{Group: "x.io", Kind: "Zone", Name: "z"}), To(causes.Key{Group: "none.io", Kind: "None", Namespace: "fleet", Name: "n"})
	refused := errors.New("refused by a test")
	s.fails = func(request string) error {
		if request == "get Zone z" {
			return refused
		}
		return nil
	}
	found, err := s.Find(t.Context(), client.ObjectKey{Name: "demo"}, []Reference{hostAt("h"), zone, absent})
	var missing *NotInstalledError
	if !errors.Is(err, refused) || !errors.As(err, &missing) || missing.Kind != "None.none.io" {
		t.Errorf("error %v", err)
	}
	if len(found) != 1 || found[hostAt("h")] == nil {
		t.Errorf("found %v", found)
	}
}
