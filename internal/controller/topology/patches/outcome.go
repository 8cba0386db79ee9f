// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// Labels and annotations by which controllers find objects: patches do not change them.
var (
	keptLabels = []string{
		clusterv1.ClusterNameLabel, clusterv1.ClusterTopologyOwnedLabel,
		clusterv1.ClusterTopologyMachineDeploymentNameLabel, clusterv1.ClusterTopologyMachinePoolNameLabel,
	}
	keptAnnotations = []string{clusterv1.TemplateClonedFromNameAnnotation, clusterv1.TemplateClonedFromGroupKindAnnotation}
)

// patchable are the fields of a template that a patch of an extension can change.
// Others, such as its name, stay.
var patchable = [][]string{{"spec"}, {"metadata", "labels"}, {"metadata", "annotations"}}

// outcome copies the fields that patches can change to the desired object. Most
// templates of a class have no patch: their desired object is returned without a copy.
// Fields that patches removed as a whole stay as desired, as upstream does: a patch that
// replaces /spec with its own fields does not remove the labels.
func (t *templateState) outcome() (*unstructured.Unstructured, error) {
	if !t.patched {
		return t.Desired, nil
	}
	patched, out, labeled := t.document, t.Desired.DeepCopy(), inTemplate
	if t.copied() {
		labeled = []string{"metadata"}
		for _, path := range [][]string{{"spec", "template", "spec"}, {"spec", "template", "metadata", "labels"}, {"spec", "template", "metadata", "annotations"}} {
			take(out.Object, patched, path, path)
		}
	} else {
		kept, err := t.kept()
		if err != nil {
			return nil, err
		}
		take(out.Object, patched, []string{"spec"}, []string{"spec", "template", "spec"})
		Carry(out, t.Desired, kept...)
	}
	if labels := stringsAt(patched, append(slices.Clone(labeled), "labels")); labels != nil {
		out.SetLabels(keep(labels, t.Desired.GetLabels(), keptLabels))
	}
	if annotations := stringsAt(patched, append(slices.Clone(labeled), "annotations")); annotations != nil {
		out.SetAnnotations(keep(annotations, t.Desired.GetAnnotations(), keptAnnotations))
	}
	return out, nil
}

// kept are the fields of a control plane that the topology sets.
func (t *templateState) kept() ([][]string, error) {
	if t.Role != ControlPlane {
		return nil, nil
	}
	c, err := contract.ControlPlaneFor(t.Contract)
	if err != nil {
		return nil, err
	}
	m := c.MachineTemplate
	return [][]string{
		c.Replicas.Path(), c.Version.Path(), c.RolloutAfter.Path(), m.Metadata.Path(), m.InfrastructureRef.Path(), m.ReadinessGates.Path(),
		m.Taints.Path(), m.NodeDrainSeconds.Path(), m.NodeVolumeDetachSeconds.Path(), m.NodeDeletionSeconds.Path(),
	}, nil
}

// Carry sets fields of an object to their values in another, and removes those that the
// other does not have. An empty path is ignored.
func Carry(to, from *unstructured.Unstructured, paths ...[]string) {
	for _, path := range paths {
		if len(path) == 0 {
			continue
		}
		replace(to.Object, from.Object, path, path)
		prune(to.Object, from.Object, path)
	}
}

// take copies the value at a path of one object to a path of another, if it exists.
func take(into, from map[string]any, at, path []string) {
	if _, there, err := unstructured.NestedFieldNoCopy(from, path...); there && err == nil {
		replace(into, from, at, path)
	}
}

// replace copies the value at a path of one object to a path of another, or removes it
// there if it does not exist.
func replace(into, from map[string]any, at, path []string) {
	value, there, err := unstructured.NestedFieldNoCopy(from, path...)
	if err != nil || !there {
		unstructured.RemoveNestedField(into, at...)
		return
	}
	for _, name := range at[:len(at)-1] {
		next, ok := into[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			into[name] = next
		}
		into = next
	}
	into[at[len(at)-1]] = runtime.DeepCopyJSONValue(value)
}

// prune removes the empty objects on a path that do not exist in like: a patch added
// them for a field that it cannot set.
func prune(object, like map[string]any, path []string) {
	for n := len(path) - 1; n > 0; n-- {
		at, _, _ := unstructured.NestedMap(object, path[:n]...)
		if _, wanted, _ := unstructured.NestedFieldNoCopy(like, path[:n]...); wanted || len(at) > 0 {
			return
		}
		unstructured.RemoveNestedField(object, path[:n]...)
	}
}

// keep restores some keys.
func keep(patched, was map[string]string, keys []string) map[string]string {
	out := maps.Clone(patched)
	for _, key := range keys {
		value, there := was[key]
		if !there {
			delete(out, key)
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out
}

// stringsAt returns the strings in a map, or nil if there is no map.
func stringsAt(object map[string]any, path []string) map[string]string {
	fields, there, err := unstructured.NestedMap(object, path...)
	if err != nil || !there {
		return nil
	}
	out := map[string]string{}
	for key, value := range fields {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

// setStrings sets a map at a path, or removes it if the map is empty.
func setStrings(object map[string]any, values map[string]string, path []string) {
	from := map[string]any{}
	if len(values) > 0 {
		all := map[string]any{}
		for key, value := range values {
			all[key] = value
		}
		from["values"] = all
	}
	replace(object, from, path, []string{"values"})
}
