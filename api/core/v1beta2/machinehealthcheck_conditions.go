// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// MachineHealthCheckRemediationAllowedCondition is True while so few Machines are
	// unhealthy that remediation is allowed. Set by the MachineHealthCheck controller.
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
	// MachineHealthCheckSoundCondition is False when the spec is valid but probably
	// does not express what its author intended. Cluster API does not have this
	// condition. Set by the MachineHealthCheck controller.
	MachineHealthCheckSoundCondition = "Sound"

	// Reasons of MachineHealthCheckSoundCondition.
	MachineHealthCheckSoundReason                          = "Sound"
	MachineHealthCheckClusterMissingReason                 = "ClusterMissing"
	MachineHealthCheckNoMachineSelectedReason              = "NoMachineSelected"
	MachineHealthCheckSelectedByAnotherReason              = "SelectedByAnother"
	MachineHealthCheckControlPlaneAndWorkersSelectedReason = "ControlPlaneAndWorkersSelected"
	MachineHealthCheckNoTimeoutReason                      = "NoTimeout"
)
