// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// DefaultMachinePool sets what the user left out.
func DefaultMachinePool(p, old *clusterv1.MachinePool) {
	labelCluster(p, p.Spec.ClusterName)
	if p.Spec.Replicas == nil {
		p.Spec.Replicas = new(replicas(p.Annotations, ptr.Deref(old, clusterv1.MachinePool{}).Spec.Replicas))
	}
	spec := &p.Spec.Template.Spec
	spec.Deletion.NodeDeletionTimeoutSeconds = cmp.Or(spec.Deletion.NodeDeletionTimeoutSeconds, new(int32(defaultNodeDeletionSeconds)))
	spec.Version = fieldvalidation.NormalVersion(spec.Version)
}

// ValidateMachinePool returns the errors in a MachinePool. Unlike those of a
// MachineSet, its references are to the objects themselves, not to templates.
func ValidateMachinePool(p, old *clusterv1.MachinePool) field.ErrorList {
	template := field.NewPath("spec", "template")
	errs := fieldvalidation.MachineTemplate(template, p.Spec.Template, p.Spec.ClusterName, metav1.LabelSelector{})
	errs = append(errs, annotations(p.Annotations)...)
	before := ptr.Deref(old, clusterv1.MachinePool{}).Spec.Template.Spec
	if taints := p.Spec.Template.Spec.Taints; len(taints) > 0 && !slices.Equal(taints, before.Taints) { // what was stored once must stay editable
		errs = append(errs, field.Forbidden(template.Child("spec", "taints"), "the provider of a pool makes its machines and knows nothing of taints; set them in the bootstrap config"))
	}
	errs = append(errs, references(template.Child("spec"), p.Spec.Template.Spec, before, false)...)
	if old != nil {
		errs = append(errs, fieldvalidation.Unchanged(field.NewPath("spec", "clusterName"), p.Spec.ClusterName, old.Spec.ClusterName)...)
	}
	return errs
}
