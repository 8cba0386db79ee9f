// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// propagation is what becomes of what an object owns: what the client asks
// for, else what the finalizers say that somebody gave the object, else what
// is usual for the kind.
func propagation(k *kinds.Kind, u *unstructured.Unstructured, o metav1.DeleteOptions) metav1.DeletionPropagation {
	switch {
	case o.PropagationPolicy != nil:
		return *o.PropagationPolicy
	case o.OrphanDependents != nil && *o.OrphanDependents: // old clients send it
		return metav1.DeletePropagationOrphan
	case o.OrphanDependents != nil:
		return metav1.DeletePropagationBackground
	case slices.Contains(u.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(u.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	case k.Resource == "jobs", k.Resource == "replicationcontrollers": // since before there was garbage collection
		return metav1.DeletePropagationOrphan
	}
	return metav1.DeletePropagationBackground
}

// blocking lists what an object owns and says that it has to go first.
func (s *Store) blocking(owner *store.Entry) []*store.Entry {
	return slices.DeleteFunc(s.dependents(owner), func(e *store.Entry) bool {
		u, err := Parse(e)
		return err == nil && !slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return r.UID == owner.UID && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
		})
	})
}

// collect deletes an object whose owners all are gone, or never were. One in
// another namespace is none.
func (s *Store) collect(e *store.Entry) {
	if len(e.Owners) == 0 {
		return
	}
	owned := func(o *store.Entry) bool {
		return (o.Key.Namespace == "" || o.Key.Namespace == e.Key.Namespace) && slices.Contains(e.Owners, o.UID)
	}
	if len(s.raw.Select(owned)) == 0 {
		s.deleteEntry(e, metav1.DeletePropagationBackground)
	}
}

// remain says in the status of a namespace what it waits for.
func (s *Store) remain(ns *store.Entry, left []*store.Entry) {
	resources, finalizers := map[string]int{}, map[string]int{}
	for _, e := range left {
		resources[e.Key.Resource.Resource+"."+e.Key.Resource.Group]++
		if u, err := Parse(e); err == nil {
			for _, f := range u.GetFinalizers() {
				finalizers[f]++
			}
		}
	}
	count := func(of map[string]int, format string) string {
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(of)) {
			parts = append(parts, fmt.Sprintf(format, name, of[name]))
		}
		return strings.Join(parts, ", ")
	}
	type condition = corev1.NamespaceCondition
	want := []condition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain", Message: "Some resources are remaining: " + count(resources, "%s has %d resource instances")},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain", Message: "Some content in the namespace has finalizers remaining: " + count(finalizers, "%s in %d resource instances")},
	}
	if len(finalizers) == 0 {
		want[4].Status, want[4].Reason, want[4].Message = corev1.ConditionFalse, "ContentHasNoFinalizers", "All content-preserving finalizers finished"
	}
	err := Modify(s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Key.Name}}, func(n *corev1.Namespace) error {
		for i := range want {
			want[i].LastTransitionTime = metav1.NewTime(s.clock.Now())
			for _, c := range n.Status.Conditions {
				if c.Type == want[i].Type && c.Status == want[i].Status {
					want[i].LastTransitionTime = c.LastTransitionTime
				}
			}
		}
		n.Status.Conditions = want
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.Error(err, "Saying what a namespace waits for", "name", ns.Key.Name)
	}
}
