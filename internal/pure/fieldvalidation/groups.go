// SPDX-License-Identifier: Apache-2.0

package fieldvalidation

import (
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// RolloutStrategy demands that a group of Machines can be replaced at all.
func RolloutStrategy(at *field.Path, s clusterv1.MachineDeploymentRolloutStrategy) field.ErrorList {
	rolling := at.Child("rollingUpdate")
	surge, unavailable := s.RollingUpdate.MaxSurge, s.RollingUpdate.MaxUnavailable
	errs := append(Amount(rolling.Child("maxSurge"), surge), Amount(rolling.Child("maxUnavailable"), unavailable)...)
	if isZero(surge) && isZero(unavailable) {
		errs = append(errs, field.Invalid(rolling.Child("maxUnavailable"), unavailable.String(), "must not be 0 when maxSurge is 0: nothing could ever be replaced"))
	}
	return errs
}

func isZero(amount *intstr.IntOrString) bool {
	return amount != nil && *amount == intstr.FromInt32(0)
}

// leastNodeStartupSeconds keeps a check from deleting every Machine while it
// starts.
const leastNodeStartupSeconds = 30

// HealthCheck demands that a health check lets Machines start, and says
// understandably how many may be unhealthy.
func HealthCheck(at *field.Path, checks clusterv1.MachineHealthCheckChecks, trigger clusterv1.MachineHealthCheckRemediationTriggerIf) (errs field.ErrorList) {
	if t := checks.NodeStartupTimeoutSeconds; t != nil && *t != 0 && *t < leastNodeStartupSeconds {
		errs = append(errs, field.Invalid(at.Child("checks", "nodeStartupTimeoutSeconds"), *t, "must be 30 or more, or 0 for no limit"))
	}
	return append(errs, Amount(at.Child("remediation", "triggerIf", "unhealthyLessThanOrEqualTo"), trigger.UnhealthyLessThanOrEqualTo)...)
}
