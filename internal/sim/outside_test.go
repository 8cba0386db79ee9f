// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/builder"
)

// none selects no controller.
func none(controllers.Controller) bool { return false }

// widgets defines a kind of another provider with a list by key.
func widgets(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return builder.Parse[apiextensionsv1.CustomResourceDefinition](t, `
metadata: {name: widgets.example.com, labels: {cluster.x-k8s.io/v1beta2: v1}}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`)
}

func widget(name string, parts ...any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"parts": parts}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	u.SetNamespace("default")
	u.SetName(name)
	return u
}

func part(name string, size int64) any { return map[string]any{"name": name, "size": size} }

// TestWorldServesForeignKinds reads, applies and deletes objects of a kind that only a
// definition describes.
func TestWorldServesForeignKinds(t *testing.T) {
	t.Parallel()
	old := widget("old", part("a", 1))
	old.SetUID("before")
	w := begin(t, Options{Clock: NewClock(time.Unix(0, 0)), Definitions: []*apiextensionsv1.CustomResourceDefinition{widgets(t)}, Objects: []client.Object{old}, Runs: none})
	if !slices.Contains(w.Kinds(), old.GroupVersionKind()) {
		t.Errorf("kinds %v", w.Kinds())
	}
	got := widget("old")
	w.must(w.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(old), got))
	if got.GetUID() != "before" {
		t.Errorf("UID %q", got.GetUID())
	}
	// Two managers own one part each.
	for manager, name := range map[string]string{"x": "b", "y": "c"} {
		w.must(w.Mgmt.Patch(t.Context(), widget("new", part(name, 1)), client.Apply, client.FieldOwner(manager)))
	}
	w.must(w.Mgmt.Patch(t.Context(), widget("new"), client.Apply, client.FieldOwner("x")))
	got = widget("new")
	w.must(w.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(got), got))
	if parts, _, _ := unstructured.NestedSlice(got.Object, "spec", "parts"); len(parts) != 1 || parts[0].(map[string]any)["name"] != "c" {
		t.Errorf("parts %v, want that of the other manager", parts)
	}
	w.must(unstructured.SetNestedField(got.Object, "up", "status", "phase"))
	w.must(unstructured.SetNestedField(got.Object, int64(5), "spec", "size"))
	w.must(w.Mgmt.Status().Update(t.Context(), got))
	w.must(w.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(got), got))
	phase, _, _ := unstructured.NestedString(got.Object, "status", "phase")
	if _, sized, _ := unstructured.NestedInt64(got.Object, "spec", "size"); phase != "up" || sized {
		t.Errorf("phase %q; an update of the status writes spec: %t", phase, sized)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WidgetList"})
	w.must(w.Mgmt.List(t.Context(), list))
	w.must(w.Mgmt.Delete(t.Context(), got))
	if stored := w.Stored(old.GroupVersionKind()); len(list.Items) != 2 || len(stored) != 1 || stored[0].GetName() != "old" {
		t.Errorf("%d objects, then %d", len(list.Items), len(stored))
	}
}

// TestPutStoresAsAnotherServer checks that UID, managedFields and creation time stay,
// and that readers get the object that replaces another.
func TestPutStoresAsAnotherServer(t *testing.T) {
	t.Parallel()
	w := begin(t, Options{Clock: NewClock(time.Unix(0, 0)), Runs: none})
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "c", UID: "theirs", Generation: 7, CreationTimestamp: metav1.Unix(5, 0),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "cluster.x-k8s.io/v1beta2", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}}},
	}}
	kind := clusterv1.GroupVersion().WithKind("Cluster")
	var versions []string
	for i, paused := range []bool{false, true} {
		c.Spec.Paused = &paused
		writes := w.Writes()
		w.must(w.Put(c))
		got := &clusterv1.Cluster{}
		w.must(w.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(c), got))
		if got.UID != "theirs" || got.Generation != 7 || !got.CreationTimestamp.Equal(&c.CreationTimestamp) || len(got.ManagedFields) != 1 || *got.Spec.Paused != paused {
			t.Errorf("%d: %+v", i, got)
		}
		if w.Writes() != writes+1 || len(w.Stored(kind)) != 1 {
			t.Errorf("%d: %d writes, %d objects", i, w.Writes()-writes, len(w.Stored(kind)))
		}
		versions = append(versions, got.ResourceVersion)
	}
	if versions[0] == versions[1] {
		t.Errorf("the resourceVersion %s is that of two contents", versions[0])
	}
	// A server that applies afterwards respects the managers.
	u := &unstructured.Unstructured{}
	w.decode([]byte(`{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"namespace": "default", "name": "c"}, "spec": {"paused": false}}`), u)
	if err := w.Mgmt.Patch(t.Context(), u, client.Apply, client.FieldOwner("other")); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict with kubectl", err)
	}
}

// TestWorldRunsSelectedControllers creates a Cluster with and without controllers.
func TestWorldRunsSelectedControllers(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]func(controllers.Controller) bool{"none": none, "all": nil, "one": func(c controllers.Controller) bool { return c.Name == "cluster" }} {
		w := newWith(t, func(o *Options) { o.Runs = runs })
		created := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		w.must(w.Mgmt.Create(t.Context(), created))
		w.Run()
		c := get(t, w, "c", &clusterv1.Cluster{})
		if acted := len(c.Finalizers) > 0; acted != (runs == nil || name == "one") {
			t.Errorf("%s: finalizers %v", name, c.Finalizers)
		}
	}
}

// TestWorldReportsSteadyStates checks when Act and the function given to Pass are called.
func TestWorldReportsSteadyStates(t *testing.T) {
	t.Parallel()
	clock := NewClock(time.Unix(0, 0))
	var acts int
	var states []time.Duration
	w := begin(t, Options{
		Clock: clock, Runs: none,
		Act: func(ctx context.Context, mgmt client.Client) error {
			if acts++; acts > 2 {
				return nil
			}
			if acts == 2 {
				clock.Await(time.Minute)
			}
			return mgmt.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}})
		},
	})
	steady := func() bool {
		states = append(states, clock.Now().Sub(time.Unix(0, 0)))
		return false
	}
	if _, err := w.Pass(t.Context(), 0, steady); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("error %v, want that of the second act", err)
	}
	if len(states) != 0 {
		t.Errorf("steady after %v, although an act failed", states)
	}
	_, err := w.Pass(t.Context(), 2*time.Minute, steady)
	w.must(err)
	if want := []time.Duration{0, time.Minute}; !slices.Equal(want, states) {
		t.Errorf("steady after %v, want %v", states, want)
	}
}

// recorded records calls of extensions.
type recorded struct{ hosts []string }

func (r *recorded) Post(_ context.Context, e transport.Endpoint, _ string, _ []byte) ([]byte, error) {
	r.hosts = append(r.hosts, e.Host())
	return []byte(`{"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoveryResponse", "status": "Success"}`), nil
}

func (r *recorded) Probe(ctx context.Context, e transport.Endpoint, path string, body []byte) ([]byte, error) {
	return r.Post(ctx, e, path, body)
}

func (*recorded) Forget(transport.Endpoint) {}

// TestCallsReplaceExtensions checks that the extension of the Options is not called if
// Calls are given.
func TestCallsReplaceExtensions(t *testing.T) {
	t.Parallel()
	calls := &recorded{}
	w := newWith(t, func(o *Options) { o.Calls = calls })
	register(t, w, "sizes")
	w.Run()
	config := &runtimev1.ExtensionConfig{}
	w.must(w.Mgmt.Get(t.Context(), client.ObjectKey{Name: "sizes"}, config))
	if len(calls.hosts) == 0 || calls.hosts[0] != "sizes.example.com:443" {
		t.Errorf("calls %v, conditions %v", calls.hosts, config.Status.Conditions)
	}
}

// TestMemoryIsAServerOfItsScheme writes objects of a workload cluster.
func TestMemoryIsAServerOfItsScheme(t *testing.T) {
	t.Parallel()
	clock := NewClock(time.Unix(50, 0))
	node := corev1.SchemeGroupVersion.WithKind("Node")
	m := NewMemory(scheme.Scheme, clock, nil, []schema.GroupVersionKind{node}, Index{Kind: node, Field: "spec.providerID", Of: func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "x://n", Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(m.Create(t.Context(), n))
	if n.UID == "" || n.Generation != 1 || n.CreationTimestamp.Unix() != 50 || len(n.ManagedFields) != 0 {
		t.Errorf("created: %+v", n.ObjectMeta)
	}
	if err := m.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: error %v", err)
	}
	var found corev1.NodeList
	for id, want := range map[string]int{"x://n": 1, "x://other": 0} {
		must(m.List(t.Context(), &found, client.MatchingFields{"spec.providerID": id}))
		if len(found.Items) != want {
			t.Errorf("%s: %d Nodes", id, len(found.Items))
		}
	}

	// A strategic merge patch merges taints of other keys, where a merge patch
	// replaces the list.
	must(m.Patch(t.Context(), n, client.RawPatch(types.StrategicMergePatchType, []byte(`{"metadata": {"labels": {"l": "1"}}, "status": {"phase": "Running"}, "spec": {"unschedulable": true}}`))))
	must(m.Get(t.Context(), client.ObjectKey{Name: "n"}, n))
	if !n.Spec.Unschedulable || n.Labels["l"] != "1" || len(n.Spec.Taints) != 1 || n.Status.Phase != "" {
		t.Errorf("patched: labels %v, %+v, phase %q", n.Labels, n.Spec, n.Status.Phase)
	}
	before := n.DeepCopy()
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "A", Status: corev1.ConditionTrue})
	must(m.Status().Patch(t.Context(), n, client.StrategicMergeFrom(before)))
	before = n.DeepCopy()
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "B", Status: corev1.ConditionTrue})
	must(m.Status().Patch(t.Context(), n, client.StrategicMergeFrom(before)))
	must(m.Status().Patch(t.Context(), n, client.RawPatch(types.StrategicMergePatchType, []byte(`{"status": {"conditions": [{"type": "B", "status": "False"}]}}`))))
	if c := n.Status.Conditions; len(c) != 2 || c[0].Status != corev1.ConditionTrue || c[1].Status != corev1.ConditionFalse {
		t.Errorf("conditions %v", c)
	}

	put := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "theirs"}}
	must(m.Put(t.Context(), put))
	must(m.Get(t.Context(), client.ObjectKey{Name: "n"}, n))
	if n.UID != "theirs" || n.Spec.ProviderID != "" {
		t.Errorf("put: UID %s, %+v", n.UID, n.Spec)
	}
	must(m.Delete(t.Context(), n))
	if err := m.Get(t.Context(), client.ObjectKey{Name: "n"}, n); !apierrors.IsNotFound(err) {
		t.Errorf("deleted: error %v", err)
	}
}
