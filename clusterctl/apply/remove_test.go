// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// serve has the API server list kinds.
func (w *world) serve() {
	verbs := metav1.Verbs{"list", "delete"}
	w.lists = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Kind: "Namespace", Verbs: verbs}, {Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true, Verbs: verbs},
			{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: verbs}, {Name: "componentstatuses", Kind: "ComponentStatus", Verbs: metav1.Verbs{"list"}},
			{Name: "serviceaccounts/token", Kind: "TokenRequest", Namespaced: true, Verbs: verbs},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: verbs}, {Name: "replicasets", Kind: "ReplicaSet", Namespaced: true, Verbs: verbs}}},
		{GroupVersion: "rbac.authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "clusterroles", Kind: "ClusterRole", Verbs: verbs}}},
		{GroupVersion: "apiextensions.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition", Verbs: verbs}}},
	}
}

func labelled(t *testing.T, apiVersion, kind, namespace, name, label string) *unstructured.Unstructured {
	t.Helper()
	obj := read(t, "{apiVersion: "+apiVersion+", kind: "+kind+"}")
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetLabels(map[string]string{"provider": label})
	return obj
}

func names(objects []*unstructured.Unstructured) (all []string) {
	for _, obj := range objects {
		all = append(all, Name(obj))
	}
	slices.Sort(all)
	return all
}

func TestWhatAProviderHasIsFound(t *testing.T) {
	t.Parallel()
	const apps, rbac = "apps/v1", "rbac.authorization.k8s.io/v1"
	w := newWorld(t)
	w.serve()
	for _, obj := range []*unstructured.Unstructured{
		labelled(t, "v1", "Namespace", "", "a", "p"), labelled(t, "v1", "Namespace", "", "other", "p"),
		labelled(t, "v1", "ServiceAccount", "a", "one", "p"), labelled(t, "v1", "ServiceAccount", "a", "two", "q"), labelled(t, "v1", "ServiceAccount", "other", "one", "p"),
		labelled(t, "v1", "Pod", "a", "derived", "p"), labelled(t, apps, "ReplicaSet", "a", "derived", "p"), labelled(t, apps, "Deployment", "a", "m", "p"),
		labelled(t, rbac, "ClusterRole", "", "a-role", "p"), labelled(t, rbac, "ClusterRole", "", "shared", "p"),
		labelled(t, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "things.x.io", "p"),
	} {
		if err := w.Client().Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	// An aggregated API that is not available has no objects of a provider.
	w.listErr = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1"}: errors.New("down")}}
	found, err := w.Find(t.Context(), map[string]string{"provider": "p"}, "a")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{"objects": names(found.Objects), "namespace": names(found.Namespace), "definitions": names(found.Definitions), "shared": names(found.Shared)}
	want := map[string][]string{
		"objects": {"ClusterRole a-role", "Deployment a/m", "ServiceAccount a/one"}, "namespace": {"Namespace a"},
		"definitions": {"CustomResourceDefinition things.x.io"}, "shared": {"ClusterRole shared"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	w.listErr = errCut
	if _, err := w.Find(t.Context(), nil, "a"); !errors.Is(err, errCut) {
		t.Errorf("got %v, want that kinds cannot be listed", err)
	}
}

func TestWebhooksAreDeletedFirstAndWhatIsGoneIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hook := read(t, "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: h}}")
		w := newWorld(t, account, manager)
		if err := w.Client().Create(t.Context(), hook.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		w.done = nil
		gone := read(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: gone, namespace: a}}")
		if err := w.Delete(t.Context(), append(readAll(t, account, manager), gone, hook)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"delete ValidatingWebhookConfiguration h", "delete ServiceAccount a/one", "delete Deployment a/m", "delete ServiceAccount a/gone"}, w.done); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
	})
}

func TestRemoveContinuesAfterRefusedDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account, manager)
	w.refuse = func(what string) error {
		if what == "delete ServiceAccount a/one" {
			return refused("serviceaccounts", "one", "not you")
		}
		return nil
	}
	err := w.Ask(t.Context(), readAll(t, account, manager))
	if err == nil || !strings.Contains(err.Error(), "delete ServiceAccount a/one: ") || w.live(t, read(t, manager)) != nil {
		t.Errorf("got %v, done %v", err, w.done)
	}
}

func TestWhatHoldsADeletionIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const held = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: one, namespace: a, uid: first, finalizers: [x.io/f]}}"
		w, begin := newWorld(t, held), time.Now()
		err := w.Delete(t.Context(), readAll(t, held))
		if want := "ServiceAccount a/one is still being deleted: finalizers x.io/f hold it"; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "not gone after 2m0s") {
			t.Errorf("got %v, want %q", err, want)
		}
		if took := time.Since(begin); took != goneTimeout {
			t.Errorf("waited %s", took)
		}
		why := errors.New("the user pressed Ctrl-C")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := w.waitGone(ctx, readAll(t, held)); !errors.Is(err, why) {
			t.Errorf("got %v, want why", err)
		}
		second := read(t, held)
		second.SetUID("of an earlier one")
		if err := w.waitGone(t.Context(), []*unstructured.Unstructured{second}); err != nil {
			t.Errorf("one of the same name is not it: %v", err)
		}
	})
}

func TestObjectsOfDefinitionsAreNamed(t *testing.T) {
	t.Parallel()
	// The kinds of the definition are those of the fake cluster.
	w := newWorld(t, account, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: two, namespace: b}}", namespace)
	of := func(group, kind string) *unstructured.Unstructured {
		return read(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: '"+group+"', names: {kind: "+kind+"}}}")
	}
	got, err := w.Objects(t.Context(), []*unstructured.Unstructured{of("", "ServiceAccount"), of("x.io", "NotServed"), of("", "Namespace")})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ServiceAccount a/one", "ServiceAccount b/two", "Namespace a"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
