// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// releases are complete files of real releases, with their expected content.
var releases = map[string]struct {
	name, version, namespace string
	objects, crds            int
	required                 []string
	images                   []string
}{
	"infrastructure-aws-v2.11.1": {"aws", "v2.11.1", "capa-system", 37, 23, []string{"AWS_B64ENCODED_CREDENTIALS"},
		[]string{"gcr.io/k8s-staging-cluster-api-aws/cluster-api-aws-controller:latest"}},
	"infrastructure-openstack-v0.14.0": {"openstack", "v0.14.0", "capo-system", 18, 7, nil,
		[]string{"gcr.io/k8s-staging-capi-openstack/capi-openstack-controller:dev"}},
}

// unpack reads the files of a release.
func unpack(tb testing.TB, release string) map[string][]byte {
	tb.Helper()
	f, err := os.Open("testdata/releases/" + release + ".tar.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(zipped); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			tb.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			tb.Fatal(err)
		}
	}
}

// value returns a value for every variable without a default.
func value(name string) (string, bool) {
	if name == "CNI_RESOURCES" {
		return "{cni.yaml: none}", true
	}
	return "dummy", true
}

// parsed is the result of another YAML parser for a text.
func parsed(t *testing.T, text []byte) []any {
	t.Helper()
	var all []any
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		doc := &yaml.Node{}
		err := in.Decode(doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if v := plain(t, doc); v != nil {
			all = append(all, v)
		}
	}
}

func plain(t *testing.T, n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(t, n.Content[0])
	case yaml.AliasNode:
		return plain(t, n.Alias)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plain(t, item))
		}
		return list
	case yaml.MappingNode:
		fields := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			fields[n.Content[i].Value] = plain(t, n.Content[i+1])
		}
		return fields
	}
	var v any
	var err error
	switch n.Tag {
	case "!!null":
	case "!!bool":
		v, err = strconv.ParseBool(n.Value)
	case "!!int":
		v, err = strconv.ParseInt(n.Value, 0, 64)
	case "!!float":
		v, err = strconv.ParseFloat(n.Value, 64)
	default:
		v = n.Value
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func contents(objects []*unstructured.Unstructured) []any {
	var all []any
	for _, obj := range objects {
		all = append(all, obj.Object)
	}
	return all
}

// TestTemplatesOfReleasesLoseNothing fills all templates and classes of real releases,
// and compares them, except for their namespace, with the result of another parser.
func TestTemplatesOfReleasesLoseNothing(t *testing.T) {
	t.Parallel()
	for release := range releases {
		files := unpack(t, release)
		for name, raw := range files {
			if name == repository.MetadataFile || strings.HasSuffix(name, "-components.yaml") {
				continue
			}
			t.Run(release+"/"+name, func(t *testing.T) {
				t.Parallel()
				o := GenerateOptions{Name: "demo", Namespace: "fleet", KubernetesVersion: "v1.34.1", ControlPlaneMachines: new(int32(3)), WorkerMachines: new(int32(2)), Template: raw}
				known, err := Variables(o)
				if err != nil {
					t.Fatal(err)
				}
				o.Lookup = func(name string) (string, bool) {
					if known[name] != nil {
						return "", false
					}
					return value(name)
				}
				text, err := template.Envsubst{}.Process(raw, o.variable)
				if err != nil {
					t.Fatal(err)
				}
				want := parsed(t, text)
				doc, err := Generate(o)
				if err != nil {
					t.Fatal(err)
				}
				objects, err := template.Objects(doc)
				if err != nil || len(objects) == 0 {
					t.Fatalf("%d objects, error %v", len(objects), err)
				}
				for i, obj := range objects {
					if obj.GetNamespace() != "fleet" {
						t.Errorf("%s %s is in %q", obj.GetKind(), obj.GetName(), obj.GetNamespace())
					}
					if i < len(want) {
						want[i].(map[string]any)["metadata"].(map[string]any)["namespace"] = "fleet"
					}
				}
				if diff := cmp.Diff(want, contents(objects)); diff != "" {
					t.Errorf("objects (-what another parser reads +got):\n%s", diff)
				}
			})
		}
	}
}

// TestTheClassOfAReleaseComesAlong has a template whose class is a file next to it.
func TestTheClassOfAReleaseComesAlong(t *testing.T) {
	t.Parallel()
	files := unpack(t, "infrastructure-openstack-v0.14.0")
	doc, err := Generate(GenerateOptions{
		Name: "demo", KubernetesVersion: "v1.34.1", Template: files["cluster-template-topology.yaml"], Lookup: value,
		Class: func(class client.ObjectKey) ([]byte, error) { return files[template.ClassFile(class.Name)], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := template.Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, obj := range objects {
		kinds[obj.GetKind()]++
	}
	if kinds["ClusterClass"] != 1 || kinds["Cluster"] != 1 {
		t.Errorf("generated %v", kinds)
	}
}

func TestComponentsOfReleasesLoseNothing(t *testing.T) {
	t.Parallel()
	for release, tc := range releases {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			raw := unpack(t, release)["infrastructure-components.yaml"]
			in := components.Input{Provider: config.Provider{Name: tc.name, Type: clusterctlv1.InfrastructureProviderType}, Version: tc.version, Raw: raw, Variables: func(name string) (string, bool) {
				if name == "AWS_B64ENCODED_CREDENTIALS" {
					return "ZHVtbXk=", true
				}
				return "", false
			}}
			c, err := components.Load(in)
			if err != nil {
				t.Fatal(err)
			}
			if c.Namespace != tc.namespace || len(c.Warnings) > 0 || c.Validate() != nil {
				t.Errorf("namespace %s, warnings %q, error %v", c.Namespace, c.Warnings, c.Validate())
			}
			if diff := cmp.Diff(tc.images, c.Images); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
			var required []string
			for name, def := range c.Variables {
				if def == nil {
					required = append(required, name)
				}
			}
			if diff := cmp.Diff(tc.required, required); diff != "" {
				t.Errorf("variables that must be given (-want +got):\n%s", diff)
			}
			text, err := template.Envsubst{}.Process(raw, in.Variables)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, parsed(t, text), c, tc.objects, tc.crds)

			in.Namespace = "elsewhere"
			if c, err = components.Load(in); err != nil {
				t.Fatal(err)
			}
			moved, err := c.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(moved, []byte(tc.namespace)) || len(c.Warnings) > 0 {
				t.Errorf("%s is still named; warnings %q", tc.namespace, c.Warnings)
			}
		})
	}
}

// compare verifies that components match the result of another parser, except for their
// labels and order: the Namespace, the CRDs, what creates certificates, and others.
func compare(t *testing.T, want []any, c *components.Components, objects, crds int) {
	t.Helper()
	key := func(obj *unstructured.Unstructured) string {
		return fmt.Sprintf("%s %s", obj.GroupVersionKind(), obj.GetName())
	}
	all := map[string]any{}
	for _, content := range want {
		obj := &unstructured.Unstructured{Object: content.(map[string]any)}
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[clusterctlv1.ClusterctlLabel], labels["cluster.x-k8s.io/provider"] = "", c.Provider.Label()
		obj.SetLabels(labels)
		all[key(obj)] = obj.Object
	}
	got, order := map[string]any{}, []string{}
	for _, obj := range c.Objects() {
		got[key(obj)] = obj.Object
		order = append(order, obj.GetKind())
	}
	if diff := cmp.Diff(all, got); diff != "" || len(order) != objects {
		t.Errorf("%d objects (-what another parser reads +got):\n%s", len(order), diff)
	}
	begin := append([]string{"Namespace"}, slices.Repeat([]string{"CustomResourceDefinition"}, crds)...)
	begin = append(begin, "Issuer", "Certificate")
	if diff := cmp.Diff(begin, order[:len(begin)]); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// files are a repository of one release.
type files struct {
	repository.Repository
	all map[string][]byte
}

func (f files) File(_ context.Context, version, name string) ([]byte, error) {
	if doc, ok := f.all[name]; ok {
		return doc, nil
	}
	return nil, &repository.NotFoundError{Where: "the release", Version: version, Name: name}
}

func TestFlavorsAndClassesAreFilesOfARelease(t *testing.T) {
	t.Parallel()
	r := Release{files{all: unpack(t, "infrastructure-openstack-v0.14.0")}, "v0.14.0"}
	for flavor, want := range map[string]string{"": "kind: OpenStackCluster", "topology": "topology:", "flatcar-sysext": "flatcar"} {
		if doc, err := r.Template(t.Context(), flavor); err != nil || !bytes.Contains(doc, []byte(want)) {
			t.Errorf("flavor %q: error %v, want %q in\n%s", flavor, err, want, doc)
		}
	}
	if _, err := r.Template(t.Context(), "topologies"); !errors.As(err, new(*repository.NotFoundError)) {
		t.Errorf("flavor topologies: error %v", err)
	}
	if doc, err := r.Class(t.Context(), "dev-test"); err != nil || doc == nil {
		t.Errorf("class dev-test: %d bytes, error %v", len(doc), err)
	}
	if doc, err := r.Class(t.Context(), "other"); err != nil || doc != nil {
		t.Errorf("class other: %d bytes, error %v", len(doc), err)
	}
}
