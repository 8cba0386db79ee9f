// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/hookrules"
)

// Labels and annotations that controllers find objects by: patches do not
// change them.
var (
	keptLabels = []string{
		clusterv1.ClusterNameLabel, clusterv1.ClusterTopologyOwnedLabel,
		clusterv1.ClusterTopologyMachineDeploymentNameLabel, clusterv1.ClusterTopologyMachinePoolNameLabel,
	}
	keptAnnotations = []string{clusterv1.TemplateClonedFromNameAnnotation, clusterv1.TemplateClonedFromGroupKindAnnotation}
)

// below reports whether a JSON pointer is one of others or lies below.
func below(pointer string, others ...string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return pointer == o || strings.HasPrefix(pointer, o+"/") })
}

// beyond reports, as an error, what of the template changes that no patch may
// change: it would have no effect. A field that comes and is empty is left out
// of that: programs add those when they write an object of a Go type.
func (t *templateState) beyond(was, is map[string]any) error {
	may := []string{"spec.template.spec", "spec.template.metadata.labels", "spec.template.metadata.annotations"}
	if t.copied() {
		may = []string{"spec.template.spec", "spec.template.metadata", "metadata.labels", "metadata.annotations"}
	}
	strays := hookrules.Outside(hookrules.Differences(compared(was), compared(is)), may...)
	if len(strays) > 0 {
		return fmt.Errorf("it changes %s, which a patch cannot: it can change %s", hookrules.Join(strays), strings.Join(may, ", "))
	}
	return nil
}

// compared is a template without fields that are empty. What a patch may change
// lies below others, which are there in any case: it comes and goes by itself.
func compared(template map[string]any) map[string]any {
	out, _ := Trimmed(template).(map[string]any)
	for at, path := out, []string{"spec", "template"}; len(path) > 0; path = path[1:] {
		next, ok := at[path[0]].(map[string]any)
		if !ok && at[path[0]] != nil {
			break
		}
		if !ok {
			next = map[string]any{}
			at[path[0]] = next
		}
		at = next
	}
	return out
}

// Trimmed is a value without fields that are empty, whatever is below them.
func Trimmed(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for name, v := range fields {
		v = Trimmed(v)
		if m, ok := v.(map[string]any); v == nil || ok && len(m) == 0 {
			continue
		}
		out[name] = v
	}
	return out
}

// outcome copies what patches may change to what is desired. Most templates of a
// class have no patch: what is desired of them it is as well, and not copied.
func (t *templateState) outcome() (*unstructured.Unstructured, error) {
	if !t.patched {
		return t.Desired, nil
	}
	patched, out := t.document, t.Desired.DeepCopy()
	labels, annotations := stringsAt(patched, append(slices.Clone(inTemplate), "labels")), stringsAt(patched, append(slices.Clone(inTemplate), "annotations"))
	if t.copied() {
		u := &unstructured.Unstructured{Object: patched}
		labels, annotations = u.GetLabels(), u.GetAnnotations()
		for _, field := range []string{"spec", "metadata"} {
			replace(out.Object, patched, []string{"spec", "template", field}, []string{"spec", "template", field})
		}
	} else {
		kept, err := t.kept()
		if err != nil {
			return nil, err
		}
		replace(out.Object, patched, []string{"spec"}, []string{"spec", "template", "spec"})
		Carry(out, t.Desired, kept...)
	}
	out.SetLabels(keep(labels, t.Desired.GetLabels(), keptLabels))
	out.SetAnnotations(keep(annotations, t.Desired.GetAnnotations(), keptAnnotations))
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

// Carry has fields of an object be as they are in another, and not be there if
// they are not. An empty path is none.
func Carry(to, from *unstructured.Unstructured, paths ...[]string) {
	for _, path := range paths {
		if len(path) == 0 {
			continue
		}
		replace(to.Object, from.Object, path, path)
		prune(to.Object, from.Object, path)
	}
}

// replace puts what one object has at a path at a path of another, or takes it
// away there if it has nothing.
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

// prune takes away the objects on a path that hold nothing and are not in like:
// where a patch made them for a field that it cannot set.
func prune(object, like map[string]any, path []string) {
	for n := len(path) - 1; n > 0; n-- {
		at, _, _ := unstructured.NestedMap(object, path[:n]...)
		if _, wanted, _ := unstructured.NestedFieldNoCopy(like, path[:n]...); wanted || len(at) > 0 {
			return
		}
		unstructured.RemoveNestedField(object, path[:n]...)
	}
}

// keep puts some keys back as they were.
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

func stringsAt(object map[string]any, path []string) map[string]string {
	fields, _, err := unstructured.NestedMap(object, path...)
	if err != nil {
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

// setStrings puts a map at a path, or takes away what is there.
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
