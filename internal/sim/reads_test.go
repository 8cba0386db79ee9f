// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
)

// TestIdleReconcilesEndWhenAReadChanges reads objects, changes one, and checks whether
// the reconcile that read them is repeated.
func TestIdleReconcilesEndWhenAReadChanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	node := func(name, zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	}
	get := func(name string) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			_ = c.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Node{})
		}
	}
	list := func(t *testing.T, c client.Client) {
		if err := c.List(t.Context(), &corev1.NodeList{}, client.MatchingLabels{"zone": "a"}); err != nil {
			t.Fatal(err)
		}
	}
	relabel := func(name string) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			n := &corev1.Node{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
				t.Fatal(err)
			}
			n.Labels["x"] = "y"
			if err := c.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(zone string) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			if err := c.Create(t.Context(), node("new", zone)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, client.Client) {
		return func(t *testing.T, c client.Client) {
			if err := c.Delete(t.Context(), node(name, "")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		read, change func(*testing.T, client.Client)
		due, now     time.Time
		want         bool
	}{
		"nothing changes":                    {read: get("a"), want: true},
		"another object changes":             {read: get("a"), change: relabel("b"), want: true},
		"the object changes":                 {read: get("a"), change: relabel("a")},
		"the object is deleted":              {read: get("a"), change: remove("a")},
		"an object that was missing appears": {read: get("new"), change: create("b")},
		"an object outside a list changes":   {read: list, change: relabel("b"), want: true},
		"an object of a list changes":        {read: list, change: relabel("a")},
		"an object of a list is deleted":     {read: list, change: remove("a")},
		"an object outside a list appears":   {read: list, change: create("b"), want: true},
		"an object appears in a list":        {read: list, change: create("a")},
		"not yet due":                        {read: get("a"), due: now.Add(time.Second), want: true},
		"due":                                {read: get("a"), due: now},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := &Reads{}
			m := NewMemory(scheme.Scheme, NewClock(now), reads, nil)
			for _, n := range []*corev1.Node{node("a", "a"), node("b", "b")} {
				if err := m.Create(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			reads.start(false)
			tc.read(t, m)
			last := &idle{reads.all, tc.due}
			reads.start(false)
			if tc.change != nil {
				tc.change(t, m)
			}
			if got := last.holds(now); got != tc.want {
				t.Errorf("holds %v, want %v", got, tc.want)
			}
		})
	}
	if (*idle)(nil).holds(now) {
		t.Error("a reconcile that was not made holds")
	}
}

// TestStatusOfAClusterEndsIdleReconciles changes a Cluster that another controller than
// its own has read.
func TestStatusOfAClusterEndsIdleReconciles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*clusterv1.Cluster)
		same   bool
	}{
		"a phase": {func(c *clusterv1.Cluster) { c.Status.Phase = "Provisioned" }, true},
		"a condition": {func(c *clusterv1.Cluster) {
			c.Status.Conditions = []metav1.Condition{{Type: "Available", Status: "True"}}
		}, true},
		"replicas": {func(c *clusterv1.Cluster) { c.Status.Workers = &clusterv1.WorkersStatus{Replicas: new(int32(1))} }, true},
		"initialized": {func(c *clusterv1.Cluster) {
			c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: "True"}}
		}, false},
		"the infrastructure": {func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }, false},
		"failure domains":    {func(c *clusterv1.Cluster) { c.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}} }, false},
		"a pause":            {func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }, false},
		"an annotation":      {func(c *clusterv1.Cluster) { c.Annotations = map[string]string{"a": "b"} }, false},
	} {
		for _, exact := range []bool{false, true} {
			reads := &Reads{}
			w, err := NewWorld(Options{Clock: NewClock(time.Now()), Reads: reads, Runs: func(controllers.Controller) bool { return false }})
			if err != nil {
				t.Fatal(err)
			}
			c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
			if err := w.Mgmt.Create(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			reads.start(exact)
			if err := w.Mgmt.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
				t.Fatal(err)
			}
			last := &idle{reads: reads.all}
			tc.change(c)
			if err := w.Put(c); err != nil {
				t.Fatal(err)
			}
			if got := last.holds(time.Now()); got != (tc.same && !exact) {
				t.Errorf("%s, exact %v: holds %v", name, exact, got)
			}
		}
	}
}
