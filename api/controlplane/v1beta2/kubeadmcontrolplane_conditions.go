// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// Available of a control plane.
const (
	// KubeadmControlPlaneAvailableCondition is True when etcd has a quorum and at
	// least one machine runs all components in health, and nothing is being
	// deleted.
	KubeadmControlPlaneAvailableCondition = clusterv1.AvailableCondition

	// KubeadmControlPlaneAvailableInspectionFailedReason goes with Unknown: etcd's
	// members could not be listed.
	KubeadmControlPlaneAvailableInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneAvailableReason goes with True.
	KubeadmControlPlaneAvailableReason = clusterv1.AvailableReason

	// KubeadmControlPlaneNotAvailableReason goes with False.
	KubeadmControlPlaneNotAvailableReason = clusterv1.NotAvailableReason
)

// Initialized of a control plane.
const (
	// KubeadmControlPlaneInitializedCondition is True once kubeadm init was
	// observed to have finished, and remains so.
	KubeadmControlPlaneInitializedCondition = "Initialized"

	// KubeadmControlPlaneInitializedReason goes with True.
	KubeadmControlPlaneInitializedReason = "Initialized"

	// KubeadmControlPlaneNotInitializedReason goes with False.
	KubeadmControlPlaneNotInitializedReason = "NotInitialized"
)

// CertificatesAvailable of a control plane.
const (
	// KubeadmControlPlaneCertificatesAvailableCondition is True when the
	// authorities and the service account key of the cluster exist.
	KubeadmControlPlaneCertificatesAvailableCondition = "CertificatesAvailable"

	// KubeadmControlPlaneCertificatesInternalErrorReason goes with Unknown: the
	// certificates could not be read.
	KubeadmControlPlaneCertificatesInternalErrorReason = clusterv1.InternalErrorReason

	// KubeadmControlPlaneCertificatesAvailableReason goes with True.
	KubeadmControlPlaneCertificatesAvailableReason = clusterv1.AvailableReason

	// KubeadmControlPlaneCertificatesNotAvailableReason goes with False.
	KubeadmControlPlaneCertificatesNotAvailableReason = clusterv1.NotAvailableReason
)

// EtcdClusterHealthy of a control plane.
const (
	// KubeadmControlPlaneEtcdClusterHealthyCondition is True when all members are
	// healthy and belong to machines.
	KubeadmControlPlaneEtcdClusterHealthyCondition = "EtcdClusterHealthy"

	// KubeadmControlPlaneEtcdClusterInspectionFailedReason goes with Unknown:
	// nothing could be read yet.
	KubeadmControlPlaneEtcdClusterInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneEtcdClusterConnectionDownReason goes with Unknown: the
	// workload cluster has not responded for a while.
	KubeadmControlPlaneEtcdClusterConnectionDownReason = clusterv1.ConnectionDownReason

	// KubeadmControlPlaneEtcdClusterHealthyReason goes with True.
	KubeadmControlPlaneEtcdClusterHealthyReason = "Healthy"

	// KubeadmControlPlaneEtcdClusterNotHealthyReason goes with False.
	KubeadmControlPlaneEtcdClusterNotHealthyReason = "NotHealthy"

	// KubeadmControlPlaneEtcdClusterHealthUnknownReason goes with Unknown: some
	// members are not known to be healthy.
	KubeadmControlPlaneEtcdClusterHealthUnknownReason = "HealthUnknown"
)

// ControlPlaneComponentsHealthy of a control plane.
const (
	// KubeadmControlPlaneControlPlaneComponentsHealthyCondition is True when the
	// static Pods on all machines are healthy.
	KubeadmControlPlaneControlPlaneComponentsHealthyCondition = "ControlPlaneComponentsHealthy"

	// KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason goes with
	// Unknown: nothing could be read yet.
	KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneControlPlaneComponentsConnectionDownReason goes with
	// Unknown: the workload cluster has not responded for a while.
	KubeadmControlPlaneControlPlaneComponentsConnectionDownReason = clusterv1.ConnectionDownReason

	// KubeadmControlPlaneControlPlaneComponentsHealthyReason goes with True.
	KubeadmControlPlaneControlPlaneComponentsHealthyReason = "Healthy"

	// KubeadmControlPlaneControlPlaneComponentsNotHealthyReason goes with False.
	KubeadmControlPlaneControlPlaneComponentsNotHealthyReason = "NotHealthy"

	// KubeadmControlPlaneControlPlaneComponentsHealthUnknownReason goes with
	// Unknown: some components are not known to be healthy.
	KubeadmControlPlaneControlPlaneComponentsHealthUnknownReason = "HealthUnknown"
)

// MachinesReady of a control plane.
const (
	// KubeadmControlPlaneMachinesReadyCondition summarizes the Ready conditions of
	// the machines.
	KubeadmControlPlaneMachinesReadyCondition = clusterv1.MachinesReadyCondition

	// KubeadmControlPlaneMachinesReadyReason goes with True.
	KubeadmControlPlaneMachinesReadyReason = clusterv1.ReadyReason

	// KubeadmControlPlaneMachinesNotReadyReason goes with False.
	KubeadmControlPlaneMachinesNotReadyReason = clusterv1.NotReadyReason

	// KubeadmControlPlaneMachinesReadyUnknownReason goes with Unknown.
	KubeadmControlPlaneMachinesReadyUnknownReason = clusterv1.ReadyUnknownReason

	// KubeadmControlPlaneMachinesReadyNoReplicasReason goes with True: no machines
	// exist.
	KubeadmControlPlaneMachinesReadyNoReplicasReason = clusterv1.NoReplicasReason

	// KubeadmControlPlaneMachinesReadyInternalErrorReason goes with Unknown: an
	// error occurred in the summary.
	KubeadmControlPlaneMachinesReadyInternalErrorReason = clusterv1.InternalErrorReason
)

// AddonsUpToDate of a control plane; upstream has no such condition.
const (
	// KubeadmControlPlaneAddonsUpToDateCondition is False while CoreDNS cannot be
	// updated until a user changes something. Otherwise it does not exist.
	KubeadmControlPlaneAddonsUpToDateCondition = "AddonsUpToDate"

	// KubeadmControlPlaneAddonsUpdateBlockedReason goes with False.
	KubeadmControlPlaneAddonsUpdateBlockedReason = "UpdateBlocked"
)

// MachinesUpToDate of a control plane.
const (
	// KubeadmControlPlaneMachinesUpToDateCondition summarizes the UpToDate
	// conditions of the machines.
	KubeadmControlPlaneMachinesUpToDateCondition = clusterv1.MachinesUpToDateCondition

	// KubeadmControlPlaneMachinesUpToDateReason goes with True.
	KubeadmControlPlaneMachinesUpToDateReason = clusterv1.UpToDateReason

	// KubeadmControlPlaneMachinesNotUpToDateReason goes with False.
	KubeadmControlPlaneMachinesNotUpToDateReason = clusterv1.NotUpToDateReason

	// KubeadmControlPlaneMachinesUpToDateUnknownReason goes with Unknown.
	KubeadmControlPlaneMachinesUpToDateUnknownReason = clusterv1.UpToDateUnknownReason

	// KubeadmControlPlaneMachinesUpToDateNoReplicasReason goes with True: no
	// machines exist.
	KubeadmControlPlaneMachinesUpToDateNoReplicasReason = clusterv1.NoReplicasReason

	// KubeadmControlPlaneMachinesUpToDateInternalErrorReason goes with Unknown: an
	// error occurred in the summary.
	KubeadmControlPlaneMachinesUpToDateInternalErrorReason = clusterv1.InternalErrorReason
)

// RollingOut of a control plane.
const (
	// KubeadmControlPlaneRollingOutCondition is True while machines do not match
	// the spec.
	KubeadmControlPlaneRollingOutCondition = clusterv1.RollingOutCondition

	// KubeadmControlPlaneRollingOutReason goes with True.
	KubeadmControlPlaneRollingOutReason = clusterv1.RollingOutReason

	// KubeadmControlPlaneNotRollingOutReason goes with False.
	KubeadmControlPlaneNotRollingOutReason = clusterv1.NotRollingOutReason
)

// ScalingUp of a control plane.
const (
	// KubeadmControlPlaneScalingUpCondition is True while there are fewer machines
	// than desired.
	KubeadmControlPlaneScalingUpCondition = clusterv1.ScalingUpCondition

	// KubeadmControlPlaneScalingUpReason goes with True.
	KubeadmControlPlaneScalingUpReason = clusterv1.ScalingUpReason

	// KubeadmControlPlaneNotScalingUpReason goes with False.
	KubeadmControlPlaneNotScalingUpReason = clusterv1.NotScalingUpReason

	// KubeadmControlPlaneScalingUpWaitingForReplicasSetReason goes with Unknown:
	// spec.replicas is not set.
	KubeadmControlPlaneScalingUpWaitingForReplicasSetReason = clusterv1.WaitingForReplicasSetReason
)

// ScalingDown of a control plane.
const (
	// KubeadmControlPlaneScalingDownCondition is True while there are more
	// machines than desired.
	KubeadmControlPlaneScalingDownCondition = clusterv1.ScalingDownCondition

	// KubeadmControlPlaneScalingDownReason goes with True.
	KubeadmControlPlaneScalingDownReason = clusterv1.ScalingDownReason

	// KubeadmControlPlaneNotScalingDownReason goes with False.
	KubeadmControlPlaneNotScalingDownReason = clusterv1.NotScalingDownReason

	// KubeadmControlPlaneScalingDownWaitingForReplicasSetReason goes with Unknown:
	// spec.replicas is not set.
	KubeadmControlPlaneScalingDownWaitingForReplicasSetReason = clusterv1.WaitingForReplicasSetReason
)

// Remediating of a control plane, and OwnerRemediated of its machines.
const (
	// KubeadmControlPlaneRemediatingCondition is True while an unhealthy machine
	// is being replaced.
	KubeadmControlPlaneRemediatingCondition = clusterv1.RemediatingCondition

	// KubeadmControlPlaneRemediatingReason goes with True.
	KubeadmControlPlaneRemediatingReason = clusterv1.RemediatingReason

	// KubeadmControlPlaneNotRemediatingReason goes with False.
	KubeadmControlPlaneNotRemediatingReason = clusterv1.NotRemediatingReason

	// KubeadmControlPlaneRemediatingInternalErrorReason goes with Unknown: an
	// error occurred in the summary.
	KubeadmControlPlaneRemediatingInternalErrorReason = clusterv1.InternalErrorReason

	// KubeadmControlPlaneMachineRemediationInternalErrorReason goes with
	// OwnerRemediated False: the replacement failed with an error.
	KubeadmControlPlaneMachineRemediationInternalErrorReason = clusterv1.InternalErrorReason

	// KubeadmControlPlaneMachineCannotBeRemediatedReason goes with OwnerRemediated
	// False: it must not be replaced.
	KubeadmControlPlaneMachineCannotBeRemediatedReason = "CannotBeRemediated"

	// KubeadmControlPlaneMachineRemediationDeferredReason goes with
	// OwnerRemediated False: it must not be replaced yet.
	KubeadmControlPlaneMachineRemediationDeferredReason = "RemediationDeferred"

	// KubeadmControlPlaneMachineRemediationMachineDeletingReason goes with
	// OwnerRemediated False: it is being deleted.
	KubeadmControlPlaneMachineRemediationMachineDeletingReason = "MachineDeleting"
)

// Deleting of a control plane.
const (
	// KubeadmControlPlaneDeletingCondition is True while the control plane is
	// being deleted.
	KubeadmControlPlaneDeletingCondition = clusterv1.DeletingCondition

	// KubeadmControlPlaneNotDeletingReason goes with False.
	KubeadmControlPlaneNotDeletingReason = clusterv1.NotDeletingReason

	// KubeadmControlPlaneDeletingWaitingForWorkersDeletionReason goes with True:
	// workers still exist.
	KubeadmControlPlaneDeletingWaitingForWorkersDeletionReason = "WaitingForWorkersDeletion"

	// KubeadmControlPlaneDeletingWaitingForMachineDeletionReason goes with True:
	// its own machines still exist.
	KubeadmControlPlaneDeletingWaitingForMachineDeletionReason = "WaitingForMachineDeletion"

	// KubeadmControlPlaneDeletingDeletionCompletedReason goes with True:
	// everything is deleted.
	KubeadmControlPlaneDeletingDeletionCompletedReason = clusterv1.DeletionCompletedReason

	// KubeadmControlPlaneDeletingInternalErrorReason goes with True: the deletion
	// failed with an error.
	KubeadmControlPlaneDeletingInternalErrorReason = clusterv1.InternalErrorReason
)

// Health of the static Pods of one machine, on the Machine.
const (
	// KubeadmControlPlaneMachineAPIServerPodHealthyCondition is True when the Pod
	// of kube-apiserver is ready.
	KubeadmControlPlaneMachineAPIServerPodHealthyCondition = "APIServerPodHealthy"

	// KubeadmControlPlaneMachineControllerManagerPodHealthyCondition is True when
	// the Pod of kube-controller-manager is ready.
	KubeadmControlPlaneMachineControllerManagerPodHealthyCondition = "ControllerManagerPodHealthy"

	// KubeadmControlPlaneMachineSchedulerPodHealthyCondition is True when the Pod
	// of kube-scheduler is ready.
	KubeadmControlPlaneMachineSchedulerPodHealthyCondition = "SchedulerPodHealthy"

	// KubeadmControlPlaneMachineEtcdPodHealthyCondition is True when the Pod of
	// etcd is ready.
	KubeadmControlPlaneMachineEtcdPodHealthyCondition = "EtcdPodHealthy"

	// KubeadmControlPlaneMachinePodRunningReason goes with True.
	KubeadmControlPlaneMachinePodRunningReason = "Running"

	// KubeadmControlPlaneMachinePodProvisioningReason goes with False: the Pod is
	// starting.
	KubeadmControlPlaneMachinePodProvisioningReason = "Provisioning"

	// KubeadmControlPlaneMachinePodDoesNotExistReason goes with False: the Pod
	// does not exist.
	KubeadmControlPlaneMachinePodDoesNotExistReason = "DoesNotExist"

	// KubeadmControlPlaneMachinePodFailedReason goes with False: the Pod has
	// failed or ended.
	KubeadmControlPlaneMachinePodFailedReason = "Failed"

	// KubeadmControlPlaneMachinePodInspectionFailedReason goes with Unknown: the
	// Pod could not be read.
	KubeadmControlPlaneMachinePodInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneMachinePodConnectionDownReason goes with Unknown: the
	// workload cluster has not responded for a while.
	KubeadmControlPlaneMachinePodConnectionDownReason = clusterv1.ConnectionDownReason

	// KubeadmControlPlaneMachinePodDeletingReason goes with False: the machine is
	// being deleted.
	KubeadmControlPlaneMachinePodDeletingReason = "Deleting"
)

// EtcdMemberHealthy of one machine, on the Machine.
const (
	// KubeadmControlPlaneMachineEtcdMemberHealthyCondition is True when the
	// machine's etcd member is part of the cluster and has no alarm.
	KubeadmControlPlaneMachineEtcdMemberHealthyCondition = "EtcdMemberHealthy"

	// KubeadmControlPlaneMachineEtcdMemberNotHealthyReason goes with False.
	KubeadmControlPlaneMachineEtcdMemberNotHealthyReason = "NotHealthy"

	// KubeadmControlPlaneMachineEtcdMemberHealthyReason goes with True.
	KubeadmControlPlaneMachineEtcdMemberHealthyReason = "Healthy"

	// KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason goes with
	// Unknown: the member could not be reached.
	KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneMachineEtcdMemberConnectionDownReason goes with Unknown:
	// the workload cluster has not responded for a while.
	KubeadmControlPlaneMachineEtcdMemberConnectionDownReason = clusterv1.ConnectionDownReason

	// KubeadmControlPlaneMachineEtcdMemberDeletingReason goes with False: the
	// machine is being deleted.
	KubeadmControlPlaneMachineEtcdMemberDeletingReason = "Deleting"
)

// NodeKubeadmLabelsAndTaintsSet of one machine, on the Machine.
const (
	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition is True
	// when the Node has the labels and taints that kubeadm gives.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition = "NodeKubeadmLabelsAndTaintsSet"

	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsInspectionFailedReason
	// goes with Unknown: the Node could not be read.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsInspectionFailedReason = clusterv1.InspectionFailedReason

	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsConnectionDownReason
	// goes with Unknown: the workload cluster has not responded for a while.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsConnectionDownReason = clusterv1.ConnectionDownReason

	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason goes with
	// False.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason = "NotSet"

	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason goes with
	// True.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason = "Set"

	// KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason goes with
	// False: the machine is being deleted.
	KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason = "Deleting"
)
