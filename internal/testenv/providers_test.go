// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// released are the files of a provider's release: all its templates as they are,
// and crds.yaml with the definitions that these need, without descriptions and
// conversion.
func released(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(plain); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// variables returns a valid value for every variable of a template without a
// default.
func variables(name string) (string, bool) {
	switch {
	case strings.HasSuffix(name, "_COUNT"), strings.HasSuffix(name, "_SIZE"):
		return "3", true
	case strings.HasSuffix(name, "_B64"):
		return "ZHVtbXk=", true
	case strings.HasSuffix(name, "_IDENTITY_NAME"): // of which a template has two
		return strings.ToLower(strings.ReplaceAll(name, "_", "-")), true
	case strings.HasSuffix(name, "_PREFIX"):
		return "pre", true
	case name == "OPENSTACK_DNS_NAMESERVERS":
		return "10.0.0.1", true
	case name == "OPENSTACK_EXTERNAL_NETWORK_ID":
		return "6f9619ff-8b86-4d11-b42d-00c04fc964ff", true
	case name == "CNI_RESOURCES":
		return "{cni.yaml: none}", true
	case name == "AWS_ACCOUNT_ID":
		return "123456789012", true
	case name == "OPENSHIFT_VERSION":
		return "4.19.0", true
	}
	return "dummy", true
}

// objectsOf are those of a template in a namespace. Their Clusters are paused: the
// test is not about what controllers would change in them.
func objectsOf(t *testing.T, files map[string][]byte, name, namespace string) []*unstructured.Unstructured {
	t.Helper()
	o := clusterctl.GenerateOptions{
		Name: namespace, Namespace: namespace, KubernetesVersion: "v1.34.1", ControlPlaneMachines: new(int32(3)), WorkerMachines: new(int32(2)), Template: files[name],
		Class: func(class client.ObjectKey) ([]byte, error) { return files["clusterclass-"+class.Name+".yaml"], nil },
	}
	known, err := clusterctl.Variables(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Lookup = func(name string) (string, bool) {
		if known[name] != nil {
			return "", false
		}
		return variables(name)
	}
	doc, err := clusterctl.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	objs, err := template.Objects(doc)
	if err != nil || len(objs) == 0 {
		t.Fatalf("%d objects, %v", len(objs), err)
	}
	for _, obj := range objs {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["cluster.x-k8s.io/paused"] = "true"
		obj.SetAnnotations(annotations)
	}
	return objs
}

// applies are the ways to apply an object.
var applies = map[string]func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) (*unstructured.Unstructured, error){
	"by the server": func(ctx context.Context, c dynamic.ResourceInterface, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return c.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "gitops", Force: true})
	},
	"by the client": kubectlApply,
}

// kubectlApply does what kubectl does with a custom resource: a patch from the last
// applied, the new and the live object.
func kubectlApply(ctx context.Context, c dynamic.ResourceInterface, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	applied, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	obj = obj.DeepCopy()
	annotations := obj.GetAnnotations()
	annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
	obj.SetAnnotations(annotations)
	live, err := c.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return c.Create(ctx, obj, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	}
	if err != nil {
		return nil, err
	}
	modified, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), modified, current)
	if err != nil {
		return nil, err
	}
	return c.Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-client-side-apply"})
}

// TestTemplatesOfProvidersAreAppliedTwice: another apply of the same objects
// changes nothing, in any form in which the API returns what was applied.
func TestTemplatesOfProvidersAreAppliedTwice(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	startOn(t, dir)
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range []string{"aws-v2.11.1", "openstack-v0.14.0"} {
		files := released(t, filepath.Join("testdata", "providers", "infrastructure-"+provider+".tar.gz"))
		crds, err := template.Objects(files["crds.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		stored := map[schema.GroupVersionKind]bool{}
		for _, crd := range crds {
			if err := env.Client.Create(t.Context(), crd); err != nil {
				t.Fatal(err)
			}
			storedAt(t, crd, stored)
		}
		for name := range files {
			if !strings.HasPrefix(name, "cluster-template") {
				continue
			}
			for how, apply := range applies {
				t.Run(provider+"/"+name+"/"+how, func(t *testing.T) {
					t.Parallel()
					ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "applied-"}}
					if err := env.Client.Create(t.Context(), ns); err != nil {
						t.Fatal(err)
					}
					appliedTwice(t, env, objectsOf(t, files, name, ns.Name), ns.Name, stored, apply)
				})
			}
		}
	}
}

// storedAt notes the version that a provider's kind is stored at, as true, and those
// that the provider itself would have to convert, as false.
func storedAt(t *testing.T, definition *unstructured.Unstructured, versions map[schema.GroupVersionKind]bool) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		versions[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = v.Storage
	}
}

// appliedTwice leaves out what only its provider, which is not there, can convert.
func appliedTwice(t *testing.T, env *testenv.Env, objs []*unstructured.Unstructured, namespace string, stored map[schema.GroupVersionKind]bool, apply func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured) (*unstructured.Unstructured, error)) {
	t.Helper()
	all, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	of := func(obj *unstructured.Unstructured) (c dynamic.ResourceInterface, err error) {
		kind := obj.GroupVersionKind()
		m, err := env.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return nil, err
		}
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			return all.Resource(m.Resource).Namespace(namespace), nil
		}
		return all.Resource(m.Resource), nil
	}
	for _, obj := range objs {
		testenv.Eventually(t, func() error { // definitions may be new, and classes not reconciled yet
			c, err := of(obj)
			if err == nil {
				_, err = apply(t.Context(), c, obj)
			}
			if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
				t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
			}
			return err
		})
	}
	for _, obj := range objs {
		if here, ofProvider := stored[obj.GroupVersionKind()]; ofProvider && !here {
			continue
		}
		c, err := of(obj)
		if err != nil {
			t.Fatal(err)
		}
		before, err := c.Get(t.Context(), obj.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := apply(t.Context(), c, obj)
		if err != nil {
			t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
		if before.GetGeneration() != after.GetGeneration() {
			t.Errorf("%s %s of %s has a new generation (-before +after):\n%s", obj.GetKind(), obj.GetName(), obj.GetAPIVersion(), cmp.Diff(before.Object["spec"], after.Object["spec"]))
		}
	}
}
