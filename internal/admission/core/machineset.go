// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// DefaultMachineSet sets what the user left out.
func DefaultMachineSet(s, old *clusterv1.MachineSet) {
	labelCluster(s, s.Spec.ClusterName)
	if s.Spec.Replicas == nil {
		s.Spec.Replicas = new(replicas(s.Annotations, ptr.Deref(old, clusterv1.MachineSet{}).Spec.Replicas))
	}
	if fieldvalidation.IsEmptySelector(s.Spec.Selector) {
		name := fieldvalidation.AsLabelValue(s.Name)
		s.Spec.Selector.MatchLabels = with(s.Spec.Selector.MatchLabels, clusterv1.MachineSetNameLabel, name)
		s.Spec.Template.Labels = with(s.Spec.Template.Labels, clusterv1.MachineSetNameLabel, name)
	}
	s.Spec.Template.Spec.Version = fieldvalidation.NormalVersion(s.Spec.Template.Spec.Version)
}

// ValidateMachineSet returns the errors in a MachineSet.
func ValidateMachineSet(s, old *clusterv1.MachineSet) field.ErrorList {
	spec := field.NewPath("spec")
	errs := fieldvalidation.MachineTemplate(spec.Child("template"), s.Spec.Template, s.Spec.ClusterName, s.Spec.Selector)
	errs = append(errs, fieldvalidation.MachineName(spec.Child("machineNaming", "template"), s.Spec.MachineNaming.Template, "machineSet")...)
	errs = append(errs, annotations(s.Annotations)...)
	before := ptr.Deref(old, clusterv1.MachineSet{}).Spec.Template.Spec
	errs = append(errs, references(spec.Child("template", "spec"), s.Spec.Template.Spec, before, true)...)
	if old != nil {
		errs = append(errs, fieldvalidation.Unchanged(spec.Child("clusterName"), s.Spec.ClusterName, old.Spec.ClusterName)...)
	}
	return errs
}

// replicas is the number of machines of a group if the user did not set it: one, or
// the earlier number within the bounds of the cluster autoscaler.
func replicas(annotations map[string]string, before *int32) int32 {
	least, errLeast := strconv.ParseInt(annotations[clusterv1.AutoscalerMinSizeAnnotation], 10, 32)
	most, errMost := strconv.ParseInt(annotations[clusterv1.AutoscalerMaxSizeAnnotation], 10, 32)
	switch {
	case errLeast != nil || errMost != nil:
		return 1
	case before == nil:
		return int32(least)
	default:
		return min(max(*before, int32(least)), int32(most))
	}
}

var preflightChecks = []clusterv1.MachineSetPreflightCheck{
	clusterv1.MachineSetPreflightCheckAll,
	clusterv1.MachineSetPreflightCheckKubeadmVersionSkew,
	clusterv1.MachineSetPreflightCheckKubernetesVersionSkew,
	clusterv1.MachineSetPreflightCheckControlPlaneIsStable,
	clusterv1.MachineSetPreflightCheckControlPlaneVersionSkew,
}

// checkedAnnotations are those that annotations checks.
var checkedAnnotations = []string{clusterv1.MachineSetSkipPreflightChecksAnnotation, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation}

// annotations checks those annotations of a group of machines that have a
// form.
func annotations(all map[string]string) (errs field.ErrorList) {
	at := field.NewPath("metadata", "annotations")
	if list := all[clusterv1.MachineSetSkipPreflightChecksAnnotation]; list != "" {
		for name := range strings.SplitSeq(list, ",") {
			check := clusterv1.MachineSetPreflightCheck(strings.TrimSpace(name))
			if !slices.Contains(preflightChecks, check) {
				errs = append(errs, field.NotSupported(at.Key(clusterv1.MachineSetSkipPreflightChecksAnnotation), check, preflightChecks))
			}
		}
	}
	for _, key := range checkedAnnotations[1:] {
		if text, ok := all[key]; ok {
			if _, err := strconv.ParseInt(text, 10, 32); err != nil {
				errs = append(errs, field.Invalid(at.Key(key), text, "must be a number"))
			}
		}
	}
	return errs
}
