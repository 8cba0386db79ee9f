// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

// edge states that a condition depends on findings of other objects, or on others of its
// own object.
type edge struct {
	from  string                           // role or kind; "" is any
	when  []string                         // types of the condition; none is any
	says  []string                         // parts of the reason or message, one of which it has; none is any
	to    func(w *walk, n *node) []*Object // the objects that it depends on
	types []string                         // their findings; none is any
	seen  bool                             // not findings that are Unknown because a connection is down
	fails bool                             // only findings whose reason reports a failure
}

// matches reports whether the edge is one of n. Those of a role apply to all its conditions
// except the ones that depend on no other object.
func (e *edge) matches(role string, n *node) bool {
	all := len(e.when) == 0 && (e.from == "" || !slices.Contains(original, n.Type))
	return (e.from == "" || e.from == role) && (all || slices.Contains(e.when, n.Type)) &&
		(len(e.says) == 0 || says(n.finding, e.says...))
}

// leads reports whether a finding of an object at the other end may explain n. An Event
// explains it only if it is not older; that the deletion of n has deleted an object does not.
func (e *edge) leads(n *node, f *finding) bool {
	switch {
	case f == n.finding, e.fails && !strings.Contains(f.Reason, "Fail") && !strings.Contains(f.Reason, "Error"), e.seen && f.Status == metav1.ConditionUnknown && says(f, unconnected...):
		return false
	case f.Type == typeWarning && (f.LastTransitionTime.Before(&n.LastTransitionTime) || f.Reason == awaiting), f.Type == typeMissing && n.object.Deleted != nil:
		return false
	}
	return slices.Contains(e.types, f.Type) || len(e.types) == 0 && f.Type != typeWarning
}

// says reports whether the reason or the message of a finding contains one of the parts.
func says(f *finding, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(f.Reason, part) || strings.Contains(f.Message, part) })
}

const (
	// noSpace is how etcd refuses a write when its disk is full.
	noSpace = "database space exceeded"
	// awaiting is the reason of upstream's Event about a rollout that waits for a Machine.
	awaiting = "ControlPlaneUnhealthy"
	// kcpCleanup ends the annotation with which a control plane protects etcd.
	kcpCleanup = "kcp-cleanup"
	// completed is how controllers end the reason of a deletion that they have completed.
	completed = clusterv1.DeletionCompletedReason
)

const (
	kindCluster    = clusterv1.ClusterKind
	kindClass      = clusterv1.ClusterClassKind
	kindMachine    = "Machine"
	kindSet        = "MachineSet"
	kindDeployment = "MachineDeployment"
	kindPool       = "MachinePool"
	kindCheck      = "MachineHealthCheck"
	kindExtension  = "ExtensionConfig"
	kindQuota      = "ResourceQuota"
	kindController = "Deployment"
	kindPod        = "Pod"

	replicaFailure = string(appsv1.DeploymentReplicaFailure)

	kindResourceSet = "ClusterResourceSet"
	kindBinding     = "ClusterResourceSetBinding"
)

// Types that several lines of the table name.
var (
	growing  = []string{clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition}
	changing = []string{clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition, clusterv1.RemediatingCondition}
	// components are the conditions of a control plane Machine, etcd those of its member.
	components = []string{
		controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition, etcd[0], etcd[1], controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition, controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
	}
	etcd = []string{controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}
	// inside are the conditions of a Cluster or Machine that report on what runs in it.
	inside = append([]string{
		clusterv1.ClusterRemoteConnectionProbeCondition, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition,
		clusterv1.MachineNodeHealthyCondition, clusterv1.MachineNodeReadyCondition,
	}, components...)
	// negative are the conditions that are good when False.
	negative = append([]string{clusterv1.DeletingCondition, clusterv1.PausedCondition, clusterv1.MachineUpdatingCondition, replicaFailure}, changing...)
	// original are findings that depend on no object of those that their object owns.
	original = []string{typeMissing, typePaused, typeContract, typeProvider, typeWarning, controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition}
	// summary are conditions that repeat others of the same object.
	summary = []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition, clusterv1.MachineNodeReadyCondition}
	// outdated are conditions that compare with a desired state that a rollout will reach.
	outdated = []string{
		clusterv1.MachineUpToDateCondition, clusterv1.MachinesUpToDateCondition,
		clusterv1.ClusterControlPlaneMachinesUpToDateCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition,
	}
	// unusable are parts of messages about an object that breaks its contract.
	unusable    = []string{"is held by", "kind ", "read ", "label ", clusterv1.InvalidConditionReportedReason}
	unconnected = []string{clusterv1.ConnectionDownReason, "Last successful probe at", "connection to the workload cluster", "workload cluster does not answer", clusterv1.InspectionFailedReason}
)

// edges is what each condition depends on. All lines that match apply.
var edges = []edge{
	// A paused object neither rolls out nor scales; one whose Cluster is paused reports it.
	{when: changing, to: self, types: []string{typePaused}},
	{when: append(slices.Clone(changing), clusterv1.PausedCondition), to: cluster, types: []string{typePaused}},

	// Without a connection, controllers cannot see the inside of a cluster.
	{from: kindMachine, says: unconnected, to: cluster, types: []string{clusterv1.ClusterRemoteConnectionProbeCondition}},
	{from: roleControlPlane, says: unconnected, to: cluster, types: []string{clusterv1.ClusterRemoteConnectionProbeCondition}},
	{from: roleBootstrap, says: []string{"workload cluster"}, to: cluster, types: []string{clusterv1.ClusterRemoteConnectionProbeCondition}},

	// A full etcd stores nothing that controllers write, and its other members report the alarm.
	{says: []string{noSpace}, to: controlPlaneMachines, types: []string{controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}},

	{from: kindCluster, when: []string{clusterv1.InfrastructureReadyCondition}, to: referred(fieldInfrastructure)},
	{from: kindCluster, when: []string{clusterv1.InfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterRemoteConnectionProbeCondition}, says: []string{"topology", "NotInitialized", "not established"}, to: self, types: []string{clusterv1.ClusterTopologyReconciledCondition}},
	{from: kindCluster, when: []string{clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition}, to: referred(fieldControlPlane)},
	{from: kindCluster, when: append([]string{clusterv1.DeletingCondition}, changing...), to: referred(fieldControlPlane), types: negative},
	{from: kindCluster, when: []string{clusterv1.ClusterRemoteConnectionProbeCondition, clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterControlPlaneAvailableCondition}, says: []string{"not established", "NotInitialized", "not yet initialized"}, to: self, types: []string{clusterv1.InfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition}},
	{from: kindCluster, when: []string{clusterv1.ClusterRemoteConnectionProbeCondition}, to: referred(fieldControlPlane), seen: true},
	{from: kindCluster, when: []string{clusterv1.ClusterControlPlaneInitializedCondition}, to: clusterInfrastructure, types: []string{typeContract}},
	{from: kindCluster, when: []string{clusterv1.ClusterWorkersAvailableCondition, clusterv1.ClusterWorkerMachinesReadyCondition}, to: owned(kindDeployment, kindPool, kindSet, kindMachine)},
	{from: kindCluster, when: changing, to: owned(kindDeployment, kindPool, kindSet)},
	{from: kindCluster, when: []string{clusterv1.RemediatingCondition}, to: owned(kindCheck)},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, says: []string{"ClassNotReconciled"}, to: referred(fieldClass)},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, to: referred(fieldClass), types: []string{typeMissing}},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, to: self, types: []string{typeHook, typePaused}},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, says: []string{"ReconcileFailed", "hook", "Hook"}, to: extensions},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, says: []string{"upgrading", "pending", "Pending", "ClusterCreating", "Upgrading"}, to: referred(fieldControlPlane)},
	{from: kindCluster, when: []string{clusterv1.ClusterTopologyReconciledCondition}, says: []string{"upgrading", "pending", "Pending", "Upgrading"}, to: owned(kindDeployment, kindPool)},
	{from: kindCluster, when: []string{typeHook, clusterv1.DeletingCondition}, to: extensions},
	{from: kindCluster, when: []string{clusterv1.DeletingCondition}, says: []string{"Hook"}, to: self, types: []string{typeHook}},
	{from: kindCluster, when: []string{clusterv1.DeletingCondition}, to: both(owned(kindDeployment, kindPool, kindSet, kindMachine), referred(fieldInfrastructure)), types: []string{typeDeleting, typePaused}},

	{from: kindDeployment, to: owned(kindSet)},
	{when: growing, to: absent},
	{from: kindSet, when: []string{clusterv1.MachinesReadyCondition, clusterv1.RemediatingCondition}, to: owned(kindMachine)},
	{from: kindSet, when: []string{clusterv1.ScalingDownCondition, clusterv1.DeletingCondition}, to: owned(kindMachine), types: []string{typeDeleting}},
	{from: kindSet, when: []string{clusterv1.ScalingUpCondition}, says: []string{"ControlPlaneIsStable"}, to: controlPlane},
	{from: kindPool, to: both(referred(fieldTemplateInfrastructure), referred(fieldTemplateBootstrap))},
	{from: kindPool, when: []string{clusterv1.MachinesReadyCondition, clusterv1.DeletingCondition, clusterv1.RemediatingCondition}, to: owned(kindMachine)},

	{from: roleControlPlane, to: owned(kindMachine), seen: true},
	{from: roleControlPlane, when: []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition, controlplanev1.KubeadmControlPlaneInitializedCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition}, to: self, types: []string{controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition}},
	{from: roleControlPlane, when: []string{controlplanev1.KubeadmControlPlaneInitializedCondition, clusterv1.AvailableCondition, clusterv1.ReadyCondition}, says: []string{"nitialized"}, to: cluster, types: []string{clusterv1.InfrastructureReadyCondition}},
	{from: roleControlPlane, says: []string{"infrastructure to be provisioned"}, to: cluster, types: []string{clusterv1.InfrastructureReadyCondition}},
	{from: roleControlPlane, when: []string{controlplanev1.KubeadmControlPlaneInitializedCondition}, to: clusterInfrastructure, types: []string{typeContract}},
	// Creation of machines and of what they consist of.
	{when: []string{clusterv1.ScalingUpCondition}, to: quotas},
	{when: changing, to: self, types: []string{typeWarning}},
	{when: []string{typeWarning}, says: []string{"FailedScaleUp"}, to: quotas}, // of a control plane that rolls out
	{says: []string{"exceeded quota"}, to: named},

	{from: kindMachine, when: []string{clusterv1.InfrastructureReadyCondition}, to: referred(fieldInfrastructure)},
	{from: kindMachine, when: []string{clusterv1.BootstrapConfigReadyCondition}, to: referred(fieldBootstrap)},
	{from: kindMachine, when: []string{clusterv1.MachineNodeHealthyCondition}, says: []string{"spec.providerID", clusterv1.InspectionFailedReason, clusterv1.MachineNodeDoesNotExistReason}, to: self, types: []string{clusterv1.InfrastructureReadyCondition, clusterv1.BootstrapConfigReadyCondition}},
	{from: kindMachine, when: []string{clusterv1.InfrastructureReadyCondition, clusterv1.MachineNodeHealthyCondition}, to: both(referred(fieldInfrastructure), referred(fieldBootstrap)), types: []string{typeContract}},
	{from: kindMachine, when: []string{clusterv1.MachineNodeHealthyCondition}, says: []string{clusterv1.MachineNodeDeletedReason}, to: self, types: []string{clusterv1.InfrastructureReadyCondition}},
	{from: roleInfrastructure, says: []string{clusterv1.DeletingReason}, to: self, types: []string{typeDeleting}},
	{from: roleInfrastructure, when: []string{typeDeleting}, to: self, fails: true},
	{from: kindMachine, when: []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition}, to: self, types: []string{clusterv1.MachineNodeHealthyCondition, clusterv1.InfrastructureReadyCondition, clusterv1.BootstrapConfigReadyCondition}},
	{from: kindMachine, when: []string{clusterv1.MachineHealthCheckSucceededCondition}, to: checks, types: []string{clusterv1.MachineHealthCheckRemediationAllowedCondition}},
	{from: kindMachine, when: components, to: self, types: []string{clusterv1.MachineNodeHealthyCondition}},
	{from: kindMachine, when: components[3:], to: self, types: etcd},
	{from: kindMachine, when: etcd[1:], to: self, types: etcd[:1]},
	{from: kindMachine, when: []string{controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}, says: []string{"Secret ", "secret "}, to: controlPlane, types: []string{controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition}},
	{from: kindMachine, when: []string{clusterv1.MachineUpdatingCondition}, to: extensions},
	{from: kindMachine, when: []string{clusterv1.DeletingCondition}, says: []string{clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason}, to: referred(fieldInfrastructure), types: []string{typeDeleting, typePaused}},
	{from: kindMachine, when: []string{clusterv1.DeletingCondition}, says: []string{clusterv1.MachineDeletingWaitingForBootstrapDeletionReason}, to: referred(fieldBootstrap), types: []string{typeDeleting, typePaused}},

	// Infrastructure and bootstrap objects of any provider, by the reasons of the contract's
	// helpers, old and new.
	{from: roleInfrastructure, says: []string{"WaitingForBootstrap"}, to: users, types: []string{clusterv1.BootstrapConfigReadyCondition}},
	{from: roleInfrastructure, says: []string{"WaitingForClusterInfrastructure"}, to: cluster, types: []string{clusterv1.InfrastructureReadyCondition}},
	{from: roleInfrastructure, says: []string{"WaitingForControlPlane"}, to: cluster, types: []string{clusterv1.ClusterControlPlaneInitializedCondition}},
	{from: roleBootstrap, says: []string{"WaitingForClusterInfrastructure", "infrastructure"}, to: cluster, types: []string{clusterv1.InfrastructureReadyCondition}},
	{from: roleBootstrap, says: []string{"WaitingForControlPlane", "control plane"}, to: cluster, types: []string{clusterv1.ClusterControlPlaneInitializedCondition}},
	{from: roleBootstrap, when: []string{bootstrapv1.KubeadmConfigDataSecretAvailableCondition}, to: self, types: []string{bootstrapv1.KubeadmConfigCertificatesAvailableCondition}},
	{from: roleBootstrap, says: []string{"controlPlaneEndpoint"}, to: clusterInfrastructure, types: []string{typeContract}},
	{from: roleBootstrap, when: []string{bootstrapv1.KubeadmConfigDataSecretAvailableCondition, bootstrapv1.KubeadmConfigCertificatesAvailableCondition}, says: []string{"ertificate", "ecret"}, to: controlPlane, types: []string{controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition}},

	{from: kindClass, to: absent},
	{from: kindClass, when: []string{clusterv1.ClusterClassVariablesReadyCondition}, to: extensions},
	{when: []string{typeProvider}, to: func(w *walk, n *node) []*Object { return serving(w, n.object) }},
	{from: kindController, to: owned(kindPod)},
	{from: kindController, to: self, types: []string{typePaused, replicaFailure}},
	{from: kindExtension, when: []string{runtimev1.ExtensionConfigHookVersionsUpToDateCondition}, to: self, types: []string{runtimev1.ExtensionConfigDiscoveredCondition}},
}

// terminal are the conditions of the project's kinds that name a cause if nothing explains
// them. For those of providers, any that is not Unknown does.
var terminal = []struct {
	kind  string
	types []string
	says  []string
}{
	{kind: kindCluster, types: []string{clusterv1.ClusterRemoteConnectionProbeCondition}, says: []string{"probe failed", "not established yet: "}},
	{kind: kindCluster, types: []string{clusterv1.ClusterTopologyReconciledCondition}, says: []string{"ReconcileFailed", "ClusterClassNotReconciled", "ClassNotReconciled", "UpgradeDeferred"}},
	{kind: kindCluster, types: []string{clusterv1.InfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition}, says: unusable},
	{kind: kindCluster, types: []string{clusterv1.DeletingCondition}, says: []string{"Hook"}},
	{kind: kindPool, types: []string{clusterv1.InfrastructureReadyCondition, clusterv1.BootstrapConfigReadyCondition}, says: unusable},
	{kind: kindClass, types: []string{clusterv1.ClusterClassVariablesReadyCondition, clusterv1.ClusterClassRefVersionsUpToDateCondition}},
	{kind: kindExtension, types: []string{runtimev1.ExtensionConfigDiscoveredCondition}},
	{kind: kindController},
	{kind: kindPod},
	{kind: kindResourceSet, types: []string{addonsv1.ClusterResourceSetResourcesAppliedCondition}},
	{kind: kindCheck, types: []string{clusterv1.MachineHealthCheckRemediationAllowedCondition, clusterv1.MachineHealthCheckSoundCondition}},
	{kind: kindMachine, types: []string{clusterv1.MachineNodeHealthyCondition}, says: []string{"Node.", clusterv1.MachineNodeDeletedReason}},
	{kind: kindMachine, types: []string{clusterv1.MachineHealthCheckSucceededCondition}},
	{kind: kindMachine, types: []string{clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition}, says: []string{"CannotBeRemediated", "RemediationDeferred", "RemediationTemplateNotFound", "CreationFailed"}},
	{kind: kindMachine, types: []string{clusterv1.MachineUpdatingCondition}, says: []string{clusterv1.MachineInPlaceUpdateFailedReason}},
	{kind: kindMachine, types: []string{clusterv1.InfrastructureReadyCondition, clusterv1.BootstrapConfigReadyCondition}, says: unusable},
	{kind: kindMachine, types: []string{clusterv1.DeletingCondition}, says: []string{
		"Hook", clusterv1.MachineDeletingDrainingNodeReason, clusterv1.MachineDeletingWaitingForVolumeDetachReason, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason, ": ",
	}},
	{kind: kindMachine, types: components[1:], says: []string{"Failed", "NotHealthy", "DoesNotExist"}},
}

// certain reports whether a finding names a cause, not only a symptom.
func (w *walk) certain(n *node) bool {
	switch n.Type {
	case typeMissing, typePaused, typeHook, typeQuota, typeWarning, typeContract, typeProvider, planv1.PlanHeldCondition:
		return true
	}
	if blocked(n) || n.Reason == unreadable || n.Reason == completed && n.object.Deleted != nil {
		return true
	}
	switch w.role(n.object) {
	case roleControlPlane:
		own := n.Type == controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition || n.Status == metav1.ConditionFalse && n.object.Kind != "KubeadmControlPlane"
		return own && !strings.HasPrefix(n.Message, "Waiting for") || strings.Contains(n.Message, "cluster to answer: ")
	case roleInfrastructure, roleBootstrap:
		return n.Status != metav1.ConditionUnknown && !says(n.finding, "WaitingFor")
	}
	for _, t := range terminal {
		if t.kind == n.object.Kind && (len(t.types) == 0 || slices.Contains(t.types, n.Type)) && (len(t.says) == 0 || says(n.finding, t.says...)) {
			return true
		}
	}
	return false
}

// blocked reports whether a condition of progress names what blocks the change.
func blocked(n *node) bool { return strings.Contains(n.Message, "is blocked because:") }

// inProgress reports whether a finding is only a change that takes its time.
func inProgress(n *node) bool {
	switch {
	case blocked(n):
		return false
	case slices.Contains(outdated, n.Type), slices.Contains(changing, n.Type):
		return true
	case n.Type == clusterv1.MachineUpdatingCondition:
		return !says(n.finding, clusterv1.MachineInPlaceUpdateFailedReason)
	case n.Type == clusterv1.AvailableCondition:
		return says(n.finding, clusterv1.MachineWaitingForMinReadySecondsReason)
	case n.Type == typeDeleting:
		return n.object.Kind != kindMachine && n.Reason != "DeletionRequested" && n.Reason != completed && !says(n.finding, "Hook")
	}
	return false
}
