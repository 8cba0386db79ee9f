// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	setsOld = "addons.cluster.x-k8s.io/v1beta1"
	setsNew = "addons.cluster.x-k8s.io/v1beta2"
)

// sets are the ClusterResourceSets of a namespace at both versions.
type sets struct {
	*testing.T
	old, new dynamic.ResourceInterface
}

func setsOf(t *testing.T, cfg *rest.Config, namespace string) sets {
	t.Helper()
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := func(version string) dynamic.ResourceInterface {
		return c.Resource(schema.GroupVersionResource{Group: "addons.cluster.x-k8s.io", Version: version, Resource: "clusterresourcesets"}).Namespace(namespace)
	}
	return sets{t, at("v1beta1"), at("v1beta2")}
}

// set is a ClusterResourceSet of a version that applies a Secret, with more YAML.
func (s sets) set(apiVersion, name, secret, more string) *unstructured.Unstructured {
	s.Helper()
	text := fmt.Sprintf("{apiVersion: %s, kind: ClusterResourceSet, metadata: {name: %s}, spec: {clusterSelector: {matchLabels: {a: b}}, resources: [{kind: Secret, name: %s}]}}", apiVersion, name, secret)
	obj, add := map[string]any{}, map[string]any{}
	s.must(yaml.Unmarshal([]byte(text), &obj))
	s.must(yaml.Unmarshal([]byte(more), &add))
	if labels, ok := add["labels"]; ok {
		obj["metadata"].(map[string]any)["labels"] = labels
	}
	return &unstructured.Unstructured{Object: obj}
}

func (s sets) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s sets) get(c dynamic.ResourceInterface, name string) *unstructured.Unstructured {
	s.Helper()
	obj, err := c.Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	return obj
}

func (s sets) patch(c dynamic.ResourceInterface, name, patch string, sub ...string) {
	s.Helper()
	_, err := c.Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "patcher"}, sub...)
	s.must(err)
}

func (s sets) apply(c dynamic.ResourceInterface, manager string, obj *unstructured.Unstructured) {
	s.Helper()
	_, err := c.Apply(s.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: manager, Force: true})
	s.must(err)
}

// secret is the one that an object of any version names.
func secret(obj *unstructured.Unstructured) string {
	resources, _, _ := unstructured.NestedSlice(obj.Object, "spec", "resources")
	if len(resources) != 1 {
		return fmt.Sprint(resources)
	}
	return resources[0].(map[string]any)["name"].(string)
}

// managers are those of the fields, with the version and whether they applied.
func managers(obj *unstructured.Unstructured) (all []string) {
	for _, e := range obj.GetManagedFields() {
		all = append(all, fmt.Sprintf("%s %s %s %s", e.Manager, e.Operation, strings.TrimPrefix(e.APIVersion, "addons.cluster.x-k8s.io/"), e.Subresource))
	}
	slices.Sort(all)
	return all
}

func TestAnOldVersionIsServed(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	warned := &warnings{}
	cfg := rest.CopyConfig(env.Config)
	cfg.WarningHandler = warned
	s := setsOf(t, cfg, env.Namespace)
	_, err := s.old.Create(t.Context(), s.set(setsOld, "made-old", "one", ""), metav1.CreateOptions{})
	s.must(err)
	if want := "addons.cluster.x-k8s.io/v1beta1 ClusterResourceSet is deprecated; use addons.cluster.x-k8s.io/v1beta2 ClusterResourceSet"; !slices.Contains(warned.texts, want) {
		t.Errorf("warned of %q, want %q", warned.texts, want)
	}
	_, err = s.new.Create(t.Context(), s.set(setsNew, "made-new", "one", ""), metav1.CreateOptions{})
	s.must(err)

	for _, name := range []string{"made-old", "made-new"} {
		if obj := s.get(s.old, name); obj.GetAPIVersion() != setsOld || secret(obj) != "one" {
			t.Errorf("at the old version %s is %v", name, obj.Object)
		}
		if obj := s.get(s.new, name); obj.GetAPIVersion() != setsNew || secret(obj) != "one" {
			t.Errorf("at the new version %s is %v", name, obj.Object)
		}
	}
	list, err := s.old.List(t.Context(), metav1.ListOptions{})
	s.must(err)
	if len(list.Items) != 2 || list.Items[0].GetAPIVersion() != setsOld {
		t.Errorf("listed %v", list.Items)
	}

	watched, err := s.old.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	s.must(err)
	defer watched.Stop()
	s.patch(s.new, "made-old", `{"spec": {"resources": [{"kind": "Secret", "name": "two"}]}}`)
	for event := range watched.ResultChan() {
		obj, ok := event.Object.(*unstructured.Unstructured)
		if !ok || obj.GetAPIVersion() != setsOld {
			t.Fatalf("watched %v", event)
		}
		if obj.GetName() == "made-old" && secret(obj) == "two" {
			break
		}
	}

	s.patch(s.old, "made-new", `{"metadata": {"finalizers": ["example.com/held"]}, "spec": {"resources": [{"kind": "Secret", "name": "three"}]}}`)
	if obj := s.get(s.new, "made-new"); secret(obj) != "three" || !slices.Contains(obj.GetFinalizers(), "example.com/held") {
		t.Errorf("patched at the old version it is %v", obj.Object)
	}
	testenv.Eventually(t, func() error { // the controller writes what it finds at the new version
		all, _, err := unstructured.NestedSlice(s.get(s.old, "made-new").Object, "status", "v1beta2", "conditions")
		if err == nil && len(all) == 0 {
			err = errors.New("no condition shows at the old version")
		}
		return err
	})
	s.must(s.old.Delete(t.Context(), "made-new", metav1.DeleteOptions{}))
	s.patch(s.old, "made-new", `{"metadata": {"finalizers": null}}`)
	s.must(client.IgnoreNotFound(s.old.Delete(t.Context(), "made-old", metav1.DeleteOptions{})))
	testenv.Eventually(t, func() error {
		left, err := s.old.List(t.Context(), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d are left", len(left.Items))
		}
		return err
	})
}

func TestFieldsAreOwnedAcrossVersions(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	s := setsOf(t, env.Config, env.Namespace)
	s.apply(s.old, "first", s.set(setsOld, "a", "one", "labels: {first: x, both: x}"))
	s.apply(s.new, "second", s.set(setsNew, "a", "one", "labels: {second: x, both: x}"))
	s.apply(s.new, "first", s.set(setsNew, "a", "two", "")) // the same manager, another version, no labels
	obj := s.get(s.new, "a")
	if diff := cmp.Diff(map[string]string{"second": "x", "both": "x"}, obj.GetLabels()); diff != "" || secret(obj) != "two" {
		t.Errorf("applies %s, labels (-want +got):\n%s", secret(obj), diff)
	}
	s.apply(s.old, "second", s.set(setsOld, "a", "three", "labels: {second: z}"))
	obj = s.get(s.new, "a")
	if diff := cmp.Diff(map[string]string{"second": "z"}, obj.GetLabels()); diff != "" || secret(obj) != "three" {
		t.Errorf("applies %s, labels (-want +got):\n%s", secret(obj), diff)
	}
	all := managers(obj)
	for _, want := range []string{"first Apply v1beta2 ", "second Apply v1beta1 "} {
		if !slices.Contains(all, want) {
			t.Errorf("managers are %q, want %q", all, want)
		}
	}
}

// converted returns the conversions that a plane reports, in reviews and in memory.
func converted(t *testing.T, metrics string) (reviews, inMemory int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^capi_conversion_duration_seconds_count\{by="(\w+)",.*\} (\d+)$`).FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(found[2]))
		if string(found[1]) == "review" {
			reviews += n
		} else {
			inMemory += n
		}
	}
	return reviews, inMemory
}

// TestOnlyWhoUsesAnOldVersionPaysForIt counts conversions: each costs as much as
// a read.
func TestOnlyWhoUsesAnOldVersionPaysForIt(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir, metrics := t.TempDir(), testenv.FreeAddress(t)
	startOn(t, dir, "--providers=kubeadm", "--metrics-address="+metrics, "--insecure-diagnostics")
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	s := setsOf(t, env.Config, metav1.NamespaceDefault)
	steps := []struct {
		what              string
		do                func()
		reviews, inMemory int
	}{
		{"a start", func() {}, 0, 0},
		{"create, patch, apply, read and list at the new version", func() {
			_, err := s.new.Create(t.Context(), s.set(setsNew, "a", "one", ""), metav1.CreateOptions{FieldManager: "test"})
			s.must(err)
			s.patch(s.new, "a", `{"metadata": {"labels": {"a": "b"}}}`)
			s.apply(s.new, "manager", s.set(setsNew, "a", "two", ""))
			s.get(s.new, "a")
			_, err = s.new.List(t.Context(), metav1.ListOptions{})
			s.must(err)
		}, 0, 0},
		{"read at the old version", func() { s.get(s.old, "a") }, 0, 1},
		{"create at the old version", func() {
			_, err := s.old.Create(t.Context(), s.set(setsOld, "b", "one", ""), metav1.CreateOptions{FieldManager: "test"})
			s.must(err)
		}, 0, 4}, // two to see that it can be stored and read
		{"patch at the new version what was made at the old one", func() { s.patch(s.new, "b", `{"metadata": {"labels": {"a": "b"}}}`) }, 3, 0},
		{"first list at the old version", func() {
			_, err := s.old.List(t.Context(), metav1.ListOptions{})
			s.must(err)
		}, 0, 2},
		{"second list", func() {
			_, err := s.old.List(t.Context(), metav1.ListOptions{})
			s.must(err)
		}, 0, 0},
	}
	was, wasInMemory := 0, 0
	for _, step := range steps {
		step.do()
		now, nowInMemory := converted(t, metrics)
		if now-was != step.reviews || nowInMemory-wasInMemory != step.inMemory {
			t.Errorf("%s: %d reviews and %d conversions in memory, want %d and %d", step.what, now-was, nowInMemory-wasInMemory, step.reviews, step.inMemory)
		}
		was, wasInMemory = now, nowInMemory
	}
}

// TestManagedFieldsSurviveAConverterThatIsAway has a definition name a converter
// that does not exist, in the middle of writes.
func TestManagedFieldsSurviveAConverterThatIsAway(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	startOn(t, dir, "--providers=kubeadm")
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	s := setsOf(t, env.Config, metav1.NamespaceDefault)
	s.apply(s.old, "user", s.set(setsOld, "mixed", "one", "labels: {a: b}"))
	s.apply(s.new, "user", s.set(setsNew, "plain", "one", ""))
	before := managers(s.get(s.new, "mixed"))
	answeredAt := func(url string, authority []byte) {
		t.Helper()
		crd := &apiextensionsv1.CustomResourceDefinition{}
		s.must(env.Client.Get(t.Context(), client.ObjectKey{Name: "clusterresourcesets.addons.cluster.x-k8s.io"}, crd))
		ours := crd.DeepCopy()
		crd.Spec.Conversion.Webhook.ClientConfig.URL, crd.Spec.Conversion.Webhook.ClientConfig.CABundle = &url, authority
		s.must(env.Client.Patch(t.Context(), crd, client.MergeFrom(ours)))
	}
	refused := func(patch string, dryRun []string, sub ...string) error {
		_, err := s.new.Patch(t.Context(), "mixed", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "other", DryRun: dryRun}, sub...)
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "managedFields of ") {
			return fmt.Errorf("patch %s: %v", patch, err)
		}
		return nil
	}
	answeredAt("https://missing.capstan.invalid/convert", nil)
	const label = `{"metadata": {"labels": {"c": "d"}}}`
	testenv.Eventually(t, func() error { return refused(label, []string{metav1.DryRunAll}) }) // until the definition is taken up
	s.must(refused(label, nil))
	s.must(refused(`{"status": {"observedGeneration": 7}}`, nil, "status"))
	s.patch(s.new, "plain", `{"metadata": {"labels": {"c": "d"}}}`)
	if obj := s.get(s.old, "mixed"); secret(obj) != "one" {
		t.Errorf("read at the old version: %v", obj.Object)
	}
	answeredAt("https://conversion.capstan.invalid/convert", env.Config.CAData) // as what injects authorities leaves it
	testenv.Eventually(t, func() error {
		_, err := s.new.Patch(t.Context(), "mixed", types.MergePatchType, []byte(`{"metadata": {"labels": {"e": "f"}}}`), metav1.PatchOptions{FieldManager: "patcher"})
		return err
	})
	obj := s.get(s.new, "mixed")
	want := slices.Sorted(slices.Values(append(before, "patcher Update v1beta2 ")))
	if diff := cmp.Diff(want, managers(obj)); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	s.apply(s.new, "user", s.set(setsNew, "mixed", "two", ""))
	if diff := cmp.Diff(map[string]string{"e": "f"}, s.get(s.new, "mixed").GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestEveryKindIsReadAtItsOldVersions goes through the whole of an API server: the
// schema of the old version must have each field that a conversion sets.
func TestEveryKindIsReadAtItsOldVersions(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t)
	c, err := dynamic.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			all := c.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name, Resource: crd.Spec.Names.Plural})
			// Another test may have an object for a moment that cannot be converted.
			testenv.Eventually(t, func() error {
				if _, err := all.List(t.Context(), metav1.ListOptions{}); err != nil {
					return fmt.Errorf("list %s at %s: %w", crd.Name, v.Name, err)
				}
				return nil
			})
		}
	}
	control := map[string]any{}
	if err := yaml.Unmarshal([]byte(`
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: a}
spec:
  version: v1.36.3
  replicas: 3
  machineTemplate:
    infrastructureRef: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, name: a}
    nodeDrainTimeout: 10m
  kubeadmConfigSpec:
    clusterConfiguration:
      apiServer: {extraArgs: {v: "2"}, timeoutForControlPlane: 4m}
    initConfiguration: {nodeRegistration: {taints: []}}
`), &control); err != nil {
		t.Fatal(err)
	}
	at := func(version string) dynamic.ResourceInterface {
		return c.Resource(schema.GroupVersionResource{Group: "controlplane.cluster.x-k8s.io", Version: version, Resource: "kubeadmcontrolplanes"}).Namespace(env.Namespace)
	}
	apply := func(dryRun ...string) *unstructured.Unstructured {
		t.Helper()
		obj, err := at("v1beta1").Apply(t.Context(), "a", &unstructured.Unstructured{Object: control}, metav1.ApplyOptions{FieldManager: "user", DryRun: dryRun})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	apply()
	stored, err := at("v1beta2").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, _, _ := unstructured.NestedInt64(stored.Object, "spec", "machineTemplate", "spec", "deletion", "nodeDrainTimeoutSeconds"); s != 600 {
		t.Errorf("stored %v", stored.Object["spec"])
	}
	for what, again := range map[string]*unstructured.Unstructured{"applied again": apply(), "rehearsed": apply(metav1.DryRunAll)} {
		if again.GetGeneration() != stored.GetGeneration() {
			t.Errorf("%s it has generation %d, not %d", what, again.GetGeneration(), stored.GetGeneration())
		}
	}
}
