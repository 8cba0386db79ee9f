// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
)

// TestAdmissionChangesOrRefusesWrites sends each kind of write to a world that refuses
// paused Clusters and sets a label on the others.
func TestAdmissionChangesOrRefusesWrites(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	calls := 0
	w, err := NewWorld(Options{
		Clock: NewClock(time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)),
		Runs:  func(controllers.Controller) bool { return false },
		Admit: func(old, obj *unstructured.Unstructured, stored int) error {
			if calls++; (stored == 0) != (old == nil) {
				t.Errorf("%d are stored", stored)
			}
			if paused, _, _ := unstructured.NestedBool(obj.Object, "spec", "paused"); paused {
				return no
			}
			obj.SetLabels(map[string]string{"new": map[bool]string{true: "yes", false: "no"}[old == nil]})
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.store.acts = "test"
	ctx := t.Context()
	cluster := func(paused bool) *clusterv1.Cluster {
		return &clusterv1.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: clusterv1.ClusterSpec{Paused: &paused},
		}
	}
	stored := func() *clusterv1.Cluster {
		c := &clusterv1.Cluster{}
		if err := w.Mgmt.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "a"}, c); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := w.Mgmt.Create(ctx, cluster(true)); !errors.Is(err, no) || stored().Name != "" || w.Writes() != 0 {
		t.Errorf("a creation that is refused: %v, %d writes", err, w.Writes())
	}
	c := cluster(false)
	if err := w.Mgmt.Create(ctx, c); err != nil || c.Labels["new"] != "yes" || stored().Labels["new"] != "yes" {
		t.Errorf("a creation: %v, %v", err, c.Labels)
	}
	writes := w.Writes()
	apply := func(c *clusterv1.Cluster) error {
		of, err := encode(c)
		if err != nil {
			return err
		}
		return w.Mgmt.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: of}), client.FieldOwner("test"), client.ForceOwnership)
	}
	update := func(c *clusterv1.Cluster) error {
		c.ResourceVersion = stored().ResourceVersion
		return w.Mgmt.Update(ctx, c)
	}
	for name, send := range map[string]func(*clusterv1.Cluster) error{"an apply": apply, "an update": update} {
		if err := send(cluster(true)); !errors.Is(err, no) || *stored().Spec.Paused || w.Writes() != writes {
			t.Errorf("%s that is refused: %v, %d writes", name, err, w.Writes()-writes)
		}
	}
	before := calls
	labelled := stored()
	labelled.Annotations = map[string]string{"a": "b"}
	labelled.Status.Phase = "Provisioned"
	if err := errors.Join(w.Mgmt.Update(ctx, labelled), w.Mgmt.Status().Update(ctx, labelled)); err != nil || calls != before {
		t.Errorf("writes that do not change spec: %v, %d calls", err, calls-before)
	}
	changed := cluster(false)
	changed.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "x"}}
	if err := update(changed); err != nil || stored().Labels["new"] != "no" || stored().Generation != 2 {
		t.Errorf("a change: %v, %v, generation %d", err, stored().Labels, stored().Generation)
	}
}
