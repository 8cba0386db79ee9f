// SPDX-License-Identifier: Apache-2.0

package v1beta2

import clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

// Names of v1beta1 conditions and reasons, which are used only in
// status.deprecated.v1beta1 and in conversion.
const (
	// MachinesReadyV1Beta1Condition summed up the machines.
	MachinesReadyV1Beta1Condition clusterv1.ConditionType = "MachinesReady"

	// CertificatesAvailableV1Beta1Condition reported that the certificates exist.
	CertificatesAvailableV1Beta1Condition clusterv1.ConditionType = "CertificatesAvailable"

	// CertificatesGenerationFailedV1Beta1Reason: certificates could not be created.
	CertificatesGenerationFailedV1Beta1Reason = "CertificatesGenerationFailed"

	// AvailableV1Beta1Condition reported that the first API server has answered.
	AvailableV1Beta1Condition clusterv1.ConditionType = "Available"

	// WaitingForKubeadmInitV1Beta1Reason: kubeadm init has not finished.
	WaitingForKubeadmInitV1Beta1Reason = "WaitingForKubeadmInit"

	// MachinesSpecUpToDateV1Beta1Condition reported that the machines match the
	// spec.
	MachinesSpecUpToDateV1Beta1Condition clusterv1.ConditionType = "MachinesSpecUpToDate"

	// RollingUpdateInProgressV1Beta1Reason: machines are being replaced.
	RollingUpdateInProgressV1Beta1Reason = "RollingUpdateInProgress"

	// ResizedV1Beta1Condition reported that the number of machines is the desired
	// one.
	ResizedV1Beta1Condition clusterv1.ConditionType = "Resized"

	// ScalingUpV1Beta1Reason: machines are being added.
	ScalingUpV1Beta1Reason = "ScalingUp"

	// ScalingDownV1Beta1Reason: machines are being removed.
	ScalingDownV1Beta1Reason = "ScalingDown"

	// ControlPlaneComponentsHealthyV1Beta1Condition reported that all static Pods are
	// healthy.
	ControlPlaneComponentsHealthyV1Beta1Condition clusterv1.ConditionType = "ControlPlaneComponentsHealthy"

	// ControlPlaneComponentsUnhealthyV1Beta1Reason: a component is not healthy.
	ControlPlaneComponentsUnhealthyV1Beta1Reason = "ControlPlaneComponentsUnhealthy"

	// ControlPlaneComponentsUnknownV1Beta1Reason: the health of a component is not
	// known.
	ControlPlaneComponentsUnknownV1Beta1Reason = "ControlPlaneComponentsUnknown"

	// ControlPlaneComponentsInspectionFailedV1Beta1Reason: components could not be
	// read.
	ControlPlaneComponentsInspectionFailedV1Beta1Reason = "ControlPlaneComponentsInspectionFailed"

	// MachineAPIServerPodHealthyV1Beta1Condition reported that the Pod of kube-
	// apiserver is ready.
	MachineAPIServerPodHealthyV1Beta1Condition clusterv1.ConditionType = "APIServerPodHealthy"

	// MachineControllerManagerPodHealthyV1Beta1Condition reported that the Pod of
	// kube-controller-manager is ready.
	MachineControllerManagerPodHealthyV1Beta1Condition clusterv1.ConditionType = "ControllerManagerPodHealthy"

	// MachineSchedulerPodHealthyV1Beta1Condition reported that the Pod of kube-
	// scheduler is ready.
	MachineSchedulerPodHealthyV1Beta1Condition clusterv1.ConditionType = "SchedulerPodHealthy"

	// MachineEtcdPodHealthyV1Beta1Condition reported that the Pod of etcd is ready.
	MachineEtcdPodHealthyV1Beta1Condition clusterv1.ConditionType = "EtcdPodHealthy"

	// PodProvisioningV1Beta1Reason: a Pod is starting.
	PodProvisioningV1Beta1Reason = "PodProvisioning"

	// PodMissingV1Beta1Reason: a Pod does not exist.
	PodMissingV1Beta1Reason = "PodMissing"

	// PodFailedV1Beta1Reason: a Pod has failed.
	PodFailedV1Beta1Reason = "PodFailed"

	// PodInspectionFailedV1Beta1Reason: a Pod could not be read.
	PodInspectionFailedV1Beta1Reason = "PodInspectionFailed"

	// EtcdClusterHealthyV1Beta1Condition reported that etcd is healthy.
	EtcdClusterHealthyV1Beta1Condition clusterv1.ConditionType = "EtcdClusterHealthy"

	// EtcdClusterInspectionFailedV1Beta1Reason: etcd could not be asked.
	EtcdClusterInspectionFailedV1Beta1Reason = "EtcdClusterInspectionFailed"

	// EtcdClusterUnknownV1Beta1Reason: the health of etcd is not known.
	EtcdClusterUnknownV1Beta1Reason = "EtcdClusterUnknown"

	// EtcdClusterUnhealthyV1Beta1Reason: etcd is not healthy.
	EtcdClusterUnhealthyV1Beta1Reason = "EtcdClusterUnhealthy"

	// MachineEtcdMemberHealthyV1Beta1Condition reported that a machine has a healthy
	// etcd member.
	MachineEtcdMemberHealthyV1Beta1Condition clusterv1.ConditionType = "EtcdMemberHealthy"

	// EtcdMemberInspectionFailedV1Beta1Reason: a member could not be asked.
	EtcdMemberInspectionFailedV1Beta1Reason = "MemberInspectionFailed"

	// EtcdMemberUnhealthyV1Beta1Reason: a member is not healthy.
	EtcdMemberUnhealthyV1Beta1Reason = "EtcdMemberUnhealthy"

	// MachinesCreatedV1Beta1Condition reported that all machines could be created.
	MachinesCreatedV1Beta1Condition clusterv1.ConditionType = "MachinesCreated"

	// InfrastructureTemplateCloningFailedV1Beta1Reason: the infrastructure could
	// not be cloned.
	InfrastructureTemplateCloningFailedV1Beta1Reason = "InfrastructureTemplateCloningFailed"

	// BootstrapTemplateCloningFailedV1Beta1Reason: the bootstrap config could not be
	// created.
	BootstrapTemplateCloningFailedV1Beta1Reason = "BootstrapTemplateCloningFailed"

	// MachineGenerationFailedV1Beta1Reason: the Machine could not be created.
	MachineGenerationFailedV1Beta1Reason = "MachineGenerationFailed"
)
