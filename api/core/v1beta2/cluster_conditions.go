// SPDX-License-Identifier: Apache-2.0

package v1beta2

const (
	// ClusterAvailableCondition is True when the cluster can be used: it is not
	// being deleted, connected, and its infrastructure, control plane, workers,
	// topology and availability gates are good. Set by the Cluster controller, as a
	// summary.
	ClusterAvailableCondition = AvailableCondition

	// Reasons of ClusterAvailableCondition.
	ClusterAvailableReason              = AvailableReason
	ClusterNotAvailableReason           = NotAvailableReason
	ClusterAvailableUnknownReason       = AvailableUnknownReason
	ClusterAvailableInternalErrorReason = InternalErrorReason
)

const (
	// ClusterTopologyReconciledCondition is True when the objects of the cluster
	// match its topology. Set by the topology controller.
	ClusterTopologyReconciledCondition = "TopologyReconciled"

	// Reasons of ClusterTopologyReconciledCondition.
	ClusterTopologyReconcileSucceededReason                          = "ReconcileSucceeded"
	ClusterTopologyReconciledFailedReason                            = "ReconcileFailed"
	ClusterTopologyReconciledClusterCreatingReason                   = "ClusterCreating"
	ClusterTopologyReconciledControlPlaneUpgradePendingReason        = "ControlPlaneUpgradePending"
	ClusterTopologyReconciledMachineDeploymentsCreatePendingReason   = "MachineDeploymentsCreatePending"
	ClusterTopologyReconciledMachineDeploymentsUpgradePendingReason  = "MachineDeploymentsUpgradePending"
	ClusterTopologyReconciledMachineDeploymentsUpgradeDeferredReason = "MachineDeploymentsUpgradeDeferred"
	ClusterTopologyReconciledMachinePoolsUpgradePendingReason        = "MachinePoolsUpgradePending"
	ClusterTopologyReconciledMachinePoolsCreatePendingReason         = "MachinePoolsCreatePending"
	ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason       = "MachinePoolsUpgradeDeferred"
	ClusterTopologyReconciledHookBlockingReason                      = "LifecycleHookBlocking"
	ClusterTopologyReconciledClusterUpgradingReason                  = "ClusterUpgrading"
	ClusterTopologyReconciledClusterClassNotReconciledReason         = "ClusterClassNotReconciled"
	ClusterTopologyReconciledDeletingReason                          = DeletingReason
	ClusterTopologyReconcilePausedReason                             = PausedReason
)

const (
	// ClusterInfrastructureReadyCondition mirrors Ready of the infrastructure
	// object. Set by the Cluster controller.
	ClusterInfrastructureReadyCondition = InfrastructureReadyCondition

	// Reasons of ClusterInfrastructureReadyCondition.
	ClusterInfrastructureReadyReason                    = ReadyReason
	ClusterInfrastructureNotReadyReason                 = NotReadyReason
	ClusterInfrastructureInvalidConditionReportedReason = InvalidConditionReportedReason
	ClusterInfrastructureInternalErrorReason            = InternalErrorReason
	ClusterInfrastructureDoesNotExistReason             = ObjectDoesNotExistReason
	ClusterInfrastructureDeletedReason                  = ObjectDeletedReason
)

const (
	// ClusterControlPlaneInitializedCondition is True once the API server can serve
	// requests, and remains so. Set by the Cluster controller.
	ClusterControlPlaneInitializedCondition = "ControlPlaneInitialized"

	// Reasons of ClusterControlPlaneInitializedCondition.
	ClusterControlPlaneInitializedReason              = "Initialized"
	ClusterControlPlaneNotInitializedReason           = "NotInitialized"
	ClusterControlPlaneInitializedInternalErrorReason = InternalErrorReason
)

const (
	// ClusterControlPlaneAvailableCondition mirrors Available of the control plane
	// object. Set by the Cluster controller.
	ClusterControlPlaneAvailableCondition = "ControlPlaneAvailable"

	// Reasons of ClusterControlPlaneAvailableCondition.
	ClusterControlPlaneAvailableReason                = AvailableReason
	ClusterControlPlaneNotAvailableReason             = NotAvailableReason
	ClusterControlPlaneInvalidConditionReportedReason = InvalidConditionReportedReason
	ClusterControlPlaneInternalErrorReason            = InternalErrorReason
	ClusterControlPlaneDoesNotExistReason             = ObjectDoesNotExistReason
	ClusterControlPlaneDeletedReason                  = ObjectDeletedReason
)

const (
	// ClusterWorkersAvailableCondition is True when all MachineDeployments and
	// MachinePools are available. Set by the Cluster controller.
	ClusterWorkersAvailableCondition = "WorkersAvailable"

	// Reasons of ClusterWorkersAvailableCondition.
	ClusterWorkersAvailableReason              = AvailableReason
	ClusterWorkersNotAvailableReason           = NotAvailableReason
	ClusterWorkersAvailableUnknownReason       = AvailableUnknownReason
	ClusterWorkersAvailableNoWorkersReason     = "NoWorkers"
	ClusterWorkersAvailableInternalErrorReason = InternalErrorReason
)

const (
	// ClusterControlPlaneMachinesReadyCondition is True when all control plane
	// Machines are ready. Set by the Cluster controller.
	ClusterControlPlaneMachinesReadyCondition = "ControlPlaneMachinesReady"

	// Reasons of ClusterControlPlaneMachinesReadyCondition.
	ClusterControlPlaneMachinesReadyReason              = ReadyReason
	ClusterControlPlaneMachinesNotReadyReason           = NotReadyReason
	ClusterControlPlaneMachinesReadyUnknownReason       = ReadyUnknownReason
	ClusterControlPlaneMachinesReadyNoReplicasReason    = NoReplicasReason
	ClusterControlPlaneMachinesReadyInternalErrorReason = InternalErrorReason
)

const (
	// ClusterWorkerMachinesReadyCondition is True when all worker Machines are
	// ready. Set by the Cluster controller.
	ClusterWorkerMachinesReadyCondition = "WorkerMachinesReady"

	// Reasons of ClusterWorkerMachinesReadyCondition.
	ClusterWorkerMachinesReadyReason              = ReadyReason
	ClusterWorkerMachinesNotReadyReason           = NotReadyReason
	ClusterWorkerMachinesReadyUnknownReason       = ReadyUnknownReason
	ClusterWorkerMachinesReadyNoReplicasReason    = NoReplicasReason
	ClusterWorkerMachinesReadyInternalErrorReason = InternalErrorReason
)

const (
	// ClusterControlPlaneMachinesUpToDateCondition is True when all control plane
	// Machines are up to date. Set by the Cluster controller.
	ClusterControlPlaneMachinesUpToDateCondition = "ControlPlaneMachinesUpToDate"

	// Reasons of ClusterControlPlaneMachinesUpToDateCondition.
	ClusterControlPlaneMachinesUpToDateReason              = UpToDateReason
	ClusterControlPlaneMachinesNotUpToDateReason           = NotUpToDateReason
	ClusterControlPlaneMachinesUpToDateUnknownReason       = UpToDateUnknownReason
	ClusterControlPlaneMachinesUpToDateNoReplicasReason    = NoReplicasReason
	ClusterControlPlaneMachinesUpToDateInternalErrorReason = InternalErrorReason
)

const (
	// ClusterWorkerMachinesUpToDateCondition is True when all worker Machines are up
	// to date. Set by the Cluster controller.
	ClusterWorkerMachinesUpToDateCondition = "WorkerMachinesUpToDate"

	// Reasons of ClusterWorkerMachinesUpToDateCondition.
	ClusterWorkerMachinesUpToDateReason              = UpToDateReason
	ClusterWorkerMachinesNotUpToDateReason           = NotUpToDateReason
	ClusterWorkerMachinesUpToDateUnknownReason       = UpToDateUnknownReason
	ClusterWorkerMachinesUpToDateNoReplicasReason    = NoReplicasReason
	ClusterWorkerMachinesUpToDateInternalErrorReason = InternalErrorReason
)

const (
	// ClusterRemoteConnectionProbeCondition is True while the API server of the
	// cluster answers the management plane. Set by the Cluster controller.
	ClusterRemoteConnectionProbeCondition = "RemoteConnectionProbe"

	// Reasons of ClusterRemoteConnectionProbeCondition.
	ClusterRemoteConnectionProbeFailedReason    = "ProbeFailed"
	ClusterRemoteConnectionProbeSucceededReason = "ProbeSucceeded"
)

const (
	// ClusterRollingOutCondition is True while the control plane or a group of
	// workers replaces machines. Set by the Cluster controller.
	ClusterRollingOutCondition = RollingOutCondition

	// Reasons of ClusterRollingOutCondition.
	ClusterRollingOutReason              = RollingOutReason
	ClusterNotRollingOutReason           = NotRollingOutReason
	ClusterRollingOutUnknownReason       = "RollingOutUnknown"
	ClusterRollingOutInternalErrorReason = InternalErrorReason
)

const (
	// ClusterScalingUpCondition is True while the control plane or a group of
	// workers has too few machines. Set by the Cluster controller.
	ClusterScalingUpCondition = ScalingUpCondition

	// Reasons of ClusterScalingUpCondition.
	ClusterScalingUpReason              = ScalingUpReason
	ClusterNotScalingUpReason           = NotScalingUpReason
	ClusterScalingUpUnknownReason       = "ScalingUpUnknown"
	ClusterScalingUpInternalErrorReason = InternalErrorReason
)

const (
	// ClusterScalingDownCondition is True while the control plane or a group of
	// workers has too many machines. Set by the Cluster controller.
	ClusterScalingDownCondition = ScalingDownCondition

	// Reasons of ClusterScalingDownCondition.
	ClusterScalingDownReason              = ScalingDownReason
	ClusterNotScalingDownReason           = NotScalingDownReason
	ClusterScalingDownUnknownReason       = "ScalingDownUnknown"
	ClusterScalingDownInternalErrorReason = InternalErrorReason
)

const (
	// ClusterRemediatingCondition is True while unhealthy Machines wait for
	// remediation. Set by the Cluster controller.
	ClusterRemediatingCondition = RemediatingCondition

	// Reasons of ClusterRemediatingCondition.
	ClusterRemediatingReason              = RemediatingReason
	ClusterNotRemediatingReason           = NotRemediatingReason
	ClusterRemediatingInternalErrorReason = InternalErrorReason
)

const (
	// ClusterDeletingCondition is True while the Cluster is being deleted; its
	// message names what is awaited. Set by the Cluster controller.
	ClusterDeletingCondition = DeletingCondition

	// Reasons of ClusterDeletingCondition.
	ClusterNotDeletingReason                              = NotDeletingReason
	ClusterDeletingWaitingForBeforeDeleteHookReason       = "WaitingForBeforeDeleteHook"
	ClusterDeletingWaitingForWorkersDeletionReason        = "WaitingForWorkersDeletion"
	ClusterDeletingWaitingForControlPlaneDeletionReason   = "WaitingForControlPlaneDeletion"
	ClusterDeletingWaitingForInfrastructureDeletionReason = "WaitingForInfrastructureDeletion"
	ClusterDeletingDeletionCompletedReason                = DeletionCompletedReason
	ClusterDeletingInternalErrorReason                    = InternalErrorReason
)
