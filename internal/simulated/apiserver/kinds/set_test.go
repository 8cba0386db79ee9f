// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// definition has a kind, in lower case and a plural with s, in versions: "v1 served storage".
// Conditions are those of its status.
func definition(t *testing.T, group, kind, conditions string, versions ...string) kinds.Defined {
	t.Helper()
	var text strings.Builder
	plural := strings.ToLower(kind) + "s"
	names := fmt.Sprintf("{plural: %s, singular: %s, kind: %s, listKind: %sList, shortNames: [x], categories: [all]}", plural, strings.ToLower(kind), kind, kind)
	fmt.Fprintf(&text, "metadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: %s\n  versions:\n", plural, group, group, names)
	for _, v := range versions {
		f := strings.Fields(v)
		fmt.Fprintf(&text, "  - {name: %s, served: %v, storage: %v, subresources: {status: {}, scale: {specReplicasPath: .spec.a, statusReplicasPath: .status.a}}, schema: {openAPIV3Schema: {type: object}}}\n",
			f[0], slices.Contains(f, "served"), slices.Contains(f, "storage"))
	}
	fmt.Fprintf(&text, "status:\n  acceptedNames: %s\n  conditions: [", names)
	for c := range strings.FieldsSeq(conditions) {
		fmt.Fprintf(&text, `{type: %s, status: "True"}, `, c)
	}
	text.WriteString("]\n")
	raw, err := yaml.YAMLToJSON([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	d, state, err := crds.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	return kinds.Defined{Definition: d, State: state}
}

// names lists kinds by group, version and resource.
func names(list []*kinds.Kind) (out []string) {
	for _, k := range list {
		out = append(out, k.GroupVersion().String()+" "+k.Resource)
	}
	return out
}

func TestWithServesEstablishedVersions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		definitions []kinds.Defined
		want        []string // what is served in addition
	}{
		"nothing": {},
		"versions, the most stable first": {
			[]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1alpha1 served", "v2 served", "v1 served storage", "v1beta2 served", "v10 served")},
			[]string{"b.com/v10 foos", "b.com/v2 foos", "b.com/v1 foos", "b.com/v1beta2 foos", "b.com/v1alpha1 foos"},
		},
		"groups in order": {
			[]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 served storage"), definition(t, "a.com", "Bar", "Established", "v1 served storage")},
			[]string{"a.com/v1 bars", "b.com/v1 foos"},
		},
		"a version that is not served": {
			[]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 served", "v2 storage")},
			[]string{"b.com/v1 foos"},
		},
		"not established":        {definitions: []kinds.Defined{definition(t, "b.com", "Foo", "NamesAccepted", "v1 served storage")}},
		"no storage version":     {definitions: []kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 served")}},
		"nothing to serve":       {definitions: []kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 storage")}},
		"one that is deleted":    {[]kinds.Defined{definition(t, "b.com", "Foo", "Established Terminating", "v1 served storage")}, []string{"b.com/v1 foos"}},
		"a built-in kind's name": {[]kinds.Defined{definition(t, "b.com", "Pod", "Established", "v1 served storage")}, []string{"b.com/v1 pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := kinds.Everywhere().With(tc.definitions)
			built := names(kinds.Everywhere().All())
			if diff := cmp.Diff(append(slices.Clone(built), tc.want...), names(served.All())); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(built, names(kinds.Everywhere().All())); diff != "" {
				t.Errorf("another cluster serves it, too (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKindsAreFoundByTheirNames(t *testing.T) {
	t.Parallel()
	served := kinds.Everywhere().With([]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 served", "v2 storage")})
	v1 := served.ByKind(gvk("b.com", "v1", "Foo"))
	if v1 == nil || v1 != served.ByResource(schema.GroupVersionResource{Group: "b.com", Version: "v1", Resource: "foos"}) || v1.StoredAs != gvk("b.com", "v2", "Foo") {
		t.Errorf("served version %+v", v1)
	}
	if k := served.ByGroupResource(schema.GroupResource{Group: "b.com", Resource: "foos"}); k == nil || k.Version != "v2" || k.GroupVersionKind != k.StoredAs {
		t.Errorf("stored version %+v", k)
	}
	if k := served.ByKind(gvk("b.com", "v2", "Foo")); k != nil {
		t.Errorf("a version that is not served was found: %+v", k)
	}
	pods := kinds.ByType(&corev1.Pod{})
	if served.ByKind(gvk("", "v1", "Pod")) != pods || served.ByGroupResource(pods.GroupResource()) != pods || served.ByResource(pods.GVR()) != pods {
		t.Error("a built-in kind is not found")
	}
	if kinds.Everywhere().ByKind(gvk("b.com", "v1", "Foo")) != nil || kinds.Everywhere().ByGroupResource(schema.GroupResource{Group: "b.com", Resource: "foos"}) != nil {
		t.Error("another cluster serves it, too")
	}
	if kinds.ByType(&metav1.Status{}) != nil {
		t.Error("a type that is no resource was found")
	}
}

func TestKindHasWhatItsDefinitionDeclares(t *testing.T) {
	t.Parallel()
	live := kinds.Everywhere().With([]kinds.Defined{definition(t, "b.com", "Foo", "Established", "v1 served storage")}).ByKind(gvk("b.com", "v1", "Foo"))
	for sub, want := range map[string]bool{"": true, "status": true, "scale": true, "log": false, "finalize": false} {
		if got := live.HasSub(sub); got != want {
			t.Errorf("subresource %q: %v, want %v", sub, got, want)
		}
	}
	if live.Resource != "foos" || live.Singular() != "foo" || live.List != "FooList" || !live.Namespaced || !live.Generation || !live.Versioned() || !slices.Equal(live.Short, []string{"x"}) {
		t.Errorf("kind %+v", live)
	}
	leaving := kinds.Everywhere().With([]kinds.Defined{definition(t, "b.com", "Foo", "Established Terminating", "v1 served storage")}).ByKind(gvk("b.com", "v1", "Foo"))
	for verb, want := range map[string][2]bool{"create": {true, false}, "update": {true, false}, "patch": {true, false}, "get": {true, true}, "list": {true, true}, "watch": {true, true}, "delete": {true, true}, "deletecollection": {true, true}} {
		if got := [2]bool{slices.Contains(live.Verbs, verb), slices.Contains(leaving.Verbs, verb)}; got != want {
			t.Errorf("%s: %v, want %v", verb, got, want)
		}
	}
	if live.Terminating || !leaving.Terminating {
		t.Errorf("terminating %v and %v", live.Terminating, leaving.Terminating)
	}
}

func TestVersionedKindsAreReplacedByVersion(t *testing.T) {
	t.Parallel()
	for resource, want := range map[string]bool{"leases.coordination.k8s.io": true, "customresourcedefinitions.apiextensions.k8s.io": true, "poddisruptionbudgets.policy": true, "pods": false, "deployments.apps": false} {
		if got := kinds.Everywhere().ByGroupResource(schema.ParseGroupResource(resource)).Versioned(); got != want {
			t.Errorf("%s: %v, want %v", resource, got, want)
		}
	}
}
