// SPDX-License-Identifier: Apache-2.0

package core

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

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
