// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// DefaultMachineDeployment sets what the user left out. A new one gets its
// finalizer, and the revision that its first rollout will have: its controller
// then has no metadata to write.
func DefaultMachineDeployment(d, old *clusterv1.MachineDeployment) {
	if old == nil && controllerutil.AddFinalizer(d, clusterv1.MachineDeploymentFinalizer) {
		d.Annotations = with(d.Annotations, clusterv1.RevisionAnnotation, cmp.Or(d.Annotations[clusterv1.RevisionAnnotation], "1"))
	}
	labelCluster(d, d.Spec.ClusterName)
	if d.Spec.Replicas == nil {
		d.Spec.Replicas = new(replicas(d.Annotations, ptr.Deref(old, clusterv1.MachineDeployment{}).Spec.Replicas))
	}
	selector, template := &d.Spec.Selector, &d.Spec.Template
	if fieldvalidation.IsEmptySelector(*selector) {
		name := fieldvalidation.AsLabelValue(d.Name)
		selector.MatchLabels = with(selector.MatchLabels, clusterv1.MachineDeploymentNameLabel, name)
		template.Labels = with(template.Labels, clusterv1.MachineDeploymentNameLabel, name)
	}
	selector.MatchLabels = with(selector.MatchLabels, clusterv1.ClusterNameLabel, d.Spec.ClusterName)
	template.Labels = with(template.Labels, clusterv1.ClusterNameLabel, d.Spec.ClusterName)
	template.Spec.Version = fieldvalidation.NormalVersion(template.Spec.Version)
	defaultStrategy(&d.Spec.Rollout.Strategy)
}

func defaultStrategy(s *clusterv1.MachineDeploymentRolloutStrategy) {
	s.Type = cmp.Or(s.Type, clusterv1.RollingUpdateMachineDeploymentStrategyType)
	if s.Type != clusterv1.RollingUpdateMachineDeploymentStrategyType {
		return
	}
	s.RollingUpdate.MaxSurge = cmp.Or(s.RollingUpdate.MaxSurge, new(intstr.FromInt32(1)))
	s.RollingUpdate.MaxUnavailable = cmp.Or(s.RollingUpdate.MaxUnavailable, new(intstr.FromInt32(0)))
}

// ValidateMachineDeployment returns the errors in a MachineDeployment.
func ValidateMachineDeployment(d, old *clusterv1.MachineDeployment) field.ErrorList {
	spec := field.NewPath("spec")
	errs := fieldvalidation.LabelValue(field.NewPath("metadata", "name"), d.Name)
	errs = append(errs, fieldvalidation.MachineTemplate(spec.Child("template"), d.Spec.Template, d.Spec.ClusterName, d.Spec.Selector)...)
	errs = append(errs, fieldvalidation.MachineName(spec.Child("machineNaming", "template"), d.Spec.MachineNaming.Template, "machineSet")...)
	errs = append(errs, annotations(d.Annotations)...)
	errs = append(errs, fieldvalidation.RolloutStrategy(spec.Child("rollout", "strategy"), d.Spec.Rollout.Strategy)...)
	errs = append(errs, fieldvalidation.Amount(spec.Child("remediation", "maxInFlight"), d.Spec.Remediation.MaxInFlight)...)
	before := ptr.Deref(old, clusterv1.MachineDeployment{}).Spec.Template.Spec
	errs = append(errs, references(spec.Child("template", "spec"), d.Spec.Template.Spec, before, true)...)
	if old != nil {
		errs = append(errs, fieldvalidation.Unchanged(spec.Child("clusterName"), d.Spec.ClusterName, old.Spec.ClusterName)...)
	}
	return errs
}
