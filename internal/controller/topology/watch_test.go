// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// TestClassChangesTriggerClusters covers the fields that Clusters read and report.
func TestClassChangesTriggerClusters(t *testing.T) {
	t.Parallel()
	said := func(kind, status, reason, message string) func(*clusterv1.ClusterClass) {
		return func(c *clusterv1.ClusterClass) {
			c.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message}}
		}
	}
	for name, tc := range map[string]struct {
		change func(*clusterv1.ClusterClass)
		want   bool
	}{
		"an unobserved spec":      {func(c *clusterv1.ClusterClass) { c.Generation = 2 }, false},
		"a spec that is in order": {func(c *clusterv1.ClusterClass) { c.Status.ObservedGeneration = 2 }, true},
		"another variable": {func(c *clusterv1.ClusterClass) {
			c.Status.Variables = []clusterv1.ClusterClassStatusVariable{{Name: "a"}}
		}, true},
		"what is wrong with variables":   {said("VariablesReady", "False", "VariableDiscoveryFailed", "b conflicts"), true},
		"what is wrong with templates":   {said("RefVersionsUpToDate", "Unknown", "InternalError", "none"), true},
		"an older version of a template": {said("RefVersionsUpToDate", "False", "RefVersionsNotUpToDate", "* T t: v1"), false},
	} {
		is := &clusterv1.ClusterClass{}
		said("VariablesReady", "False", "VariableDiscoveryFailed", "a conflicts")(is)
		if name == "an older version of a template" {
			is.Status.Conditions = nil
		}
		was := is.DeepCopy()
		tc.change(is)
		if got := classMatters().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestReconcileObservesClusterAfterAddingFinalizer checks that it is reconciled then,
// and when it was deleted.
func TestReconcileObservesClusterAfterAddingFinalizer(t *testing.T) {
	t.Parallel()
	bare, held := &clusterv1.Cluster{}, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{clusterv1.ClusterFinalizer}}}
	p := predicate.And(clusterMatters(), notJustCreated())
	for what, got := range map[string]bool{
		"created without":     !p.Create(event.CreateEvent{Object: bare}),
		"there at a start":    p.Create(event.CreateEvent{Object: held}),
		"given its finalizer": p.Update(event.UpdateEvent{ObjectOld: bare, ObjectNew: held}),
		"gone":                p.Delete(event.DeleteEvent{Object: bare}),
	} {
		if !got {
			t.Errorf("%s: not so", what)
		}
	}
}
