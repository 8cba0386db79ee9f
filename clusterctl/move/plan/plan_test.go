// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// object is one by a line "Kind namespace/name <- owner, owner": the UID is the name
// behind the kind.
func object(t *testing.T, line, rest string) *unstructured.Unstructured {
	t.Helper()
	line, owners, _ := strings.Cut(line, " <- ")
	kind, name, _ := strings.Cut(line, " ")
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(rest), &obj.Object); err != nil {
		t.Fatal(err)
	}
	if obj.Object == nil {
		obj.Object = map[string]any{}
	}
	obj.SetAPIVersion(apiVersion(kind))
	obj.SetKind(kind)
	if namespace, short, ok := strings.Cut(name, "/"); ok {
		obj.SetNamespace(namespace)
		name = short
	}
	obj.SetName(name)
	obj.SetUID(types.UID(line))
	var refs []metav1.OwnerReference
	for _, o := range strings.Split(owners, ", ") {
		if kind, name, ok := strings.Cut(o, " "); ok {
			refs = append(refs, metav1.OwnerReference{APIVersion: apiVersion(kind), Kind: kind, Name: name[strings.Index(name, "/")+1:], UID: types.UID(o)})
		}
	}
	if refs != nil {
		obj.SetOwnerReferences(refs)
	}
	return obj
}

func apiVersion(kind string) string {
	switch kind {
	case "Secret", "ConfigMap":
		return "v1"
	case "ClusterResourceSet", "ClusterResourceSetBinding":
		return "addons.cluster.x-k8s.io/v1beta2"
	case "Provider":
		return "clusterctl.cluster.x-k8s.io/v1alpha3"
	}
	return "cluster.x-k8s.io/v1beta2"
}

func TestWhatBelongsToAClusterMovesAfterIt(t *testing.T) {
	t.Parallel()
	move := "metadata: {labels: {" + clusterctlv1.ClusterctlMoveLabel + ": ''}}"
	hierarchy := "metadata: {labels: {" + clusterctlv1.ClusterctlMoveHierarchyLabel + ": ''}}"
	tests := map[string]struct {
		objects [][2]string
		others  []string // Clusters of other namespaces, with the class ns/c
		want    string
		err     string
	}{
		"owners go first": {
			objects: [][2]string{{"Machine ns/m <- MachineSet ns/s"}, {"MachineSet ns/s <- Cluster ns/c"}, {"Cluster ns/c"}},
			want:    "0 Cluster ns/c\n1 MachineSet ns/s\n2 Machine ns/m\n",
		},
		"certificates belong by name": {
			objects: [][2]string{{"Cluster ns/c"}, {"Secret ns/c-ca"}, {"Secret ns/d-ca"}, {"Secret other/c-ca"}},
			want:    "0 Cluster ns/c\n1 Secret ns/c-ca\nSecret ns/d-ca: no Cluster, ClusterClass or ClusterResourceSet owns it, and it has no label clusterctl.cluster.x-k8s.io/move\n",
		},
		"a class goes before its Cluster, and a Cluster before its binding": {
			objects: [][2]string{{"Cluster ns/c", "spec: {topology: {classRef: {name: k}}}"}, {"ClusterClass ns/k"}, {"FooTemplate ns/t <- ClusterClass ns/k"},
				{"ClusterResourceSet ns/r"}, {"ClusterResourceSetBinding ns/c <- ClusterResourceSet ns/r"}},
			want: "0 ClusterClass ns/k\n0 ClusterResourceSet ns/r\n1 Cluster ns/c\n1 FooTemplate ns/t\n2 ClusterResourceSetBinding ns/c\n",
		},
		"a class that another namespace uses stays as well": {
			objects: [][2]string{{"ClusterClass ns/c"}, {"FooTemplate ns/t <- ClusterClass ns/c"}},
			others:  []string{"Cluster other/x"},
			want:    "0 ClusterClass ns/c (Cluster other/x uses ClusterClass ns/c)\n1 FooTemplate ns/t (Cluster other/x uses ClusterClass ns/c)\n",
		},
		"labels": {
			objects: [][2]string{{"Secret ns/a", move}, {"Secret ns/b <- Secret ns/a"}, {"ConfigMap ns/c", hierarchy}, {"Secret ns/d <- ConfigMap ns/c"}},
			want:    "0 ConfigMap ns/c\n0 Secret ns/a\n1 Secret ns/d\nSecret ns/b: it belongs to Secret ns/a, which does not move\n",
		},
		"what is of the whole cluster is kept, with what it owns": {
			objects: [][2]string{{"Identity i", hierarchy}, {"Secret provider/key <- Identity i"}},
			want:    "0 Identity i (it is of the whole management cluster)\n1 Secret provider/key (it belongs to Identity i, which is of the whole management cluster)\n",
		},
		"owners that are not there": {
			objects: [][2]string{{"Cluster ns/c"}, {"Secret ns/s <- Cluster ns/c, Pod ns/p"}, {"Secret ns/t <- Pod ns/p"}},
			want:    "0 Cluster ns/c\n1 Secret ns/s\nSecret ns/t: it belongs to Pod p, which does not move\nSecret ns/s loses its owner Pod p, which does not move\n",
		},
		"what has its place": {
			objects: [][2]string{{"ConfigMap ns/kube-root-ca.crt"}, {"Provider ns/infrastructure-foo"}, {"Secret ns/token", "type: kubernetes.io/service-account-token"}},
			want: "ConfigMap ns/kube-root-ca.crt: every namespace is given its own\nProvider ns/infrastructure-foo: it says what is installed here\n" +
				"Secret ns/token: it is a token of a ServiceAccount here\n",
		},
		"a circle that moves": {
			objects: [][2]string{{"Cluster ns/c <- Machine ns/m"}, {"Machine ns/m <- Cluster ns/c"}, {"Secret ns/s <- Machine ns/m"}},
			err:     "owner references go round in a circle: Cluster ns/c belongs to Machine ns/m belongs to Cluster ns/c: take one of these ownerReferences away",
		},
		"a circle that stays": {
			objects: [][2]string{{"Secret ns/a <- Secret ns/b"}, {"Secret ns/b <- Secret ns/a"}},
			want:    "Secret ns/a: it belongs to Secret ns/b, which does not move\nSecret ns/b: it belongs to Secret ns/a, which does not move\n",
		},
		"one that owns itself": {
			objects: [][2]string{{"Cluster ns/c <- Cluster ns/c"}},
			err:     "owner references go round in a circle: Cluster ns/c belongs to Cluster ns/c: take one of these ownerReferences away",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Namespace: "ns", Kinds: map[schema.GroupKind]Kind{}, CertificateOf: func(cluster, secret string) bool { return secret == cluster+"-ca" }}
			for _, o := range tc.objects {
				obj := object(t, o[0], o[1])
				in.Kinds[obj.GroupVersionKind().GroupKind()] = Kind{GroupVersionKind: obj.GroupVersionKind(), Namespaced: obj.GetKind() != "Identity"}
				in.Objects = append(in.Objects, obj)
			}
			for _, o := range tc.others {
				in.Clusters = append(in.Clusters, object(t, o, "spec: {topology: {classRef: {name: c, namespace: ns}}}"))
			}
			p, err := Make(in)
			if err != nil || tc.err != "" {
				if got := fmt.Sprint(err); got != tc.err {
					t.Errorf("got %s, want %s", got, tc.err)
				}
				return
			}
			var got strings.Builder
			for _, i := range p.Items {
				fmt.Fprintf(&got, "%d %s", i.Group, i)
				if i.Keep != "" {
					fmt.Fprintf(&got, " (%s)", i.Keep)
				}
				got.WriteByte('\n')
			}
			for _, l := range p.Left {
				fmt.Fprintf(&got, "%s: %s\n", l.Object, l.Why)
			}
			for _, n := range p.Notes {
				fmt.Fprintln(&got, n)
			}
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotReadyDoesNotMove(t *testing.T) {
	t.Parallel()
	provisioned := "{status: {initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}}"
	tests := map[string]struct{ object, rest, want string }{
		"ready":                  {"Cluster ns/c", provisioned + "}", ""},
		"ready, in v1beta1":      {"Cluster ns/c", "status: {infrastructureReady: true, conditions: [{type: ControlPlaneInitialized, status: 'True'}]}", ""},
		"no infrastructure":      {"Cluster ns/c", "{}", "Cluster ns/c has no infrastructure yet (status.initialization.infrastructureProvisioned): wait until it is provisioned"},
		"no control plane":       {"Cluster ns/c", "status: {initialization: {infrastructureProvisioned: true}}", "Cluster ns/c has no control plane yet (condition ControlPlaneInitialized): wait until it is initialized"},
		"paused":                 {"Cluster ns/c", provisioned + ", spec: {paused: true}}", "Cluster ns/c is paused: end its pause first, or it would not run after the move either"},
		"a class paused":         {"ClusterClass ns/c", "metadata: {annotations: {cluster.x-k8s.io/paused: ''}}", "ClusterClass ns/c is paused: end its pause first, or it would not run after the move either"},
		"being deleted":          {"Machine ns/m", "{metadata: {deletionTimestamp: '2026-08-01T12:00:00Z'}, status: {nodeRef: {name: node}}}", "Machine ns/m is being deleted: wait until it is gone"},
		"under a plan":           {"Cluster ns/c", "status: {initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}, conditions: [{type: PlanHeld, status: 'True', reason: CarryingOut}]}", "Cluster ns/c is under a plan that is being carried out (condition PlanHeld): the guard does not move; wait for the plan, or end it with capstan apply --release"},
		"that requires plans":    {"Cluster ns/c", "status: {initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}, conditions: [{type: PlanHeld, status: 'False', reason: PlanRequired}]}", ""},
		"machine without a Node": {"Machine ns/m", "{}", "Machine ns/m has no Node yet (status.nodeRef): wait until it has joined, or delete it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := object(t, tc.object, tc.rest)
			p := &Plan{Items: []Item{{Kind: Kind{GroupVersionKind: obj.GroupVersionKind()}, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID()}}}
			got := ""
			if err := p.Ready([]*unstructured.Unstructured{obj}); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheTargetNeedsAllProviders(t *testing.T) {
	t.Parallel()
	foo := func(v string) Provider { return Provider{"foo", "InfrastructureProvider", v} }
	tests := map[string]struct {
		source, target []Provider
		want           string
	}{
		"the same":             {[]Provider{foo("v1.2.0")}, []Provider{foo("v1.2.0")}, ""},
		"a later one":          {[]Provider{foo("v1.2.0")}, []Provider{foo("v1.10.0")}, ""},
		"one of two is enough": {[]Provider{foo("v1.2.0")}, []Provider{foo("v1.1.0"), foo("v1.2.0")}, ""},
		"none":                 {[]Provider{foo("v1.2.0")}, nil, "the target has no provider foo (InfrastructureProvider): install foo v1.2.0 or later there"},
		"one of another type":  {[]Provider{foo("v1.2.0")}, []Provider{{"foo", "CoreProvider", "v1.2.0"}}, "the target has no provider foo (InfrastructureProvider): install foo v1.2.0 or later there"},
		"an older one":         {[]Provider{foo("v1.2.0")}, []Provider{foo("v1.2.0-rc.1")}, "provider foo (InfrastructureProvider) of the target is older than that of the source, v1.2.0-rc.1 instead of v1.2.0: upgrade it there"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Suits(tc.source, tc.target); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestACopyIsWhatTheObjectWas(t *testing.T) {
	t.Parallel()
	from := object(t, "Cluster ns/c <- ClusterClass ns/k, Pod ns/p", "{status: {phase: x}, spec: {a: [1, {b: c}]}}")
	from.SetResourceVersion("7")
	from.SetAnnotations(map[string]string{"keep": "me", clusterctlv1.DeleteForMoveAnnotation: ""})
	from.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"k:{\"uid\":\"ClusterClass ns/k\"}":{}}`)}}})
	i := Item{Kind: Kind{GroupVersionKind: from.GroupVersionKind()}, Namespace: "ns", Name: "c", UID: from.GetUID()}
	got, err := Copy(i, from, Mark{Operation: "op"}, map[types.UID]types.UID{"ClusterClass ns/k": "new"})
	if err != nil {
		t.Fatal(err)
	}
	refs := got.GetOwnerReferences()
	if len(refs) != 1 || refs[0].UID != "new" || got.Object["status"] != nil || got.GetUID() != "" || got.GetResourceVersion() != "" || !Paused(i, got) || got.GetAnnotations()["keep"] != "me" {
		t.Errorf("got %v", got.Object)
	}
	if _, marked := got.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; marked || Paused(i, from) {
		t.Errorf("got %v from %v", got.Object, from.Object)
	}
	mark := MarkOf(got)
	if mark.Operation != "op" || mark.UID != from.GetUID() || len(mark.ManagedFields) != 1 || string(mark.ManagedFields[0].FieldsV1.Raw) != `{"k:{\"uid\":\"new\"}":{}}` {
		t.Errorf("got %+v", mark)
	}
	seal := Seal(i, got, "op", false)
	want := map[string]any{"spec": map[string]any{"paused": nil}, "metadata": map[string]any{"annotations": map[string]any{Annotation: nil}, "managedFields": mark.ManagedFields}}
	if diff := cmp.Diff(want, seal); diff != "" {
		t.Errorf("the end of it (-want +got):\n%s", diff)
	}
}

// TestSealEndsAPause of copies, and of originals that move: another pause is that of a
// user.
func TestSealEndsAPause(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Cluster", "ClusterClass"} {
		obj := object(t, kind+" ns/c", "{spec: {paused: true}, metadata: {annotations: {cluster.x-k8s.io/paused: x}}}")
		i := Item{Kind: Kind{GroupVersionKind: obj.GroupVersionKind()}, Namespace: "ns", Name: "c", UID: obj.GetUID()}
		if Seal(i, obj, "op", true) == nil {
			t.Errorf("a %s that moves stays paused", kind)
		}
		another, kept := i, i
		another.UID, kept.Keep = "another", "it stays"
		for what, patch := range map[string]map[string]any{
			"at the target": Seal(i, obj, "op", false), "created again": Seal(another, obj, "op", true), "that stays": Seal(kept, obj, "op", true),
		} {
			if patch != nil {
				t.Errorf("the pause of a %s %s ends: %v", kind, what, patch)
			}
		}
	}
}

func TestDifferencesAreWhatACopyLacks(t *testing.T) {
	t.Parallel()
	want := object(t, "Secret ns/s", "{data: {a: eA==}, list: [{x: 1}, 2], metadata: {labels: {l: v}, finalizers: [f]}}")
	tests := map[string]struct {
		rest string
		want []string
	}{
		"the same":         {"{data: {a: eA==}, list: [{x: 1}, 2], metadata: {labels: {l: v}, finalizers: [f]}}", nil},
		"with defaults":    {"{data: {a: eA==, b: eQ==}, list: [{x: 1, y: 2}, 2], type: Opaque, metadata: {labels: {l: v, m: w}, finalizers: [f, g]}}", nil},
		"another value":    {"{data: {a: eQ==}, list: [{x: 2}, 2], metadata: {labels: {l: w}, finalizers: [f]}}", []string{".data.a", ".list[0].x", ".metadata.labels.l"}},
		"what was dropped": {"{data: {a: eA==}, list: [{x: 1}]}", []string{".list", ".metadata.finalizers f", ".metadata.labels.l"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Differences(want, object(t, "Secret ns/s", tc.rest)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
