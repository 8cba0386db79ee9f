// SPDX-License-Identifier: Apache-2.0

// Package machinetemplate decides what the Machines of one template have: all of
// it from their creation on, so that no later write has to add it, and what may
// change in place again whenever the template changes.
//
// It is pure: no client, no clock, no context. Package access/machines makes
// Machines and keeps them in step by it, whoever has them.
package machinetemplate

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// nodeDeletionSeconds is what admission fills in where a Machine says nothing;
// to write anything else would only be undone.
const nodeDeletionSeconds = 10

// Template is what the Machines of one maker, such as a MachineSet, have.
type Template struct {
	// Maker controls the Machines, and owns what is made for them until they
	// take it. It is given without the controller mark.
	Maker     metav1.OwnerReference
	Namespace string
	// Labels and Annotations of the Machines, and of what is made for them.
	Labels, Annotations map[string]string
	// Own are annotations of the Machines alone. They win over Annotations.
	Own map[string]string
	// Spec of the Machines. References in it are replaced by those to what is made
	// for a Machine.
	Spec clusterv1.MachineSpec
}

// Machine is a new Machine of that name, with all that its maker ever gives it.
func (t Template) Machine(name string) *clusterv1.Machine {
	by := t.Maker
	by.Controller, by.BlockOwnerDeletion = new(true), new(true)
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       t.Namespace,
			Name:            name,
			Labels:          maps.Clone(t.Labels),
			Annotations:     t.annotations(),
			Finalizers:      []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{by},
		},
		Spec: *t.Spec.DeepCopy(),
	}
	m.Spec.Deletion = t.deletion()
	return m
}

// Dress gives metadata to an object that is made for the Machine of that name.
func (t Template) Dress(obj metav1.Object, name string) {
	obj.SetNamespace(t.Namespace)
	obj.SetName(name)
	obj.SetLabels(maps.Clone(t.Labels))
	obj.SetAnnotations(maps.Clone(t.Annotations))
	obj.SetOwnerReferences([]metav1.OwnerReference{t.Maker})
}

// InStep reports whether a Machine has all that follows its template in place.
// It is what nearly every Machine is asked at nearly every time, so it copies
// and decodes next to nothing: at a Machine with more than that, such as a label
// of a user, Follow has to look closer.
func (t Template) InStep(m *clusterv1.Machine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return t.sameTimeouts(m.Spec.Deletion)
	}
	return maps.Equal(m.Labels, t.Labels) && t.annotated(m.Annotations) &&
		t.sameTimeouts(m.Spec.Deletion) && t.sameSeconds(m) &&
		slices.Equal(m.Spec.ReadinessGates, t.Spec.ReadinessGates) && slices.Equal(m.Spec.Taints, t.Spec.Taints)
}

// Follow returns the Machine as the template wants it now: the very same if it
// is in step. Labels and annotations of others stay; those that manager has put
// there and that are wanted no more go. Of one that is being deleted only the
// timeouts of the deletion follow: nothing else could still matter.
func (t Template) Follow(m *clusterv1.Machine, manager string) (*clusterv1.Machine, error) {
	if t.InStep(m) {
		return m, nil
	}
	to, spec := m.DeepCopy(), t.Spec.DeepCopy()
	to.Spec.Deletion = t.deletion()
	if !m.DeletionTimestamp.IsZero() {
		return to, nil
	}
	if _, err := metadata.Sync(to, manager, t.Passed()); err != nil {
		return nil, err
	}
	to.Spec.ReadinessGates, to.Spec.Taints = spec.ReadinessGates, spec.Taints
	if !t.sameSeconds(m) {
		to.Spec.MinReadySeconds = spec.MinReadySeconds
	}
	return to, nil
}

// Passed is what the Machines get of metadata.
func (t Template) Passed() metadata.Want {
	return metadata.Want{Labels: t.Labels, Annotations: t.annotations()}
}

// Pass brings labels and annotations to an object that a Machine refers to, as
// the Machine itself goes from one state to another by Follow. What the object
// says of the template that it was made from stays true, whatever ours says.
func (t Template) Pass(obj metav1.Object, from, to *clusterv1.Machine) {
	had := metadata.Want{Labels: from.Labels, Annotations: withoutOrigin(from.Annotations)}
	metadata.Pass(obj, to, had, metadata.Want{Labels: t.Labels, Annotations: withoutOrigin(t.Annotations)})
}

func withoutOrigin(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, clusterv1.TemplateClonedFromNameAnnotation)
	delete(out, clusterv1.TemplateClonedFromGroupKindAnnotation)
	return out
}

// Relabelled reports whether Pass has anything to bring on.
func Relabelled(from, to *clusterv1.Machine) bool {
	return !maps.Equal(from.Labels, to.Labels) || !maps.Equal(from.Annotations, to.Annotations)
}

// annotations are those of the Machines.
func (t Template) annotations() map[string]string {
	out := maps.Clone(t.Annotations)
	if out == nil && len(t.Own) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, t.Own)
	return out
}

// annotated reports whether a Machine has the annotations, and no others.
func (t Template) annotated(have map[string]string) bool {
	if len(t.Own) > 0 {
		return maps.Equal(have, t.annotations())
	}
	return maps.Equal(have, t.Annotations)
}

// deletion is a copy of the timeouts, complete.
func (t Template) deletion() clusterv1.MachineDeletionSpec {
	d := *t.Spec.Deletion.DeepCopy()
	if d.NodeDeletionTimeoutSeconds == nil {
		d.NodeDeletionTimeoutSeconds = new(int32(nodeDeletionSeconds))
	}
	return d
}

// sameSeconds compares as v1beta1 does, which cannot tell none from zero: what was
// stored at it, or written by a client of it, is not written because of that.
func (t Template) sameSeconds(m *clusterv1.Machine) bool {
	return ptr.Deref(m.Spec.MinReadySeconds, 0) == ptr.Deref(t.Spec.MinReadySeconds, 0)
}

func (t Template) sameTimeouts(have clusterv1.MachineDeletionSpec) bool {
	want := t.Spec.Deletion
	return ptr.Equal(have.NodeDrainTimeoutSeconds, want.NodeDrainTimeoutSeconds) &&
		ptr.Equal(have.NodeVolumeDetachTimeoutSeconds, want.NodeVolumeDetachTimeoutSeconds) &&
		have.NodeDeletionTimeoutSeconds != nil && *have.NodeDeletionTimeoutSeconds == ptr.Deref(want.NodeDeletionTimeoutSeconds, nodeDeletionSeconds)
}
