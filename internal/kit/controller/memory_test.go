// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestMemoryMeansTheVeryObject(t *testing.T) {
	t.Parallel()
	set := func(name string, uid types.UID) client.Object {
		return &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	}
	var m Memory[int]
	m.Set(set("a", "1"), 1)
	m.Set(set("b", "2"), 2)
	for name, tc := range map[string]struct {
		obj  client.Object
		want int
	}{
		"what was set":         {set("a", "1"), 1},
		"of another":           {set("b", "2"), 2},
		"of one created again": {set("a", "3"), 0},
		"of an unknown one":    {set("c", "1"), 0},
	} {
		if got := m.Get(tc.obj); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
	m.Forget(client.ObjectKeyFromObject(set("a", "")))
	if got := m.Get(set("a", "1")); got != 0 || len(m.of) != 1 {
		t.Errorf("forgotten, yet %d, and %d are kept", got, len(m.of))
	}
}

// counting counts the reconciles of each object.
type counting struct{ Memory[int] }

func (c *counting) Reconcile(_ context.Context, set *clusterv1.MachineSet) (ctrl.Result, error) {
	c.Set(set, c.Get(set)+1)
	return ctrl.Result{}, nil
}

func TestReconcilerReceivesDeletedObjects(t *testing.T) {
	t.Parallel()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name, UID: "1"}}
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(set).Build()
	inner := &counting{}
	w := &runner[*clusterv1.MachineSet]{
		mgmt: c, inner: inner, make: func() *clusterv1.MachineSet { return &clusterv1.MachineSet{} }, pending: newPending(c, c, clock.RealClock{}),
		retries: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry), forget: forgetting(inner),
	}
	for range 2 {
		if _, err := w.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if got := inner.Get(set); got != 2 {
		t.Errorf("seen %d times, want 2", got)
	}
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reconcile(t.Context(), request); err != nil || len(inner.of) != 0 {
		t.Errorf("%d remembered, %v", len(inner.of), err)
	}
}
