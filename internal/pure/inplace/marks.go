// SPDX-License-Identifier: Apache-2.0

// Package inplace decides about updates of Machines in place: whether an extension's
// answer makes one possible, the desired state of the objects, and the progress of an
// update.
//
// An update is marked on the Machine and on the objects that it refers to. The marks let
// it continue after a restart. Their order is:
//
//  1. The Machine is marked as in progress: by the MachineSet that hands it over, or by
//     its control plane. From here on it counts as unavailable.
//  2. The Machine of a MachineSet waits until its MachineDeployment has counted it with
//     the new MachineSet.
//  3. Its owner writes the desired state of the infrastructure machine and the bootstrap
//     config, each together with the mark.
//  4. Then it writes the desired state of the Machine, and that UpdateMachine is pending.
//  5. The extension is called until it is done; then the marks are removed, those of the
//     Machine last.
//
// Each step can be repeated. No step deletes a Machine.
package inplace

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// updateMachine is the hook that is pending until a Machine is updated.
const updateMachine = "UpdateMachine"

// InProgress reports whether an object has the mark of an update.
func InProgress(obj metav1.Object) bool { return has(obj, clusterv1.UpdateInProgressAnnotation) }

// Moved reports whether a Machine was handed over by one MachineSet and is not
// acknowledged yet by the next.
func Moved(m *clusterv1.Machine) bool { return has(m, clusterv1.PendingAcknowledgeMoveAnnotation) }

// Pending reports whether the desired state of the Machine is written completely, so
// that the extension must be called.
func Pending(m *clusterv1.Machine) bool {
	return slices.Contains(Names(m.Annotations[runtimev1.PendingHooksAnnotation]), updateMachine)
}

func has(obj metav1.Object, annotation string) bool {
	_, ok := obj.GetAnnotations()[annotation]
	return ok
}

// Mark records that the update of a Machine, or of an object that it refers to, is in
// progress.
func Mark(obj metav1.Object) { annotate(obj, clusterv1.UpdateInProgressAnnotation, "") }

// Target is the MachineSet to which Machines are moved by an update in place.
type Target struct {
	Owner  metav1.OwnerReference // reference to it
	Labels map[string]string     // of its Machines
}

// Take hands a Machine over to the target.
func (t Target) Take(m *clusterv1.Machine) {
	m.OwnerReferences = slices.DeleteFunc(slices.Clone(m.OwnerReferences), func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller })
	m.OwnerReferences = append(m.OwnerReferences, t.Owner)
	m.Labels = metadata.Union(m.Labels, t.Labels)
	annotate(m, clusterv1.PendingAcknowledgeMoveAnnotation, "")
	Mark(m)
}

// Begin records that the desired state of a Machine is written completely.
func Begin(m *clusterv1.Machine) {
	if hooks := Names(m.Annotations[runtimev1.PendingHooksAnnotation]); !slices.Contains(hooks, updateMachine) {
		annotate(m, runtimev1.PendingHooksAnnotation, List(append(hooks, updateMachine)))
	}
	m.Annotations = maps.Clone(m.Annotations)
	delete(m.Annotations, clusterv1.PendingAcknowledgeMoveAnnotation)
}

// Finish removes the marks, and reports whether there were any.
func Finish(obj metav1.Object) bool {
	had := obj.GetAnnotations()
	left := maps.Clone(had)
	delete(left, clusterv1.UpdateInProgressAnnotation)
	delete(left, clusterv1.PendingAcknowledgeMoveAnnotation)
	hooks := slices.DeleteFunc(Names(had[runtimev1.PendingHooksAnnotation]), func(h string) bool { return h == updateMachine })
	if delete(left, runtimev1.PendingHooksAnnotation); len(hooks) > 0 {
		left[runtimev1.PendingHooksAnnotation] = List(hooks)
	}
	if maps.Equal(had, left) {
		return false
	}
	obj.SetAnnotations(left)
	return true
}

func annotate(obj metav1.Object, key, value string) {
	all := maps.Clone(obj.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	obj.SetAnnotations(all)
}

// Names parses a list of names in an annotation.
func Names(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// List formats names for an annotation: sorted, each once.
func List(names []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ",")
}
