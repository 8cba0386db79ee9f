// SPDX-License-Identifier: Apache-2.0

package components

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/internal/builder"
)

var capx = config.Provider{Name: "x", Type: clusterctlv1.InfrastructureProviderType}

func load(t *testing.T, in Input) *Components {
	t.Helper()
	in.Provider = capx
	c, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestComponentsMoveIntoANamespace(t *testing.T) {
	c := load(t, Input{Version: "v1.2.3", Raw: read(t, "move.yaml"), Namespace: "elsewhere",
		Variables: func(string) (string, bool) { return "v2.0.0", true },
		Image: func(component, image string) (string, error) {
			return strings.Replace(image, "example.com", "mirror.local/"+component, 1), nil
		},
	})
	got, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	builder.Golden(t, "moved.yaml", got)
	wantWarnings := []string{
		"Deployment capx-controller-manager: spec.template.spec.containers[0].args[1] names the namespace capx-system: it is text, and stays",
		"ClusterRoleBinding capx: subjects[7].name names the namespace capx-system: it is text, and stays",
		"RoleBinding capx-reads is of the namespace kube-system in the file, and goes into elsewhere with all others",
		"ConfigMap capx-config: data.namespace names the namespace capx-system: it is text, and stays",
	}
	if diff := cmp.Diff(wantWarnings, c.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	wantImages := []string{"mirror.local/infrastructure-x/capx:v2.0.0", "mirror.local/infrastructure-x/data:v1", "mirror.local/infrastructure-x/wait:v1"}
	if diff := cmp.Diff(wantImages, c.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]*string{"VERSION": new("v1.0.0")}, c.Variables); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	inventory := c.InventoryObject()
	if inventory.Namespace != "elsewhere" || inventory.Name != "infrastructure-x" || inventory.ProviderName != "x" || inventory.Version != "v1.2.3" || inventory.GetProviderType() != clusterctlv1.InfrastructureProviderType {
		t.Errorf("inventory object: %+v", inventory)
	}
}

func TestComponentsStayInTheirNamespace(t *testing.T) {
	c := load(t, Input{Raw: read(t, "move.yaml")})
	if c.Namespace != "capx-system" || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "kube-system") {
		t.Errorf("namespace %s, warnings %q", c.Namespace, c.Warnings)
	}
	for _, obj := range c.Objects() {
		if ns := obj.GetNamespace(); ns != "" && ns != "capx-system" {
			t.Errorf("%s is in %s", describe(obj), ns)
		}
	}
}

const oneNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: capx-system}\n---\n"

func TestWhatCannotBeInstalledIsRefused(t *testing.T) {
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: %}\n---\n"
	tests := map[string]struct {
		raw, namespace, want string
	}{
		"nothing":               {"# words\n", "", "the file has no objects"},
		"two Namespaces":        {oneNamespace + strings.ReplaceAll(oneNamespace, "capx-", "other-"), "", "the file has two Namespaces, capx-system and other-system: a provider has one at most"},
		"two, and a target":     {oneNamespace + oneNamespace, "target", "the file has two Namespaces, capx-system and capx-system: a provider has one at most"},
		"no Namespace":          {strings.ReplaceAll(account, "%", "b"), "", "the file has no Namespace: say which to use with --target-namespace"},
		"no name of one":        {oneNamespace, "A_b", `"A_b" cannot be the name of a namespace: a lowercase RFC 1123 label must consist of`},
		"no name of one inside": {strings.ReplaceAll(oneNamespace, "capx-", "Capx-"), "", `"Capx-system" cannot be the name of a namespace`},
		"an object of no name":  {oneNamespace + "apiVersion: v1\nkind: ConfigMap\n", "", "object 2, of kind ConfigMap, has no name"},
		"objects that would become one": {oneNamespace + strings.ReplaceAll(account, "%", "b") + strings.ReplaceAll(account, "%", "c"), "",
			"ServiceAccount a is in the namespaces \"b\" and \"c\", and all go into capx-system: give them different names"},
		"a missing variable":      {oneNamespace + "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: '${B}', b: '${A}'}\n", "", "no value for the variables [A, B]"},
		"a broken variable":       {oneNamespace + "a: ${A", "", "line 5: the brace of ${A is not closed"},
		"a broken document":       {oneNamespace + "a: [\n---\n" + oneNamespace, "", "document 2, which begins at line 5, is not valid YAML: line 5: did not find expected node content"},
		"an image that is none":   {oneNamespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{image: '::'}]}\n", "", `Pod a: image "::"`},
		"a document of no object": {oneNamespace + "a\n", "", "document 2 (line 5) is no object, but a text"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			settings, err := config.Load(config.Options{File: write(t, "images: {all: {tag: v2}}\n")})
			if err != nil {
				t.Fatal(err)
			}
			_, err = Load(Input{Provider: capx, Version: "v1.0.0", Raw: []byte(tc.raw), Namespace: tc.namespace, Image: settings.Image})
			if err == nil || !strings.HasPrefix(err.Error(), "components of infrastructure-x v1.0.0: "+tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/config.yaml"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestANamespaceIsAddedWhereTheFileHasNone(t *testing.T) {
	c := load(t, Input{Raw: []byte("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: b}\n"), Namespace: "target"})
	if got := c.Objects()[0]; got.GetKind() != "Namespace" || got.GetName() != "target" || got.GetLabels()["cluster.x-k8s.io/provider"] != "infrastructure-x" {
		t.Errorf("the first object is %v", got)
	}
	if got := c.Objects()[1].GetNamespace(); got != "target" {
		t.Errorf("the ServiceAccount is in %s", got)
	}
}

func TestImagesOfAllThatRuns(t *testing.T) {
	spec := map[string]string{"v1 Pod": "spec: %", "v1 PodTemplate": "template: {spec: %}", "v1 ReplicationController": "spec: {template: {spec: %}}",
		"apps/v1 Deployment": "spec: {template: {spec: %}}", "apps/v1 DaemonSet": "spec: {template: {spec: %}}", "apps/v1 StatefulSet": "spec: {template: {spec: %}}",
		"apps/v1 ReplicaSet": "spec: {template: {spec: %}}", "batch/v1 Job": "spec: {template: {spec: %}}", "batch/v1 CronJob": "spec: {jobTemplate: {spec: {template: {spec: %}}}}",
	}
	for kind, where := range spec {
		t.Run(kind, func(t *testing.T) {
			version, name, _ := strings.Cut(kind, " ")
			raw := oneNamespace + "apiVersion: " + version + "\nkind: " + name + "\nmetadata: {name: a}\n" +
				strings.ReplaceAll(where, "%", "{initContainers: [{image: a}], containers: [{image: b}, {image: c}], ephemeralContainers: [{image: d}]}") + "\n"
			c := load(t, Input{Raw: []byte(raw), Image: func(component, image string) (string, error) { return component + "/" + image, nil }})
			want := []string{"infrastructure-x/a", "infrastructure-x/b", "infrastructure-x/c", "infrastructure-x/d"}
			if diff := cmp.Diff(want, c.Images); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhoOnlyLooksNeedsNoVariablesAndNoNamespace(t *testing.T) {
	c := load(t, Input{OnlyLook: true, Raw: []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: '${NS}'}\nspec:\n  template: {spec: {containers: [{name: manager, image: 'a/b:${TAG}'}, {image: 'c:${SIDE:=v1}'}]}}\n")})
	if diff := cmp.Diff([]string{"a/b:${TAG}", "c:v1"}, c.Images); diff != "" || len(c.Warnings) > 0 {
		t.Errorf("images (-want +got):\n%s\nwarnings %q", diff, c.Warnings)
	}
}

func TestAProviderWithoutAManagerIsWarnedOf(t *testing.T) {
	tests := map[string]struct {
		containers string
		want       int
	}{
		"a manager":                   {"[{name: proxy}, {name: manager}]", 0},
		"another":                     {"[{name: controller}]", 1},
		"one that is not a container": {"[manager]", 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := load(t, Input{Raw: []byte(oneNamespace + "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: " + tc.containers + "}}}\n")})
			if len(c.Warnings) != tc.want {
				t.Errorf("warnings %q, want %d", c.Warnings, tc.want)
			}
		})
	}
}

func TestLoadWarnsOfAnnotationsWithoutTheirCertificate(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, namespace string
		want                  []string
	}{
		"that of the file":     {"capx-system/serving", "", nil},
		"in another namespace": {"capx-system/serving", "elsewhere", nil},
		"another name":         {"capx-system/servin", "", []string{`CustomResourceDefinition boots.x.io: annotation cert-manager.io/inject-ca-from is "capx-system/servin", and the file has no Certificate of that name: correct one of them`}},
		"no namespace":         {"serving", "", []string{`CustomResourceDefinition boots.x.io: annotation cert-manager.io/inject-ca-from is "serving", and the file has no Certificate of that name: correct one of them`}},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, Input{Namespace: tc.namespace, Raw: []byte(oneNamespace + `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boots.x.io, annotations: {cert-manager.io/inject-ca-from: ` + tc.annotation + `}}
spec: {group: x.io, names: {kind: Boot}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: serving, namespace: capx-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, namespace: capx-system}
spec: {template: {spec: {containers: [{name: manager}]}}}
`)})
			if diff := cmp.Diff(tc.want, c.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadWarnsOfKindsWithoutAnAggregatedRole(t *testing.T) {
	const want = `CustomResourceDefinition boots.x.io: no ClusterRole with the label cluster.x-k8s.io/aggregate-to-manager: "true" grants the verb watch on boots in x.io: add one, because the core's manager has no other right to them in a cluster`
	role := func(label, group, resource, verb string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r, labels: {cluster.x-k8s.io/aggregate-to-manager: '" + label + "'}}\nrules: [{apiGroups: [" + group + "], resources: [" + resource + "], verbs: [get, " + verb + "]}]\n"
	}
	for name, tc := range map[string]struct {
		group, label, role string
		want               []string
	}{
		"no role":                     {"x.io", "v1", "", []string{want}},
		"a role":                      {"x.io", "v1", role("true", "x.io", "boots", "watch"), nil},
		"a role for all":              {"x.io", "v1", role("true", "'*'", "'*'", "'*'"), nil},
		"a role that is not merged":   {"x.io", "v1", role("false", "x.io", "boots", "watch"), []string{want}},
		"a role of another group":     {"x.io", "v1", role("true", "y.io", "boots", "watch"), []string{want}},
		"a role of another kind":      {"x.io", "v1", role("true", "x.io", "shoes", "watch"), []string{want}},
		"a role to read once":         {"x.io", "v1", role("true", "x.io", "boots", "list"), []string{want}},
		"a group of the project":      {"infrastructure.cluster.x-k8s.io", "v1", "", nil},
		"a kind without the contract": {"x.io", "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := load(t, Input{Raw: []byte(oneNamespace + "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: boots." + tc.group + ", labels: {cluster.x-k8s.io/v1beta2: '" + tc.label + "'}}\nspec: {group: " + tc.group + ", names: {kind: Boot, plural: boots}}\n---\n" +
				"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: manager}]}}}\n---\n" + tc.role)})
			if diff := cmp.Diff(tc.want, c.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNamesOfCRDsAreThoseOfTheContract(t *testing.T) {
	crd := func(name, annotations string) string {
		return oneNamespace + "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\nspec: {group: x.example.com, names: {kind: GCPProxy}}\n"
	}
	tests := map[string]struct{ raw, want string }{
		"the contract's":           {crd("gcpproxies.x.example.com", ""), ""},
		"another":                  {crd("gcpproxys.x.example.com", ""), "CustomResourceDefinition gcpproxys.x.example.com of infrastructure-x: the contract computes the name gcpproxies.x.example.com"},
		"another that is intended": {crd("gcpproxys.x.example.com", "clusterctl.cluster.x-k8s.io/skip-crd-name-preflight-check: ''"), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := load(t, Input{Raw: []byte(tc.raw)}).Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
