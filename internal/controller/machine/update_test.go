// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/extensions"
)

// willing completes each requested update immediately.
type willing struct{ extensions.Hooks }

// GetAllExtensions implements updates.Hooks.
func (willing) GetAllExtensions(context.Context, any, metav1.Object) ([]string, error) {
	return []string{"update.files"}, nil
}

// CallAllExtensions implements updates.Hooks.
func (willing) CallAllExtensions(context.Context, any, metav1.Object, hooksv1.RequestObject, hooksv1.ResponseObject) error {
	return nil
}

// TestAMarkThatTheCacheDoesNotShowYetGoesToo has an extension that completes before
// the cache shows that the update has started.
func TestAMarkThatTheCacheDoesNotShowYetGoesToo(t *testing.T) {
	t.Parallel()
	mark := func(u *unstructured.Unstructured) *unstructured.Unstructured {
		u.SetAnnotations(map[string]string{clusterv1.UpdateInProgressAnnotation: ""})
		return u
	}
	w := newWorld(t, cluster(), machine(running), bootstrapped(), provisioned(), node())
	m := w.settle()
	m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: "", runtimev1.PendingHooksAnnotation: "UpdateMachine"}
	if err := w.mgmt.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.r.Extensions = extensions.InPlaceHooks{Hooks: willing{}}
	w.r.Live = newWorld(t, mark(bootstrapped()), mark(provisioned())).mgmt
	m, _, err := w.reconcile()
	if err != nil || m.Annotations[runtimev1.PendingHooksAnnotation] != "" {
		t.Fatalf("annotations %v, error %v", m.Annotations, err)
	}
	for _, want := range []string{"patch Config", "patch Host"} {
		if !slices.Contains(w.writes, want) {
			t.Errorf("writes %v, want %s, whose mark goes", w.writes, want)
		}
	}
}
