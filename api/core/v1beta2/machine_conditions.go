// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// MachineAvailableCondition is True when the Machine has been ready for
	// spec.minReadySeconds. Set by the Machine controller.
	MachineAvailableCondition = AvailableCondition

	// Reasons of MachineAvailableCondition.
	MachineWaitingForMinReadySecondsReason = "WaitingForMinReadySeconds"
	MachineAvailableReason                 = AvailableReason
	MachineAvailableInternalErrorReason    = InternalErrorReason
)

const (
	// MachineReadyCondition is True when the Machine is not being deleted and its
	// bootstrap config, infrastructure, Node, health checks and readiness gates are
	// good. Set by the Machine controller, as a summary.
	MachineReadyCondition = ReadyCondition

	// Reasons of MachineReadyCondition.
	MachineReadyReason              = ReadyReason
	MachineNotReadyReason           = NotReadyReason
	MachineReadyUnknownReason       = ReadyUnknownReason
	MachineReadyInternalErrorReason = InternalErrorReason
)

const (
	// MachineUpToDateCondition is True when the Machine is what its owner would make
	// today. Set by the control plane for its Machines, and by the Machine
	// controller for those of a MachineDeployment.
	MachineUpToDateCondition = "UpToDate"

	// Reasons of MachineUpToDateCondition.
	MachineUpToDateReason         = "UpToDate"
	MachineNotUpToDateReason      = "NotUpToDate"
	MachineUpToDateUpdatingReason = "Updating"
)

const (
	// MachineUpdatingCondition is True while the Machine is updated in place. Set by
	// the Machine controller.
	MachineUpdatingCondition = "Updating"

	// Reasons of MachineUpdatingCondition.
	MachineNotUpdatingReason         = "NotUpdating"
	MachineInPlaceUpdatingReason     = "InPlaceUpdating"
	MachineInPlaceUpdateFailedReason = "InPlaceUpdateFailed"
)

const (
	// MachineBootstrapConfigReadyCondition mirrors Ready of the bootstrap config.
	// Set by the Machine controller.
	MachineBootstrapConfigReadyCondition = BootstrapConfigReadyCondition

	// Reasons of MachineBootstrapConfigReadyCondition.
	MachineBootstrapDataSecretProvidedReason             = "DataSecretProvided"
	MachineBootstrapConfigReadyReason                    = ReadyReason
	MachineBootstrapConfigNotReadyReason                 = NotReadyReason
	MachineBootstrapConfigInvalidConditionReportedReason = InvalidConditionReportedReason
	MachineBootstrapConfigInternalErrorReason            = InternalErrorReason
	MachineBootstrapConfigDoesNotExistReason             = ObjectDoesNotExistReason
	MachineBootstrapConfigDeletedReason                  = ObjectDeletedReason
)

const (
	// MachineInfrastructureReadyCondition mirrors Ready of the infrastructure
	// object. Set by the Machine controller.
	MachineInfrastructureReadyCondition = InfrastructureReadyCondition

	// Reasons of MachineInfrastructureReadyCondition.
	MachineInfrastructureReadyReason                    = ReadyReason
	MachineInfrastructureNotReadyReason                 = NotReadyReason
	MachineInfrastructureInvalidConditionReportedReason = InvalidConditionReportedReason
	MachineInfrastructureInternalErrorReason            = InternalErrorReason
	MachineInfrastructureDoesNotExistReason             = ObjectDoesNotExistReason
	MachineInfrastructureDeletedReason                  = ObjectDeletedReason
)

const (
	// MachineNodeHealthyCondition is True when the Node is ready and not under
	// pressure. Set by the Machine controller.
	MachineNodeHealthyCondition = "NodeHealthy"

	// Reasons of MachineNodeHealthyCondition.
	MachineNodeHealthyReason          = "NodeHealthy"
	MachineNodeNotHealthyReason       = "NodeNotHealthy"
	MachineNodeHealthUnknownReason    = "NodeHealthyUnknown"
	MachineNodeInternalErrorReason    = InternalErrorReason
	MachineNodeDoesNotExistReason     = "NodeDoesNotExist"
	MachineNodeDeletedReason          = "NodeDeleted"
	MachineNodeInspectionFailedReason = InspectionFailedReason
	MachineNodeConnectionDownReason   = ConnectionDownReason
)

const (
	// MachineNodeReadyCondition is True when the Node is ready. Set by the Machine
	// controller.
	MachineNodeReadyCondition = "NodeReady"

	// Reasons of MachineNodeReadyCondition.
	MachineNodeReadyReason        = "NodeReady"
	MachineNodeNotReadyReason     = "NodeNotReady"
	MachineNodeReadyUnknownReason = "NodeReadyUnknown"
)

const (
	// MachineHealthCheckSucceededCondition is False when a MachineHealthCheck found
	// the Machine unhealthy. Set by the MachineHealthCheck controller.
	MachineHealthCheckSucceededCondition = "HealthCheckSucceeded"

	// Reasons of MachineHealthCheckSucceededCondition.
	MachineHealthCheckSucceededReason              = "HealthCheckSucceeded"
	MachineHealthCheckUnhealthyNodeReason          = "UnhealthyNode"
	MachineHealthCheckUnhealthyMachineReason       = "UnhealthyMachine"
	MachineHealthCheckNodeStartupTimeoutReason     = "NodeStartupTimeout"
	MachineHealthCheckNodeDeletedReason            = "NodeDeleted"
	MachineHealthCheckHasRemediateAnnotationReason = "HasRemediateAnnotation"

	// Reasons while it is Unknown, beyond those of Cluster API.
	MachineHealthCheckConnectionDownReason = ConnectionDownReason
	MachineHealthCheckWaitingForNewsReason = "WaitingForNews"
)

const (
	// MachineOwnerRemediatedCondition is False while the owner must replace the
	// Machine. Created by the MachineHealthCheck controller, then maintained by the
	// owner.
	MachineOwnerRemediatedCondition = "OwnerRemediated"

	// Reasons of MachineOwnerRemediatedCondition.
	MachineOwnerRemediatedWaitingForRemediationReason = "WaitingForRemediation"
)

const (
	// MachineExternallyRemediatedCondition is False while an external controller
	// must remediate the Machine. Set by the MachineHealthCheck controller.
	MachineExternallyRemediatedCondition = "ExternallyRemediated"

	// Reasons of MachineExternallyRemediatedCondition.
	MachineExternallyRemediatedWaitingForRemediationReason            = "WaitingForRemediation"
	MachineExternallyRemediatedRemediationTemplateNotFoundReason      = "RemediationTemplateNotFound"
	MachineExternallyRemediatedRemediationRequestCreationFailedReason = "RemediationRequestCreationFailed"
)

const (
	// MachineDeletingCondition is True while the Machine is being deleted; its
	// message names what is awaited. Set by the Machine controller.
	MachineDeletingCondition = DeletingCondition

	// Reasons of MachineDeletingCondition.
	MachineNotDeletingReason                              = NotDeletingReason
	MachineDeletingReason                                 = DeletingReason
	MachineDeletingInternalErrorReason                    = InternalErrorReason
	MachineDeletingWaitingForPreDrainHookReason           = "WaitingForPreDrainHook"
	MachineDeletingDrainingNodeReason                     = "DrainingNode"
	MachineDeletingWaitingForVolumeDetachReason           = "WaitingForVolumeDetach"
	MachineDeletingWaitingForPreTerminateHookReason       = "WaitingForPreTerminateHook"
	MachineDeletingWaitingForInfrastructureDeletionReason = "WaitingForInfrastructureDeletion"
	MachineDeletingWaitingForBootstrapDeletionReason      = "WaitingForBootstrapDeletion"
	MachineDeletingDeletingNodeReason                     = "DeletingNode"
	MachineDeletingDeletionCompletedReason                = DeletionCompletedReason
)
