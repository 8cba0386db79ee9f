// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// MachineSetScalingUpCondition is True while there are fewer Machines than
	// desired; its message gives the reason. Set by the MachineSet controller.
	MachineSetScalingUpCondition = ScalingUpCondition

	// Reasons of MachineSetScalingUpCondition.
	MachineSetScalingUpReason                      = ScalingUpReason
	MachineSetNotScalingUpReason                   = NotScalingUpReason
	MachineSetScalingUpInternalErrorReason         = InternalErrorReason
	MachineSetScalingUpWaitingForReplicasSetReason = WaitingForReplicasSetReason
)

const (
	// MachineSetScalingDownCondition is True while there are more Machines than
	// desired. Set by the MachineSet controller.
	MachineSetScalingDownCondition = ScalingDownCondition

	// Reasons of MachineSetScalingDownCondition.
	MachineSetScalingDownReason                      = ScalingDownReason
	MachineSetNotScalingDownReason                   = NotScalingDownReason
	MachineSetScalingDownInternalErrorReason         = InternalErrorReason
	MachineSetScalingDownWaitingForReplicasSetReason = WaitingForReplicasSetReason
)

const (
	// MachineSetMachinesReadyCondition is True when all Machines are ready. Set by
	// the MachineSet controller, as an aggregate.
	MachineSetMachinesReadyCondition = MachinesReadyCondition

	// Reasons of MachineSetMachinesReadyCondition.
	MachineSetMachinesReadyReason              = ReadyReason
	MachineSetMachinesNotReadyReason           = NotReadyReason
	MachineSetMachinesReadyUnknownReason       = ReadyUnknownReason
	MachineSetMachinesReadyNoReplicasReason    = NoReplicasReason
	MachineSetMachinesReadyInternalErrorReason = InternalErrorReason
)

const (
	// MachineSetMachinesUpToDateCondition is True when all Machines are up to date.
	// Set by the MachineSet controller, as an aggregate.
	MachineSetMachinesUpToDateCondition = MachinesUpToDateCondition

	// Reasons of MachineSetMachinesUpToDateCondition.
	MachineSetMachinesUpToDateReason              = UpToDateReason
	MachineSetMachinesNotUpToDateReason           = NotUpToDateReason
	MachineSetMachinesUpToDateUnknownReason       = UpToDateUnknownReason
	MachineSetMachinesUpToDateNoReplicasReason    = NoReplicasReason
	MachineSetMachinesUpToDateInternalErrorReason = InternalErrorReason
)

const (
	// MachineSetRemediatingCondition is True while unhealthy Machines are being
	// replaced. Set by the MachineSet controller.
	MachineSetRemediatingCondition = RemediatingCondition

	// Reasons of MachineSetRemediatingCondition.
	MachineSetRemediatingReason                       = RemediatingReason
	MachineSetNotRemediatingReason                    = NotRemediatingReason
	MachineSetRemediatingInternalErrorReason          = InternalErrorReason
	MachineSetMachineCannotBeRemediatedReason         = "CannotBeRemediated"
	MachineSetMachineRemediationDeferredReason        = "RemediationDeferred"
	MachineSetMachineRemediationMachineDeletingReason = "MachineDeleting"
)

const (
	// MachineSetDeletingCondition is True while the MachineSet is being deleted. Set
	// by the MachineSet controller.
	MachineSetDeletingCondition = DeletingCondition

	// Reasons of MachineSetDeletingCondition.
	MachineSetNotDeletingReason           = NotDeletingReason
	MachineSetDeletingReason              = DeletingReason
	MachineSetDeletingInternalErrorReason = InternalErrorReason
)
