// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// MachineHealthCheckRemediationAllowedCondition is True while so few Machines
	// are unhealthy that remediation goes on. Set by the MachineHealthCheck
	// controller.
	MachineHealthCheckRemediationAllowedCondition = "RemediationAllowed"

	// Reasons of MachineHealthCheckRemediationAllowedCondition.
	MachineHealthCheckTooManyUnhealthyReason   = "TooManyUnhealthy"
	MachineHealthCheckRemediationAllowedReason = "RemediationAllowed"
)
