// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/manifests"
)

// all are values of which each is another than that of the chart.
var all = map[string]any{
	"image":            map[string]any{"repository": "registry.example.com:5000/m", "digest": "sha256:" + strings.Repeat("0", 64)},
	"imagePullSecrets": []any{map[string]any{"name": "pull"}},
	"replicas":         3, "providers": []any{"core", "kubeadm", "local"}, "featureGates": "MachinePool=false", "watchNamespace": "ns", "watchFilter": "a",
	"verbosity": 4, "extraArgs": []any{"--tracing-endpoint=a:4317"}, "resources": map[string]any{"limits": map[string]any{"memory": "2Gi"}},
	"priorityClassName": "system-node-critical", "nodeSelector": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
	"affinity": map[string]any{"nodeAffinity": map[string]any{}}, "createNamespace": true, "podDisruptionBudget": false, "networkPolicy": false, "certManager": true,
}

// made is rendered once: the files are many and large.
var made = sync.OnceValues(func() (map[string][]byte, error) { return Files("v1.2.3") })

func files(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(files)
}

func render(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Render(files(t), Release{Name: "capstan", Namespace: "elsewhere"}, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestTheSameValuesGiveTheSameText(t *testing.T) {
	t.Parallel()
	var first []byte
	for range 2 {
		text, err := YAML(render(t, all))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			t.Fatal("rendered twice, they differ")
		}
	}
	if strings.Contains(string(first), namespace) {
		t.Errorf("%s is left in what is rendered", namespace)
	}
}

func TestNothingOfTheManifestsIsLeftOut(t *testing.T) {
	t.Parallel()
	want, got := []string{}, []string{}
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		want = append(want, crd.Name)
	}
	roles, err := manifests.RBAC()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		want = append(want, role.Name)
	}
	want = append(want, "capstan-inventory", "capstan-metrics-reader", "capstan-core", "capstan-kubeadm", "capstan-core", "capstan-kubeadm")
	for _, obj := range render(t, nil) {
		if kind := obj.GetKind(); kind == "CustomResourceDefinition" || kind == "ClusterRole" || strings.HasSuffix(kind, "WebhookConfiguration") {
			got = append(got, obj.GetName())
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions, roles and registrations (-want +got):\n%s", diff)
	}
}

func TestWhatValuesChange(t *testing.T) {
	t.Parallel()
	byDefault, changed, alone := texts(t, nil), texts(t, all), texts(t, map[string]any{"replicas": 1})
	const deployment = "Deployment/capstan-manager"
	tests := map[string]struct {
		made     map[string]string
		in       string
		has, not string // in the object; "" for has means that the object must not exist
	}{
		"the image of the release":         {byDefault, deployment, "image: ghcr.io/capstan-dev/capstan-manager:v1.2.3\n", "digest"},
		"an image with a digest":           {changed, deployment, "image: registry.example.com:5000/m@sha256:000", "v1.2.3"},
		"no namespace by default":          {byDefault, "Namespace/elsewhere", "", ""},
		"a namespace on request":           {changed, "Namespace/elsewhere", "pod-security.kubernetes.io/enforce: restricted", ""},
		"a budget of several replicas":     {byDefault, "PodDisruptionBudget/capstan-manager", "minAvailable: 1", ""},
		"no budget of one replica":         {alone, "PodDisruptionBudget/capstan-manager", "", ""},
		"no network policy if not wanted":  {changed, "NetworkPolicy/capstan-manager", "", ""},
		"webhooks of the providers":        {byDefault, "ValidatingWebhookConfiguration/capstan-local", "", ""},
		"webhooks by the Service":          {byDefault, "ValidatingWebhookConfiguration/capstan-core", "namespace: elsewhere", "cert-manager"},
		"conversion by the Service":        {byDefault, "CustomResourceDefinition/clusters.cluster.x-k8s.io", "namespace: elsewhere", "cert-manager"},
		"definitions stay":                 {byDefault, "CustomResourceDefinition/clusters.cluster.x-k8s.io", "helm.sh/resource-policy: keep", ""},
		"cert-manager in the webhooks":     {changed, "MutatingWebhookConfiguration/capstan-core", "cert-manager.io/inject-ca-from: elsewhere/capstan-webhooks", ""},
		"cert-manager in the definitions":  {changed, "CustomResourceDefinition/clusters.cluster.x-k8s.io", "cert-manager.io/inject-ca-from: elsewhere/capstan-webhooks", ""},
		"cert-manager's folder is mounted": {changed, deployment, "--webhook-cert-dir=/certificates", ""},
		"more flags":                       {changed, deployment, "--tracing-endpoint=a:4317", ""},
		"the aggregated role has no rules": {byDefault, "ClusterRole/capstan-manager", "aggregationRule", "rules:"},
		"the aggregated role stays":        {byDefault, "ClusterRole/capstan-manager", "helm.sh/resource-policy: keep", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, there := tc.made[tc.in]
			if there != (tc.has != "") || !strings.Contains(text, tc.has) || tc.not != "" && strings.Contains(text, tc.not) {
				t.Errorf("%s: want %q and not %q in:\n%.3000s", tc.in, tc.has, tc.not, text)
			}
		})
	}
}

// texts returns the objects rendered with values, by kind and name.
func texts(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, obj := range render(t, values) {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		found[obj.GetKind()+"/"+obj.GetName()] = string(text)
	}
	return found
}

// TestEveryFieldIsKnown decodes the objects of the chart as an API server does that
// refuses unknown fields.
func TestEveryFieldIsKnown(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensionsv1.AddToScheme, certmanagerv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, obj := range render(t, all) {
		typed, err := scheme.New(obj.GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, typed); err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values map[string]any
		want   string
	}{
		"one that the chart does not have": {map[string]any{"replica": 3}, "value replica: the chart has no such value"},
		"one inside another":               {map[string]any{"image": map[string]any{"name": "a"}}, "value image.name: the chart has no such value: choose among digest, pullPolicy"},
		"a provider that is not known":     {map[string]any{"providers": []any{"aws"}}, `provider "aws" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Render(files(t), Release{Namespace: "a"}, tc.values); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheSourceOfTheChartSaysHowToGetTheWhole(t *testing.T) {
	t.Parallel()
	source := files(t)
	for name := range source {
		if strings.HasPrefix(name, "files/") {
			delete(source, name)
		}
	}
	if _, err := Render(source, Release{Namespace: "a"}, nil); err == nil || !strings.Contains(err.Error(), "--write-chart") {
		t.Errorf("got %v", err)
	}
}

func TestEveryProviderHasItsWebhooksInTheChart(t *testing.T) {
	t.Parallel()
	for _, provider := range controllers.Providers() {
		if text := string(files(t)["files/webhooks/"+provider+".yaml"]); !strings.Contains(text, "name: capstan-"+provider) {
			t.Errorf("%s has none", provider)
		}
	}
}

func TestAFolderThatIsNotEmptyIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Write(dir, map[string][]byte{"a/b": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, map[string][]byte{"c": nil}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("got %v", err)
	}
}

// TestReadmeListsAllValues holds README.md of the chart against its values;
// UPDATE_GOLDEN=1 writes it.
func TestReadmeListsAllValues(t *testing.T) {
	t.Parallel()
	const path = "../../../charts/capstan/README.md"
	want, err := readme(files(t)["values.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("README.md (-want +got), run with UPDATE_GOLDEN=1:\n%s", diff)
	}
}
