// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// defaultNodeDeletionSeconds is how long deleting a Machine tries to delete
// its Node.
const defaultNodeDeletionSeconds = 10

// DefaultMachine sets what the user left out.
func DefaultMachine(m, _ *clusterv1.Machine) {
	labelCluster(m, m.Spec.ClusterName)
	m.Spec.Deletion.NodeDeletionTimeoutSeconds = cmp.Or(m.Spec.Deletion.NodeDeletionTimeoutSeconds, new(int32(defaultNodeDeletionSeconds)))
	m.Spec.Version = fieldvalidation.NormalVersion(m.Spec.Version)
}

// ValidateMachine returns the errors in a Machine.
func ValidateMachine(m, old *clusterv1.Machine) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if _, ofPool := m.Labels[clusterv1.MachinePoolNameLabel]; !ofPool {
		errs = fieldvalidation.Bootstrap(spec.Child("bootstrap"), m.Spec.Bootstrap)
	}
	errs = append(errs, fieldvalidation.Version(spec.Child("version"), m.Spec.Version)...)
	before := ptr.Deref(old, clusterv1.Machine{}).Spec
	errs = append(errs, references(spec, m.Spec, before, false)...)
	if old != nil {
		errs = append(errs, fieldvalidation.Unchanged(spec.Child("clusterName"), m.Spec.ClusterName, old.Spec.ClusterName)...)
	}
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	return append(errs, fieldvalidation.Taints(spec.Child("taints"), m.Spec.Taints, controlPlane)...)
}

// references checks what a machine, or a template of machines, refers to.
func references(at *field.Path, spec, old clusterv1.MachineSpec, template bool) field.ErrorList {
	return append(reference.Bootstrap.Reference(at.Child("bootstrap", "configRef"), spec.Bootstrap.ConfigRef, old.Bootstrap.ConfigRef, template),
		reference.MachineInfrastructure.Reference(at.Child("infrastructureRef"), spec.InfrastructureRef, old.InfrastructureRef, template)...)
}

// labelCluster sets the label with the Cluster's name.
func labelCluster(obj metav1.Object, cluster string) {
	obj.SetLabels(with(obj.GetLabels(), clusterv1.ClusterNameLabel, cluster))
}

// with returns labels with one of them set.
func with(labels map[string]string, key, value string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	return labels
}

// ValidateMachineDrainRule returns the errors in a MachineDrainRule.
func ValidateMachineDrainRule(r, _ *clusterv1.MachineDrainRule) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if r.Spec.Drain.Order != nil && r.Spec.Drain.Behavior != clusterv1.MachineDrainRuleDrainBehaviorDrain {
		errs = append(errs, field.Invalid(spec.Child("drain", "order"), *r.Spec.Drain.Order, "is only for behavior Drain; leave it out"))
	}
	for i, m := range r.Spec.Machines {
		at := spec.Child("machines").Index(i)
		errs = append(errs, fieldvalidation.Selector(at.Child("selector"), m.Selector)...)
		errs = append(errs, fieldvalidation.Selector(at.Child("clusterSelector"), m.ClusterSelector)...)
	}
	for i, p := range r.Spec.Pods {
		at := spec.Child("pods").Index(i)
		errs = append(errs, fieldvalidation.Selector(at.Child("selector"), p.Selector)...)
		errs = append(errs, fieldvalidation.Selector(at.Child("namespaceSelector"), p.NamespaceSelector)...)
	}
	return errs
}
