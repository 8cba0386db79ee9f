// SPDX-License-Identifier: Apache-2.0

// Package metadata synchronizes labels and annotations of a child with those that
// its parent desires, without touching those of other writers.
//
// Which ones we wrote is read from the child's managedFields: every write goes out
// under one field manager, so a key that this manager owns and the parent no longer
// desires can be removed. That is the record server-side apply uses too, at the
// price of a plain merge patch. Where it is lost, the desired keys of that time are
// recorded again (package patch).
//
// Pointers and Named handle objects of one kind that have been read as a list.
package metadata

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The field managers under which controllers propagate labels and annotations:
// upstream's, so that either program continues where the other stopped.
const (
	MachineDeployments   = "capi-machinedeployment"
	MachineSets          = "capi-machineset"
	MachinePools         = "machinepool-controller"
	KubeadmControlPlanes = "capi-kubeadmcontrolplane"
	Topologies           = "capi-topology"
)

// IsOurs reports whether an entry of managedFields is where one of our controllers
// finds what it has put on an object.
func IsOurs(e metav1.ManagedFieldsEntry) bool {
	switch e.Manager {
	case MachineDeployments, MachineSets, MachinePools, KubeadmControlPlanes, Topologies:
		return e.Subresource == ""
	}
	return false
}

// Want is what the parent desires.
type Want struct{ Labels, Annotations map[string]string }

// Sync updates labels and annotations of obj to the desired ones, and removes those
// that manager owns and that are no longer desired. It reports whether obj changed;
// the caller writes it under the same field manager (patch.As).
func Sync(obj metav1.Object, manager string, want Want) (bool, error) {
	owned, err := ownedIf(obj.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
	if err != nil {
		return false, fmt.Errorf("read managed fields of %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	labels := merged(obj.GetLabels(), want.Labels, owned.Metadata.Labels)
	annotations := merged(obj.GetAnnotations(), want.Annotations, owned.Metadata.Annotations)
	if maps.Equal(labels, obj.GetLabels()) && maps.Equal(annotations, obj.GetAnnotations()) {
		return false, nil
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	return true, nil
}

// Pass propagates labels and annotations from a parent to obj: those that the
// parent had, and no longer has, are removed; the desired ones are set.
func Pass(obj, parent metav1.Object, had, want Want) {
	obj.SetLabels(passed(obj.GetLabels(), had.Labels, parent.GetLabels(), want.Labels))
	obj.SetAnnotations(passed(obj.GetAnnotations(), had.Annotations, parent.GetAnnotations(), want.Annotations))
}

func passed(have, had, has, want map[string]string) map[string]string {
	out := maps.Clone(have)
	maps.DeleteFunc(out, func(key, _ string) bool {
		_, was := had[key]
		_, still := has[key]
		return was && !still
	})
	if out == nil && len(want) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, want)
	return out
}

func merged(have, want map[string]string, owned map[string]any) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	for path := range owned {
		key, isField := strings.CutPrefix(path, "f:")
		if _, ok := want[key]; isField && !ok {
			delete(out, key)
		}
	}
	maps.Copy(out, want)
	return out
}

// Union merges labels or annotations; later ones take precedence. It is nil if there are
// none.
func Union(all ...map[string]string) (out map[string]string) {
	for _, m := range all {
		if out == nil && len(m) > 0 {
			out = map[string]string{}
		}
		maps.Copy(out, m)
	}
	return out
}

// Pointers returns pointers to the items of a list.
func Pointers[T any](list []T) []*T {
	all := make([]*T, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// Named returns the object of that name; the zero value, nil, if there is none.
func Named[T metav1.Object](all []T, name string) (none T) {
	for _, obj := range all {
		if obj.GetName() == name {
			return obj
		}
	}
	return none
}
