// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Condition types that several kinds use; each kind has its own name for them.
const (
	AvailableCondition            = "Available"
	ReadyCondition                = "Ready"
	BootstrapConfigReadyCondition = "BootstrapConfigReady"
	InfrastructureReadyCondition  = "InfrastructureReady"
	MachinesReadyCondition        = "MachinesReady"
	MachinesUpToDateCondition     = "MachinesUpToDate"
	RollingOutCondition           = "RollingOut"
	ScalingUpCondition            = "ScalingUp"
	ScalingDownCondition          = "ScalingDown"
	RemediatingCondition          = "Remediating"
	DeletingCondition             = "Deleting"
	// PausedCondition is True while controllers do not reconcile the object, because of
	// spec.paused of its Cluster or of an annotation. Set by the controller of the object.
	PausedCondition = "Paused"
)

// Reasons that several kinds use; each kind has its own name for them.
const (
	AvailableReason                            = "Available"
	NotAvailableReason                         = "NotAvailable"
	AvailableUnknownReason                     = "AvailableUnknown"
	ReadyReason                                = "Ready"
	NotReadyReason                             = "NotReady"
	ReadyUnknownReason                         = "ReadyUnknown"
	UpToDateReason                             = "UpToDate"
	NotUpToDateReason                          = "NotUpToDate"
	UpToDateUnknownReason                      = "UpToDateUnknown"
	RollingOutReason                           = "RollingOut"
	NotRollingOutReason                        = "NotRollingOut"
	ScalingUpReason                            = "ScalingUp"
	NotScalingUpReason                         = "NotScalingUp"
	ScalingDownReason                          = "ScalingDown"
	NotScalingDownReason                       = "NotScalingDown"
	RemediatingReason                          = "Remediating"
	NotRemediatingReason                       = "NotRemediating"
	NoReplicasReason                           = "NoReplicas"
	WaitingForReplicasSetReason                = "WaitingForReplicasSet"
	InvalidConditionReportedReason             = "InvalidConditionReported"
	InternalErrorReason                        = "InternalError"
	ObjectDoesNotExistReason                   = "ObjectDoesNotExist"
	ObjectDeletedReason                        = "ObjectDeleted"
	NotPausedReason                            = "NotPaused"
	PausedReason                               = "Paused"
	ConnectionDownReason                       = "ConnectionDown"
	NotDeletingReason                          = "NotDeleting"
	DeletingReason                             = "Deleting"
	DeletionCompletedReason                    = "DeletionCompleted"
	InspectionFailedReason                     = "InspectionFailed"
	WaitingForClusterInfrastructureReadyReason = "WaitingForClusterInfrastructureReady"
	WaitingForControlPlaneInitializedReason    = "WaitingForControlPlaneInitialized"
	WaitingForBootstrapDataReason              = "WaitingForBootstrapData"
	ProvisionedReason                          = "Provisioned"
	NotProvisionedReason                       = "NotProvisioned"
)
