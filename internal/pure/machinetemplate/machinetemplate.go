// SPDX-License-Identifier: Apache-2.0

// Package machinetemplate decides which fields the Machines of one template have: all of
// them from their creation on, so that no later write adds them, and which fields are
// updated in place when the template changes.
//
// It is pure: no client, no clock, no context. Package access/machines uses it to create
// Machines and to update them, for all owners.
package machinetemplate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

// nodeDeletionSeconds is the default that admission sets on a Machine; any other value
// would be replaced.
const nodeDeletionSeconds = 10

// Template is the template of the Machines of one owner, such as a MachineSet.
type Template struct {
	// Maker controls the Machines, and owns the objects created for them until the
	// Machines own these. It is set here without the controller flag.
	Maker     metav1.OwnerReference
	Namespace string
	// Labels and Annotations of the Machines, and of the objects created for them.
	Labels, Annotations map[string]string
	// Own are annotations of the Machines only. They override Annotations.
	Own map[string]string
	// Spec of the Machines. References in it are replaced by those to the objects
	// created for a Machine.
	Spec clusterv1.MachineSpec
}

// Machine returns a new Machine of that name, complete with all fields from its
// template.
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

// Dress sets the metadata of an object that is created for the Machine of that name.
func (t Template) Dress(obj metav1.Object, name string) {
	obj.SetNamespace(t.Namespace)
	obj.SetName(name)
	obj.SetLabels(maps.Clone(t.Labels))
	obj.SetAnnotations(maps.Clone(t.Annotations))
	obj.SetOwnerReferences([]metav1.OwnerReference{t.Maker})
}

// InStep reports whether a Machine has all fields that follow its template in place. It
// runs for nearly every Machine at nearly every reconcile, so it copies and decodes
// almost nothing: for a Machine with additional metadata, such as a label of a user,
// Follow compares exactly.
func (t Template) InStep(m *clusterv1.Machine) bool {
	if !m.DeletionTimestamp.IsZero() {
		return t.sameTimeouts(m.Spec.Deletion)
	}
	return maps.Equal(m.Labels, t.Labels) && t.annotated(m.Annotations) &&
		t.sameTimeouts(m.Spec.Deletion) && t.sameSeconds(m) &&
		slices.Equal(m.Spec.ReadinessGates, t.Spec.ReadinessGates) && slices.Equal(m.Spec.Taints, t.Spec.Taints)
}

// Follow returns the Machine as its template now defines it: the same pointer if it is
// in step. Labels and annotations of others stay; those that manager set and that are no
// longer in the template are removed. For a Machine that is being deleted only the
// timeouts of the deletion follow: other fields have no effect any longer.
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

// Passed is the metadata of the Machines.
func (t Template) Passed() metadata.Want {
	return metadata.Want{Labels: t.Labels, Annotations: t.annotations()}
}

// Pass changes the labels and annotations of an object that a Machine refers to in the
// same way as Follow changes the Machine. Annotations that name the template of the
// object itself stay.
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

// Relabelled reports whether Pass has anything to change.
func Relabelled(from, to *clusterv1.Machine) bool {
	return !maps.Equal(from.Labels, to.Labels) || !maps.Equal(from.Annotations, to.Annotations)
}

// annotations are the annotations of the Machines.
func (t Template) annotations() map[string]string {
	out := maps.Clone(t.Annotations)
	if out == nil && len(t.Own) > 0 {
		out = map[string]string{}
	}
	maps.Copy(out, t.Own)
	return out
}

// annotated reports whether a Machine has exactly these annotations.
func (t Template) annotated(have map[string]string) bool {
	if len(t.Own) > 0 {
		return maps.Equal(have, t.annotations())
	}
	return maps.Equal(have, t.Annotations)
}

// deletion returns a copy of the timeouts, with defaults.
func (t Template) deletion() clusterv1.MachineDeletionSpec {
	d := *t.Spec.Deletion.DeepCopy()
	d.NodeDeletionTimeoutSeconds = cmp.Or(d.NodeDeletionTimeoutSeconds, new(int32(nodeDeletionSeconds)))
	return d
}

// sameSeconds compares as v1beta1 does, which cannot distinguish unset from zero: an
// object that was stored at v1beta1, or written by a client of it, is not rewritten for
// that.
func (t Template) sameSeconds(m *clusterv1.Machine) bool {
	return ptr.Deref(m.Spec.MinReadySeconds, 0) == ptr.Deref(t.Spec.MinReadySeconds, 0)
}

func (t Template) sameTimeouts(have clusterv1.MachineDeletionSpec) bool {
	want := t.Spec.Deletion
	return ptr.Equal(have.NodeDrainTimeoutSeconds, want.NodeDrainTimeoutSeconds) &&
		ptr.Equal(have.NodeVolumeDetachTimeoutSeconds, want.NodeVolumeDetachTimeoutSeconds) &&
		have.NodeDeletionTimeoutSeconds != nil && *have.NodeDeletionTimeoutSeconds == ptr.Deref(want.NodeDeletionTimeoutSeconds, nodeDeletionSeconds)
}

// Naming is the input for the names of the Machines of one owner.
type Naming struct {
	Template string // spec.machineNaming.template; empty for <maker>-<random>
	As       string // the template's name for the owner, such as machineSet
	Maker    string
	Cluster  string
}

// Name is the name of the Machine with that random part. Names become host names
// and label values, so a long one is cut, keeping its end if that is the random
// part.
func (n Naming) Name(random string) (string, error) {
	if n.Template == "" {
		return cut(n.Maker+"-"+random, random), nil
	}
	t, err := gotemplate.ParseName(n.Template)
	if err != nil {
		return "", fmt.Errorf("read spec.machineNaming.template: %w", err)
	}
	budget := gotemplate.PerName
	text, err := t.Render(map[string]any{
		"cluster": map[string]any{"name": n.Cluster},
		n.As:      map[string]any{"name": n.Maker},
		"random":  random,
	}, &budget)
	if err != nil {
		return "", fmt.Errorf("fill spec.machineNaming.template: %w", err)
	}
	name := cut(text, random)
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return "", fmt.Errorf("spec.machineNaming.template makes the name %q: %s", name, strings.Join(wrong, ", "))
	}
	return name, nil
}

func cut(name, random string) string {
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	if base, ok := strings.CutSuffix(name, random); ok {
		return base[:validation.DNS1123LabelMaxLength-len(random)] + random
	}
	return name[:validation.DNS1123LabelMaxLength]
}
