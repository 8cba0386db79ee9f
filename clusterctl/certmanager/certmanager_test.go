// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/config"
)

// manifest is that of a release, with what the real one has: objects in a namespace of
// others, and no variables where ${} stands.
const manifest = `
apiVersion: v1
kind: Namespace
metadata: {name: cert-manager}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec: {group: cert-manager.io, scope: Namespaced, names: {kind: Certificate, plural: certificates}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {description: "as ${THIS}"}}}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "cert-manager:leaderelection", namespace: kube-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cert-manager, namespace: cert-manager, labels: {app: cert-manager}}
spec: {template: {spec: {containers: [{name: cert-manager-controller, image: "quay.io/jetstack/cert-manager-controller:%s"}]}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: cert-manager-webhook}
`

type kinds struct{}

func (kinds) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	var lists []*metav1.APIResourceList
	for _, k := range []struct{ version, name, kind string }{
		{"v1", "namespaces", "Namespace"}, {"apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition"}, {"rbac.authorization.k8s.io/v1", "roles", "Role"},
		{"apps/v1", "deployments", "Deployment"}, {"admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"},
	} {
		lists = append(lists, &metav1.APIResourceList{GroupVersion: k.version, APIResources: []metav1.APIResource{{Name: k.name, Kind: k.kind, Namespaced: k.name == "roles" || k.name == "deployments", Verbs: metav1.Verbs{"list", "delete"}}}})
	}
	return lists, nil
}

// world is a management cluster with a configuration. Certificates are honoured there
// from when the Deployment is there, or always.
type world struct {
	*Manager
	written []string
	told    []string
}

func newWorld(t *testing.T, always bool, configuration string) *world {
	t.Helper()
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	w, honoured := &world{}, always
	note := func(what string, obj client.Object) {
		w.written = append(w.written, what+" "+obj.GetObjectKind().GroupVersionKind().Kind+" "+obj.GetName())
	}
	c := fake.NewClientBuilder().WithScheme(known).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			kind := obj.GetObjectKind().GroupVersionKind()
			if kind.Group == "cert-manager.io" && !honoured {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: kind.Group, Kind: kind.Kind}}
			}
			if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) == 0 {
				note("create", obj)
				honoured = honoured || kind.Kind == "Deployment"
				if u, ok := obj.(*unstructured.Unstructured); ok && apply.IsDefinition(u) {
					u.Object["status"] = map[string]any{"storedVersions": []any{"v1"}} // as an API server says
				}
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) == 0 {
				note("patch", obj)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			note("delete", obj)
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	w.Manager = &Manager{Cluster: apply.NewWithClient(c, kinds{}), Progress: func(text string) { w.told = append(w.told, text) }}
	system := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system"}}}
	if err := c.Create(t.Context(), system); err != nil {
		t.Fatal(err)
	}
	w.configure(t, configuration)
	return w
}

// configure reads a configuration, with a repository of two releases.
func (w *world) configure(t *testing.T, configuration string) {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"v1.19.0", "v1.20.0", "v1.21.1"} {
		folder := filepath.Join(dir, "cert-manager", version)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "cert-manager.yaml"), fmt.Appendf(nil, manifest, version), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "clusterctl.yaml")
	text := strings.ReplaceAll(configuration, "URL", dir+"/cert-manager/v1.21.1/cert-manager.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{File: file, Lookup: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	w.Config, w.written, w.told = c, nil, nil
}

func TestCertManagerIsInstalledWhereItIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "cert-manager: {url: URL}\nimages: {cert-manager: {repository: mirror.example.com}}")
	if err := w.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create Namespace cert-manager", "create CustomResourceDefinition certificates.cert-manager.io", "create Role cert-manager:leaderelection",
		"create Deployment cert-manager", "create ValidatingWebhookConfiguration cert-manager-webhook",
	}
	if diff := cmp.Diff(want, w.written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	live, err := w.Cluster.Labelled(t.Context(), map[string]string{"clusterctl.cluster.x-k8s.io/core": "cert-manager", "clusterctl.cluster.x-k8s.io": ""}, "")
	if err != nil || len(live) != len(want) {
		t.Fatalf("%d objects are labelled, %v: want all", len(live), err)
	}
	for _, obj := range live {
		if v := obj.GetAnnotations()["cert-manager.clusterctl.cluster.x-k8s.io/version"]; v != "v1.21.1" {
			t.Errorf("%s has the version %q", apply.Name(obj), v)
		}
	}
	images, err := w.Images(t.Context())
	if diff := cmp.Diff([]string{"mirror.example.com/cert-manager-controller:v1.21.1"}, images); diff != "" || err != nil {
		t.Errorf("%v; images (-want +got):\n%s", err, diff)
	}
	w.written = nil
	if err := w.Ensure(t.Context()); err != nil || len(w.written) > 0 {
		t.Errorf("%v, written again: %v", err, w.written)
	}
}

func TestCertManagerIsLeftToOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		always        bool
		configuration string
		err           string
	}{
		"where Certificates are honoured":               {true, "cert-manager: {url: URL}", ""},
		"where others install it":                       {true, "cert-manager: {url: URL, externallyProvisioned: true}", ""},
		"where others install it, and have not done so": {false, "cert-manager: {url: URL, externallyProvisioned: true}", "cert-manager does not work, and the configuration says that others install it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.always, tc.configuration)
			err := w.Ensure(t.Context())
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if s, err := w.Plan(t.Context()); err != nil || !s.Theirs || s.Due {
				t.Errorf("%+v, %v: want that it is theirs", s, err)
			}
			if err := w.Upgrade(t.Context()); err != nil || len(w.written) > 0 {
				t.Errorf("%v, written: %v", err, w.written)
			}
		})
	}
}

func TestCertManagerIsUpgraded(t *testing.T) {
	t.Parallel()
	const first = "cert-manager: {url: URL, version: v1.20.0}"
	for name, tc := range map[string]struct {
		then string
		due  bool
	}{
		"to a newer version":       {"cert-manager: {url: URL, version: v1.21.1}", true},
		"not to the same":          {first, false},
		"not back":                 {"cert-manager: {url: URL, version: v1.19.0}", false},
		"when images are replaced": {first + "\nimages: {all: {repository: mirror.example.com}}", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false, first)
			if err := w.Ensure(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.configure(t, tc.then)
			s, err := w.Plan(t.Context())
			if err != nil || s.Due != tc.due || s.From != "v1.20.0" {
				t.Fatalf("from %q, due %v, %v: want from v1.20.0, %v", s.From, s.Due, err, tc.due)
			}
			if err := w.Upgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.due {
				want = []string{
					"delete Role cert-manager:leaderelection", "delete Deployment cert-manager",
					"create Namespace cert-manager", "patch Namespace cert-manager", "create CustomResourceDefinition certificates.cert-manager.io", "patch CustomResourceDefinition certificates.cert-manager.io",
					"create Role cert-manager:leaderelection", "create Deployment cert-manager",
					"create ValidatingWebhookConfiguration cert-manager-webhook", "patch ValidatingWebhookConfiguration cert-manager-webhook",
				}
			}
			if diff := cmp.Diff(want, w.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}
