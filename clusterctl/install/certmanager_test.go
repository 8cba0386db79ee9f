// SPDX-License-Identifier: Apache-2.0

package install

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/config"
)

// manifest is a release with the special cases of the real one: objects in the namespace
// of others, and ${} that is not a variable.
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

func (kinds) ServerVersion() (*apimachineryversion.Info, error) {
	return &apimachineryversion.Info{GitVersion: "v1.36.3"}, nil
}

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

var errCut = errors.New("the connection was cut")

// world is a management cluster with a configuration. Its API server serves Certificates
// always, or once their definition exists, and calls the configured webhook, for which
// the Deployment responds.
type world struct {
	*CertManager
	written []string
	told    []string
	// cut is the write, counted from 1, at which the connection is lost: before it is
	// executed, or before its response arrives.
	cut  int
	lost bool
}

// write executes a write, unless the connection is lost before.
func (w *world) write(what string, obj client.Object, do func() error) error {
	w.written = append(w.written, what+" "+obj.GetObjectKind().GroupVersionKind().Kind+" "+obj.GetName())
	if len(w.written) != w.cut {
		return do()
	}
	if w.lost {
		_ = do() // the response is lost
	}
	return errCut
}

// honours returns the response of the API server to a Certificate.
func honours(ctx context.Context, c client.Client, kind schema.GroupKind, always bool) error {
	there := func(apiVersion, kind, namespace, name string) bool {
		obj := &unstructured.Unstructured{}
		obj.SetAPIVersion(apiVersion)
		obj.SetKind(kind)
		return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj) == nil
	}
	if !always && !there("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "certificates.cert-manager.io") {
		return &meta.NoKindMatchError{GroupKind: kind}
	}
	if there("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "cert-manager-webhook") && !there("apps/v1", "Deployment", "cert-manager", "cert-manager") {
		return apierrors.NewInternalError(errors.New("failed calling webhook"))
	}
	return nil
}

func newWorld(t *testing.T, always bool, configuration string) *world {
	t.Helper()
	known := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	dry := func(dryRun []string) bool { return len(dryRun) > 0 }
	c := fake.NewClientBuilder().WithScheme(known).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			kind := obj.GetObjectKind().GroupVersionKind().GroupKind()
			if kind.Group == "cert-manager.io" {
				return honours(ctx, c, kind, always)
			}
			if u, ok := obj.(*unstructured.Unstructured); ok && apply.IsDefinition(u) {
				u.Object["status"] = map[string]any{"storedVersions": []any{"v1"}} // as an API server sets it
			}
			do := func() error { return c.Create(ctx, obj, opts...) }
			if dry((&client.CreateOptions{}).ApplyOptions(opts).DryRun) {
				return do()
			}
			return w.write("create", obj, do)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			do := func() error { return c.Patch(ctx, obj, patch, opts...) }
			if dry((&client.PatchOptions{}).ApplyOptions(opts).DryRun) {
				return do()
			}
			return w.write("patch", obj, do)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}).Build()
	w.CertManager = &CertManager{Cluster: apply.NewWithClient(c, kinds{}), Progress: func(text string) { w.told = append(w.told, text) }}
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
		"create Namespace cert-manager", "create Role cert-manager:leaderelection", "create Deployment cert-manager",
		"create ValidatingWebhookConfiguration cert-manager-webhook", "create CustomResourceDefinition certificates.cert-manager.io",
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

// TestAManifestThatCannotBeReadSaysWhatElseCanBeDone: a plane that issues no Certificates
// would require the manifest, and could issue them itself.
func TestAManifestThatCannotBeReadSaysWhatElseCanBeDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "cert-manager: {url: URL, version: v9.9.9}")
	if err := w.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "certificates among its --providers") || len(w.written) > 0 {
		t.Errorf("%v, written: %v", err, w.written)
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

// TestOneOfOthersThatDoesNotAnswerIsNotWrittenOver has a cert-manager that Capstan did
// not install and whose webhook has no server.
func TestOneOfOthersThatDoesNotAnswerIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, "cert-manager: {url: URL}")
	for _, obj := range []map[string]any{
		{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "certificates.cert-manager.io"}},
		{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "cert-manager-webhook"}},
	} {
		if err := w.Cluster.Client().Create(t.Context(), &unstructured.Unstructured{Object: obj}); err != nil {
			t.Fatal(err)
		}
	}
	w.written = nil
	err := w.Ensure(t.Context())
	if want := "cert-manager, which others have installed, does not answer: check its webhook"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("got %v, want %q and why", err, want)
	}
	if len(w.written) > 0 {
		t.Errorf("written: %v", w.written)
	}
}

// TestInstallResumesInterruptedCertManager cuts the connection at every write of
// an installation and of an upgrade in turn, and runs the same command again, or an
// installation of another version first.
func TestInstallResumesInterruptedCertManager(t *testing.T) {
	t.Parallel()
	const first, second = "cert-manager: {url: URL, version: v1.20.0}", "cert-manager: {url: URL, version: v1.21.1}"
	ensure := func(w *world, t *testing.T) error { return w.Ensure(t.Context()) }
	upgrade := func(w *world, t *testing.T) error { return w.Upgrade(t.Context()) }
	for name, tc := range map[string]struct {
		before    string // the configuration of an earlier installation
		do, again func(*world, *testing.T) error
	}{
		"installation":              {"", ensure, ensure},
		"upgrade":                   {first, upgrade, upgrade},
		"upgrade with an init next": {first, upgrade, func(w *world, t *testing.T) error { return errors.Join(ensure(w, t), upgrade(w, t)) }},
	} {
		begin := func(t *testing.T) *world {
			w := newWorld(t, false, first)
			if tc.before != "" {
				if err := ensure(w, t); err != nil {
					t.Fatal(err)
				}
			}
			w.configure(t, second)
			return w
		}
		whole := begin(t)
		if err := tc.do(whole, t); err != nil {
			t.Fatal(err)
		}
		want, writes := whole.state(t), len(whole.written)
		if writes < 5 {
			t.Fatalf("%s writes %d times: too few to be all", name, writes)
		}
		for _, lost := range []bool{false, true} {
			for cut := 1; cut <= writes; cut++ {
				t.Run(fmt.Sprintf("%s/%d/lost=%v", name, cut, lost), func(t *testing.T) {
					t.Parallel()
					w := begin(t)
					w.cut, w.lost = cut, lost
					if err := tc.do(w, t); !errors.Is(err, errCut) {
						t.Fatalf("got %v, want that the connection was cut", err)
					}
					w.cut, w.written = 0, nil
					if err := tc.again(w, t); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, w.state(t)); diff != "" {
						t.Errorf("what there is (-without interruption +with):\n%s", diff)
					}
				})
			}
		}
	}
}

// state is what exists, with its version.
func (w *world) state(t *testing.T) map[string]string {
	t.Helper()
	live, err := w.Cluster.Labelled(t.Context(), map[string]string{"clusterctl.cluster.x-k8s.io/core": "cert-manager"}, "")
	if err != nil {
		t.Fatal(err)
	}
	state := map[string]string{}
	for _, obj := range live {
		state[apply.Name(obj)] = obj.GetAnnotations()["cert-manager.clusterctl.cluster.x-k8s.io/version"]
	}
	return state
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
					"create Namespace cert-manager", "patch Namespace cert-manager",
					"create Role cert-manager:leaderelection", "create Deployment cert-manager",
					"create ValidatingWebhookConfiguration cert-manager-webhook", "patch ValidatingWebhookConfiguration cert-manager-webhook",
					"create CustomResourceDefinition certificates.cert-manager.io", "patch CustomResourceDefinition certificates.cert-manager.io",
				}
			}
			if diff := cmp.Diff(want, w.written); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}
