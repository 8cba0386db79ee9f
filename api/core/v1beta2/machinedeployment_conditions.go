// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// MachineDeploymentAvailableCondition is True when the number of missing
	// Machines is within the limit of spec.rollout.strategy. Set by the
	// MachineDeployment controller.
	MachineDeploymentAvailableCondition = AvailableCondition

	// Reasons of MachineDeploymentAvailableCondition.
	MachineDeploymentAvailableWaitingForReplicasSetReason          = WaitingForReplicasSetReason
	MachineDeploymentAvailableWaitingForAvailableReplicasSetReason = "WaitingForAvailableReplicasSet"
	MachineDeploymentAvailableReason                               = AvailableReason
	MachineDeploymentNotAvailableReason                            = NotAvailableReason
	MachineDeploymentAvailableInternalErrorReason                  = InternalErrorReason
)

const (
	// MachineDeploymentMachinesReadyCondition is True when all Machines are ready.
	// Set by the MachineDeployment controller, as an aggregate.
	MachineDeploymentMachinesReadyCondition = MachinesReadyCondition

	// Reasons of MachineDeploymentMachinesReadyCondition.
	MachineDeploymentMachinesReadyReason              = ReadyReason
	MachineDeploymentMachinesNotReadyReason           = NotReadyReason
	MachineDeploymentMachinesReadyUnknownReason       = ReadyUnknownReason
	MachineDeploymentMachinesReadyNoReplicasReason    = NoReplicasReason
	MachineDeploymentMachinesReadyInternalErrorReason = InternalErrorReason
)

const (
	// MachineDeploymentMachinesUpToDateCondition is True when all Machines are up to
	// date. Set by the MachineDeployment controller, as an aggregate.
	MachineDeploymentMachinesUpToDateCondition = MachinesUpToDateCondition

	// Reasons of MachineDeploymentMachinesUpToDateCondition.
	MachineDeploymentMachinesUpToDateReason              = UpToDateReason
	MachineDeploymentMachinesNotUpToDateReason           = NotUpToDateReason
	MachineDeploymentMachinesUpToDateUnknownReason       = UpToDateUnknownReason
	MachineDeploymentMachinesUpToDateNoReplicasReason    = NoReplicasReason
	MachineDeploymentMachinesUpToDateInternalErrorReason = InternalErrorReason
)

const (
	// MachineDeploymentRollingOutCondition is True while there are Machines that do
	// not match the template. Set by the MachineDeployment controller.
	MachineDeploymentRollingOutCondition = RollingOutCondition

	// Reasons of MachineDeploymentRollingOutCondition.
	MachineDeploymentRollingOutReason              = RollingOutReason
	MachineDeploymentNotRollingOutReason           = NotRollingOutReason
	MachineDeploymentRollingOutInternalErrorReason = InternalErrorReason
)

const (
	// MachineDeploymentScalingUpCondition is True while there are fewer Machines
	// than desired. Set by the MachineDeployment controller.
	MachineDeploymentScalingUpCondition = ScalingUpCondition

	// Reasons of MachineDeploymentScalingUpCondition.
	MachineDeploymentScalingUpReason                      = ScalingUpReason
	MachineDeploymentNotScalingUpReason                   = NotScalingUpReason
	MachineDeploymentScalingUpInternalErrorReason         = InternalErrorReason
	MachineDeploymentScalingUpWaitingForReplicasSetReason = WaitingForReplicasSetReason
)

const (
	// MachineDeploymentScalingDownCondition is True while there are more Machines
	// than desired. Set by the MachineDeployment controller.
	MachineDeploymentScalingDownCondition = ScalingDownCondition

	// Reasons of MachineDeploymentScalingDownCondition.
	MachineDeploymentScalingDownReason                      = ScalingDownReason
	MachineDeploymentNotScalingDownReason                   = NotScalingDownReason
	MachineDeploymentScalingDownInternalErrorReason         = InternalErrorReason
	MachineDeploymentScalingDownWaitingForReplicasSetReason = WaitingForReplicasSetReason
)

const (
	// MachineDeploymentRemediatingCondition is True while unhealthy Machines are
	// being replaced. Set by the MachineDeployment controller.
	MachineDeploymentRemediatingCondition = RemediatingCondition

	// Reasons of MachineDeploymentRemediatingCondition.
	MachineDeploymentRemediatingReason              = RemediatingReason
	MachineDeploymentNotRemediatingReason           = NotRemediatingReason
	MachineDeploymentRemediatingInternalErrorReason = InternalErrorReason
)

const (
	// MachineDeploymentDeletingCondition is True while the MachineDeployment is
	// being deleted. Set by the MachineDeployment controller.
	MachineDeploymentDeletingCondition = DeletingCondition

	// Reasons of MachineDeploymentDeletingCondition.
	MachineDeploymentNotDeletingReason           = NotDeletingReason
	MachineDeploymentDeletingReason              = DeletingReason
	MachineDeploymentDeletingInternalErrorReason = InternalErrorReason
)
