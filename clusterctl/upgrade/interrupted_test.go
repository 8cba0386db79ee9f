// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/contract"
)

// releases is a Source whose providers have two releases each, of which the second has
// a Service less and a ConfigMap more.
type releases struct{}

func (releases) Release(_ context.Context, w install.Wanted, namespace string) (install.Release, error) {
	if w.Version == "" {
		w.Version = "v1.11.0"
	}
	other := "kind: Service\nspec: {ports: [{port: 443}]}"
	if w.Version != "v1.11.0" {
		other = "kind: ConfigMap\ndata: {a: b}"
	}
	c, err := components.Load(components.Input{Provider: config.Provider{Name: w.Name, Type: w.Type}, Version: w.Version, Namespace: namespace, Raw: fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.x.cluster.x-k8s.io}
spec: {group: x.cluster.x-k8s.io, names: {kind: "%[1]s", plural: "%[4]s"}, scope: Namespaced, versions: [{name: v1, served: true, storage: true}]}
---
apiVersion: v1
metadata: {name: other, namespace: %[1]s-system}
%[3]s
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager, namespace: %[1]s-system}
spec: {template: {spec: {containers: [{name: manager, image: "example.com/%[1]s:%[2]s"}]}}}
`, w.Label(), w.Version, other, strings.TrimSuffix(contract.CRDName("", w.Label()), "."))})
	return install.Release{Components: c, Contract: "v1beta2"}, err
}

func (releases) Versions(context.Context, install.Wanted) ([]string, error) {
	return []string{"v1.11.0", "v1.12.0"}, nil
}

func (releases) Metadata(context.Context, install.Wanted, string) (*clusterctlv1.Metadata, error) {
	return &clusterctlv1.Metadata{ReleaseSeries: []clusterctlv1.ReleaseSeries{{Major: 1, Minor: 11, Contract: "v1beta2"}, {Major: 1, Minor: 12, Contract: "v1beta2"}}}, nil
}

// kinds are those that the fake cluster serves.
type kinds struct{}

func (kinds) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: "v1.36.3"}, nil
}

func (kinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	verbs := metav1.Verbs{"list", "delete"}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "namespaces", Kind: "Namespace", Verbs: verbs}, {Name: "services", Kind: "Service", Namespaced: true, Verbs: verbs}, {Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "apiextensions.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition", Verbs: verbs}}},
	}, nil
}

var errCut = errors.New("the connection was cut")

// world is a management cluster that loses the connection at a write: before it is
// executed, or before its response arrives.
type world struct {
	client.WithWatch
	writes, cut int
	lost        bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	known := runtime.NewScheme()
	if err := errors.Join(apiextensionsv1.AddToScheme(known), clusterctlv1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	dry := func(dryRun []string) bool { return len(dryRun) > 0 }
	w.WithWatch = fake.NewClientBuilder().WithScheme(known).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.write(dry((&client.CreateOptions{}).ApplyOptions(opts).DryRun), func() error { return c.Create(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write(dry((&client.PatchOptions{}).ApplyOptions(opts).DryRun), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write(false, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}).Build()
	return w
}

func (w *world) write(dry bool, do func() error) error {
	if dry {
		return do()
	}
	w.writes++
	if w.writes != w.cut {
		return do()
	}
	if w.lost {
		_ = do() // the response is lost
	}
	return errCut
}

func (w *world) init(t *testing.T) error {
	i := install.Installer{Cluster: apply.NewWithClient(w, kinds{}), Source: releases{}, Progress: func(text string) { t.Log(text) }}
	_, err := i.Init(t.Context(), install.InitOptions{Selection: install.Selection{infra: {"aws"}}})
	return err
}

func (w *world) upgrade(t *testing.T) error {
	u := Upgrader{Cluster: apply.NewWithClient(w, kinds{}), Source: releases{}, Progress: func(text string) { t.Log(text) }}
	all, err := u.Read(t.Context())
	if err != nil {
		return err
	}
	plan, err := Allowed(Plans(all), "v1beta2")
	if err != nil {
		return err
	}
	_, err = u.Apply(t.Context(), plan, 0)
	return err
}

// remove deletes all that can be deleted.
func (w *world) remove(t *testing.T) error {
	i := install.Installer{Cluster: apply.NewWithClient(w, kinds{}), Progress: func(text string) { t.Log(text) }}
	d, err := i.PlanDelete(t.Context(), install.DeleteOptions{All: true, Namespaces: true, Definitions: true})
	if err != nil {
		return err
	}
	return i.Delete(t.Context(), d)
}

// state is everything that exists, as users see it.
func (w *world) state(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	lists, _ := kinds{}.ServerPreferredResources()
	lists = append(lists, &metav1.APIResourceList{GroupVersion: clusterctlv1.GroupVersion().String(), APIResources: []metav1.APIResource{{Kind: "Provider"}}})
	for _, l := range lists {
		for _, r := range l.APIResources {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(l.GroupVersion)
			list.SetKind(r.Kind + "List")
			if err := w.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			for _, obj := range list.Items {
				text := ""
				if v, ok := obj.Object["version"].(string); ok {
					text = v
				}
				for _, m := range apply.Managers([]*unstructured.Unstructured{&obj}) {
					containers, _, _ := unstructured.NestedSlice(m.Object, "spec", "template", "spec", "containers")
					text = fmt.Sprint(containers[0].(map[string]any)["image"])
				}
				state[apply.Name(&obj)] = text
			}
		}
	}
	return state
}

// TestAnInterruptionIsTakenUpByTheSameCommand cuts the connection at every write in turn,
// before it is executed and before its response arrives, and runs the same command again.
func TestAnInterruptionIsTakenUpByTheSameCommand(t *testing.T) {
	t.Parallel()
	whole := newWorld(t)
	commands := map[string]struct {
		before func(*world, *testing.T) error
		do     func(*world, *testing.T) error
		want   map[string]string
		writes int
	}{}
	for _, name := range []string{"init", "upgrade apply", "delete"} {
		c := commands[name]
		switch name {
		case "init":
			c.do = (*world).init
		case "upgrade apply":
			c.before, c.do = (*world).init, (*world).upgrade
		case "delete":
			c.before, c.do = (*world).init, (*world).remove
		}
		whole.writes = 0
		if err := c.do(whole, t); err != nil {
			t.Fatal(err)
		}
		c.want, c.writes = whole.state(t), whole.writes
		commands[name] = c
	}
	for name, c := range commands {
		if c.writes < 10 {
			t.Fatalf("%s writes %d times: too few to be all", name, c.writes)
		}
		for _, lost := range []bool{false, true} {
			for cut := 1; cut <= c.writes; cut++ {
				t.Run(fmt.Sprintf("%s/%d/lost=%v", name, cut, lost), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					if c.before != nil {
						if err := c.before(w, t); err != nil {
							t.Fatal(err)
						}
					}
					w.writes, w.cut, w.lost = 0, cut, lost
					if err := c.do(w, t); !errors.Is(err, errCut) {
						t.Fatalf("got %v, want that the connection was cut", err)
					}
					w.cut = 0
					if err := c.do(w, t); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(c.want, w.state(t)); diff != "" {
						t.Errorf("what there is (-without interruption +with):\n%s", diff)
					}
				})
			}
		}
	}
}

// TestWhatIsBuiltInIsLeft runs all commands against a plane of Capstan.
func TestWhatIsBuiltInIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inv := inventory.New(w)
	for _, p := range []clusterctlv1.Provider{builtIn().Provider, inventory.Object("bootstrap-kubeadm", "kubeadm", clusterctlv1.BootstrapProviderType, "v1.14.2", "capstan-system")} {
		if err := inv.Record(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := w.init(t); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.remove(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"Provider capstan-system/cluster-api": "v1.14.2", "Provider capstan-system/bootstrap-kubeadm": "v1.14.2"}, w.state(t)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	i := install.Installer{Cluster: apply.NewWithClient(w, kinds{}), Progress: func(string) {}}
	if _, err := i.Init(t.Context(), install.InitOptions{Selection: install.Selection{infra: {"aws"}}, Namespace: "capstan-system"}); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("got %v, want that the namespace is refused", err)
	}
}

// TestACoreOfAnotherTimeIsRefused has the kinds of the core stored at a version.
func TestACoreOfAnotherTimeIsRefused(t *testing.T) {
	t.Parallel()
	const refused = "the core provider of the management cluster keeps the contract %s, and %s is needed: upgrade it first"
	for stored, want := range map[string]struct{ init, upgrade string }{
		"v1beta2":  {},
		"v1beta1":  {init: fmt.Sprintf(refused, "v1beta1", "v1beta2")},
		"v1alpha4": {fmt.Sprintf(refused, "v1alpha4", "v1beta2"), fmt.Sprintf(refused, "v1alpha4", "v1beta2 or v1beta1")},
	} {
		t.Run(stored, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			crd := &apiextensionsv1.CustomResourceDefinition{}
			crd.Name = "clusters.cluster.x-k8s.io"
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha3", Served: true}, {Name: stored, Served: true, Storage: true}}
			if err := w.Create(t.Context(), crd); err != nil {
				t.Fatal(err)
			}
			_, err := (&Upgrader{Cluster: apply.NewWithClient(w, kinds{}), Source: releases{}}).Read(t.Context())
			if want.upgrade == "" && err != nil || want.upgrade != "" && (err == nil || !strings.Contains(err.Error(), want.upgrade)) {
				t.Errorf("upgrade: got %v, want %q", err, want.upgrade)
			}
			err = w.init(t)
			if want.init == "" && err != nil || want.init != "" && (err == nil || !strings.Contains(err.Error(), want.init)) {
				t.Errorf("init: got %v, want %q", err, want.init)
			}
		})
	}
}
