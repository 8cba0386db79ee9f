// SPDX-License-Identifier: Apache-2.0

package core

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// defaultNodeStartupSeconds is how long a Machine may take to have a Node.
const defaultNodeStartupSeconds = 600

// DefaultMachineHealthCheck sets what the user left out.
func DefaultMachineHealthCheck(c, _ *clusterv1.MachineHealthCheck) {
	labelCluster(c, c.Spec.ClusterName)
	if c.Spec.Checks.NodeStartupTimeoutSeconds == nil {
		c.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(defaultNodeStartupSeconds))
	}
}

// ValidateMachineHealthCheck returns the errors in a MachineHealthCheck.
func ValidateMachineHealthCheck(c, old *clusterv1.MachineHealthCheck) field.ErrorList {
	spec := field.NewPath("spec")
	selector := spec.Child("selector")
	errs := fieldvalidation.Selector(selector, &c.Spec.Selector)
	if fieldvalidation.IsEmptySelector(c.Spec.Selector) {
		errs = append(errs, field.Required(selector, "must not be empty: it would select every Machine of the Cluster"))
	}
	if name, ok := c.Spec.Selector.MatchLabels[clusterv1.ClusterNameLabel]; ok && name != c.Spec.ClusterName {
		errs = append(errs, field.Invalid(selector.Child("matchLabels").Key(clusterv1.ClusterNameLabel), name, "must be the same as spec.clusterName"))
	}
	errs = append(errs, fieldvalidation.HealthCheck(spec, c.Spec.Checks, c.Spec.Remediation.TriggerIf)...)
	errs = append(errs, remediationTemplate(spec.Child("remediation", "templateRef"), c, old)...)
	if old != nil {
		errs = append(errs, fieldvalidation.Unchanged(spec.Child("clusterName"), c.Spec.ClusterName, old.Spec.ClusterName)...)
	}
	return errs
}

// remediationTemplate returns the errors in the reference to a template of
// remediation requests. An unchanged reference is not checked.
func remediationTemplate(at *field.Path, c, old *clusterv1.MachineHealthCheck) field.ErrorList {
	ref := c.Spec.Remediation.TemplateRef
	if !ref.IsDefined() || old != nil && old.Spec.Remediation.TemplateRef == ref {
		return nil
	}
	if err := reference.Remediation.Template(ref.GroupVersionKind().GroupKind()); err != nil {
		return field.ErrorList{field.Invalid(at, ref.Kind+"."+ref.APIVersion, err.Error())}
	}
	return nil
}
