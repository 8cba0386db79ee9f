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

	// Reasons beyond those of Cluster API, with MachineHealthCheckConnectionDownReason
	// while nothing is known.
	MachineHealthCheckReportOnlyReason                  = "ReportOnly"
	MachineHealthCheckRemediationTemplateNotFoundReason = MachineExternallyRemediatedRemediationTemplateNotFoundReason
)

const (
	// MachineHealthCheckSoundCondition is False when the spec, which is valid, can
	// hardly mean what was wanted. It is not one of Cluster API. Set by the
	// MachineHealthCheck controller.
	MachineHealthCheckSoundCondition = "Sound"

	// Reasons of MachineHealthCheckSoundCondition.
	MachineHealthCheckSoundReason                          = "Sound"
	MachineHealthCheckClusterMissingReason                 = "ClusterMissing"
	MachineHealthCheckNoMachineSelectedReason              = "NoMachineSelected"
	MachineHealthCheckSelectedByAnotherReason              = "SelectedByAnother"
	MachineHealthCheckControlPlaneAndWorkersSelectedReason = "ControlPlaneAndWorkersSelected"
	MachineHealthCheckNoTimeoutReason                      = "NoTimeout"
)
