// SPDX-License-Identifier: Apache-2.0

package causes

import "testing"

// draining is a worker that is being deleted.
const draining = workerDown + `
MachineSet/ms: ScalingDown True ScalingDown 1 Scaling down from 1 to 0 replicas
MachineDeployment/md: ScalingDown True ScalingDown 1 Scaling down from 1 to 0 replicas
Machine/w-0 deleted 1 machine.cluster.x-k8s.io
`

// leaving is a Cluster whose control plane and workers are deleted.
const leaving = `
Cluster/demo deleted 1 cluster.cluster.x-k8s.io
Cluster/demo: RemoteConnectionProbe False ProbeFailed 3 Remote connection probe failed, probe last succeeded at x
Cluster/demo: ControlPlaneAvailable Unknown ObjectDeleted 4 KubeadmControlPlane cp has been deleted
Cluster/demo: Deleting True WaitingForInfrastructureDeletion 5 Waiting for FakeCluster demo to be deleted
KubeadmControlPlane/cp missing
`

func TestFindNamesWhatBlocksDeletion(t *testing.T) {
	t.Parallel()
	run(t, map[string]scene{
		"Pod with a finalizer": {says: draining + `
Machine/w-0: Deleting True DrainingNode 2 Drain not completed yet (started at x):|* Pod default/a: deletionTimestamp set, but still not removed from the Node`, want: "Machine/w-0 Deleting"},
		"volume": {says: draining + `
Machine/w-0: Deleting True WaitingForVolumeDetach 2 Waiting for Node volumes to be detached`, want: "Machine/w-0 Deleting", command: "get volumeattachments"},
		"hook of a user next to that of the control plane": {says: `
KubeadmControlPlane/cp: ScalingDown True ScalingDown 1 Scaling down from 3 to 1 replicas
Machine/cp-0 deleted 1 machine.cluster.x-k8s.io
Machine/cp-0 hook pre-terminate.delete.hook.machine.cluster.x-k8s.io/audit
Machine/cp-0 hook pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup
Machine/cp-0: Deleting True WaitingForPreTerminateHook 2 Waiting for pre-terminate hooks to complete, pre-terminate.delete.hook.machine.cluster.x-k8s.io/audit, pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup`,
			start: "KubeadmControlPlane/cp", want: "Machine/cp-0 Deleting", command: "/audit-"},
		"hook of the control plane, which protects etcd": {says: `
KubeadmControlPlane/cp: ScalingDown True ScalingDown 1 Scaling down from 3 to 1 replicas
Machine/cp-0 deleted 1 machine.cluster.x-k8s.io
Machine/cp-0 hook pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup
Machine/cp-0: Deleting True WaitingForPreTerminateHook 2 Waiting for pre-terminate hooks to complete, pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup`,
			start: "KubeadmControlPlane/cp", want: "Machine/cp-0 Deleting", command: "kubectl describe machine"},
		"infrastructure that is gone, and a Node that cannot be deleted": {says: draining + `
Machine/w-0: Deleting True DeletingNode 5 Deleting Node w-0: admission webhook "guard" denied the request
Machine/w-0: InfrastructureReady False ObjectDeleted 4 FakeMachine w-0 has been deleted
Machine/w-0: NodeHealthy Unknown ConnectionDown 3 x
FakeMachine/w-0 missing`, want: "Machine/w-0 Deleting"},
		"Node that cannot be deleted without a connection": {says: draining + `
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection probe failed, probe last succeeded at x
Machine/w-0: Deleting True DeletingNode 5 Waiting for a connection to the workload cluster, to delete Node w-0
FakeMachine/w-0 missing`, want: "Cluster/demo RemoteConnectionProbe"},
		"finalizer of the bootstrap config": {says: draining + `
Machine/w-0: Deleting True WaitingForBootstrapDeletion 5 Waiting for KubeadmConfig w-0 to be deleted
KubeadmConfig/w-0 deleted 4 example.com/keep`, want: "KubeadmConfig/w-0 Deleting", command: "kubectl edit"},
		"finalizer of a Machine": {says: draining + `
Machine/w-0: Deleting True DeletionCompleted 5 Deletion completed`, want: "Machine/w-0 Deleting", command: "kubectl edit"},
		"finalizer of a Cluster": {says: `
Cluster/demo deleted 1 cluster.cluster.x-k8s.io
Cluster/demo: Deleting True DeletionCompleted 5 Deletion completed
Cluster/demo: RemoteConnectionProbe False ProbeFailed 3 Remote connection probe failed
Cluster/demo: InfrastructureReady False ObjectDeleted 4 FakeCluster demo has been deleted
FakeCluster/demo missing`, want: "Cluster/demo Deleting", command: "kubectl edit"},
		"finalizer of the infrastructure, after the control plane": {says: leaving + `
FakeCluster/demo deleted 5 example.com/network`, want: "FakeCluster/demo Deleting", command: "kubectl edit"},
		"infrastructure that fails to delete": {says: leaving + `
FakeCluster/demo deleted 5 example.com/network
FakeCluster/demo: Deleting True Deleting 5
FakeCluster/demo: NetworkReady False DeletionFailed 6 security group sg-1 is in use`, want: "FakeCluster/demo NetworkReady"},
		"a deletion in progress": {says: leaving + `
FakeCluster/demo deleted 5 example.com/network
FakeCluster/demo: Deleting True Deleting 5`},
		"hook BeforeClusterDelete of upstream": {says: `
Cluster/demo deleted 1 cluster.cluster.x-k8s.io
Cluster/demo: Deleting True WaitingForBeforeDeleteHook 2 hook "BeforeClusterDelete" is blocking: backup runs`, want: "Cluster/demo Deleting"},
	})
}

func TestFindNamesWhatBlocksChange(t *testing.T) {
	t.Parallel()
	const failed = "\nCluster/demo: TopologyReconciled False ReconcileFailed 1 "
	const upgrading = "\nCluster/demo: TopologyReconciled False ClusterUpgrading 1 Cluster is upgrading to v1.37.0|  * "
	const growing = `
MachineDeployment/md: ScalingUp True ScalingUp 1 Scaling up from 1 to 2 replicas
Cluster/demo: ScalingUp True ScalingUp 1 * MachineDeployment md: Scaling up
`
	const blocked = growing + "MachineSet/ms: ScalingUp True ScalingUp 1 Scaling up from 1 to 2 replicas is blocked because:|* "
	run(t, map[string]scene{
		"hook AfterControlPlaneInitialized": {says: failed + `call all extension handlers of hook AfterControlPlaneInitialized for Cluster fleet/demo: call extension handler "init.ext" of hook AfterControlPlaneInitialized: the extension answered Failure: no`,
			want: "Cluster/demo TopologyReconciled"},
		"hook of an extension that is down": {says: failed + `failed to call extension handler "init.ext": Post "https://ext": x509: certificate signed by unknown authority
ExtensionConfig/ext: Discovered False NotDiscovered 0 x509: certificate signed by unknown authority`, want: "ExtensionConfig/ext Discovered", command: "describe extensionconfig ext"},
		"extension with the name of the Cluster that has no part in it": {says: failed + `call extension handler "init.ext" of hook BeforeClusterUpgrade for Cluster fleet/demo: the extension answered Failure: no
ExtensionConfig/demo: Discovered False NotDiscovered 0 connection refused`, want: "Cluster/demo TopologyReconciled"},
		"hook by the reason of upstream": {says: `
Cluster/demo: TopologyReconciled False LifecycleHookBlocking 1 hook "AfterControlPlaneUpgrade" is blocking: wait`, want: "Cluster/demo Hook", command: "get extensionconfigs"},
		"hook AfterClusterUpgrade": {says: upgrading + `Following hooks are blocking upgrade: AfterClusterUpgrade: tests run`, want: "Cluster/demo Hook"},
		"upgrade that is deferred": {says: `
Cluster/demo: TopologyReconciled False MachineDeploymentsUpgradeDeferred 1 MachineDeployment md upgrade to version v1.37.0 deferred using defer-upgrade`, want: "Cluster/demo TopologyReconciled"},
		"variable": {says: failed + `spec.topology.variables[0]: Invalid value: "a": must be an integer
ClusterClass/class: RefVersionsUpToDate False RefVersionsNotUpToDate 0 templateRefs are not using the latest apiVersion`, want: "Cluster/demo TopologyReconciled"},
		"class that is not reconciled": {says: `
Cluster/demo: TopologyReconciled False ClusterClassNotReconciled 1 ClusterClass not reconciled.
ClusterClass/class: RefVersionsUpToDate Unknown InternalError 1 there is no FakeClusterTemplate c
FakeClusterTemplate/c missing`, want: "FakeClusterTemplate/c Missing"},
		"paused class": {says: `
Cluster/demo: TopologyReconciled False ClusterClassNotReconciled 1 ClusterClass not reconciled.
ClusterClass/class paused annotation cluster.x-k8s.io/paused`, want: "ClusterClass/class Paused"},
		"quota in an error of the topology": {says: failed + `create MachineDeployment: machinedeployments is forbidden: exceeded quota: few, requested: 1
ResourceQuota/few exhausted count/machinedeployments.cluster.x-k8s.io`, want: "ResourceQuota/few Quota", command: "describe resourcequota few"},
		"quota of bootstrap configs": {says: growing + `
MachineSet/ms: ScalingUp True ScalingUp 1 Scaling up from 1 to 2 replicas
ResourceQuota/few exhausted count/kubeadmconfigs.bootstrap.cluster.x-k8s.io`, want: "ResourceQuota/few Quota"},
		"admission policy": {says: growing + `
MachineSet/ms: ScalingUp True ScalingUp 1 Scaling up from 1 to 2 replicas
MachineSet/ms warns FailedCreate 2 ValidatingAdmissionPolicy 'small' denied the request`, want: "MachineSet/ms Warning"},
		"webhook, next to a Machine that is not ready": {says: growing + workerDown + hostWaits + `
FakeMachine/w-0: InstanceReady Unknown Booting 3 starting
MachineSet/ms: ScalingUp True ScalingUp 1 Scaling up from 1 to 2 replicas
MachineSet/ms warns FailedCreate 4 failed calling webhook "machine": connection refused`, want: "MachineSet/ms Warning"},
		"deletion that is refused": {says: `
MachineDeployment/md: ScalingDown True ScalingDown 1 Scaling down from 2 to 1 replicas
Cluster/demo: ScalingDown True ScalingDown 1 x
MachineSet/ms: ScalingDown True ScalingDown 1 Scaling down from 2 to 1 replicas
MachineSet/ms warns FailedDelete 2 admission webhook "guard" denied the request`, want: "MachineSet/ms Warning"},
		"rollout that only waits": {says: `
KubeadmControlPlane/cp: RollingOut True RollingOut 1 Rolling out 1 not up-to-date replicas
Cluster/demo: RollingOut True RollingOut 1 x
KubeadmControlPlane/cp warns ControlPlaneUnhealthy 2 Waiting for control plane to pass preflight checks`},
		"check ControlPlaneIsStable": {says: blocked + `KubeadmControlPlane fleet/cp is provisioning ("ControlPlaneIsStable" preflight check failed)
KubeadmControlPlane/cp: ScalingUp True ScalingUp 1 Scaling up from 1 to 3 replicas` + planeDown + `
Machine/cp-0: InfrastructureReady False NotReady 1 x
FakeMachine/cp-0: InstanceReady False NoCapacity 1 no capacity`, want: "FakeMachine/cp-0 InstanceReady"},
		"check KubernetesVersionSkew": {says: blocked + `MachineSet version (1.38.0) and ControlPlane version (1.36.0) do not conform: MachineSet version is higher than ControlPlane version ("KubernetesVersionSkew" preflight check failed)`,
			want: "MachineSet/ms ScalingUp"},
		"annotation that stops creation": {says: blocked + `annotation cluster.x-k8s.io/disable-machine-create is set`, want: "MachineSet/ms ScalingUp"},
		"rollout whose new Machine does not start": {says: workerDown + hostWaits + `
MachineDeployment/md: RollingOut True RollingOut 0 Rolling out 1 not up-to-date replicas
Cluster/demo: RollingOut True RollingOut 0 x
FakeMachine/w-0: InstanceReady False NoImage 4 image not found`, want: "FakeMachine/w-0 InstanceReady"},
		"paused rollout, next to an older fault": {says: workerDown + `
Machine/w-0: NodeHealthy False NodeNotHealthy 0 * Node.Ready: kubelet stopped
MachineDeployment/md: RollingOut True RollingOut 3 Rolling out 1 not up-to-date replicas
MachineDeployment/md paused spec.paused
MachineDeployment/md: Paused True Paused 2`, want: "Machine/w-0 NodeHealthy", also: "MachineDeployment/md Paused"},
		"check that does not allow a repair": {says: workerDown + `
Machine/w-0: NodeHealthy False NodeNotHealthy 2 * Node.Ready: kubelet stopped
Machine/w-0: HealthCheckSucceeded False UnhealthyNode 3 Node is unhealthy
MachineHealthCheck/check: RemediationAllowed False TooManyUnhealthy 1 Remediation is not allowed: 1 of 1`, want: "Machine/w-0 NodeHealthy", also: "MachineHealthCheck/check RemediationAllowed"},
	})
}

func TestFindNamesFaultInsideCluster(t *testing.T) {
	t.Parallel()
	const lost = `
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection probe failed, probe last succeeded at x
KubeadmControlPlane/cp: Available Unknown InspectionFailed 2 * The workload cluster does not answer
Cluster/demo: ControlPlaneAvailable Unknown InspectionFailed 2 * The workload cluster does not answer
Machine/cp-0: NodeHealthy Unknown ConnectionDown 2 Last successful probe at x
Machine/cp-0: EtcdMemberHealthy Unknown ConnectionDown 2 Last successful probe at x
`
	const certificates = `
KubeadmControlPlane/cp: CertificatesAvailable False NotAvailable 3 secret fleet/demo-ca, key "tls.key": it is missing
KubeadmControlPlane/cp: ScalingUp True ScalingUp 1 Scaling up from 1 to 3 replicas is blocked because:|* the certificates are not available
Cluster/demo: ScalingUp True ScalingUp 1 * KubeadmControlPlane cp: x
Cluster/demo: ControlPlaneAvailable False NotAvailable 3 x
KubeadmControlPlane/cp: Available False NotAvailable 3 * Control plane certificates are not available
`
	run(t, map[string]scene{
		"without quorum": {says: lost, want: "Cluster/demo RemoteConnectionProbe", command: "--raw /readyz"},
		"expired certificate": {says: `
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection probe failed, probe last succeeded at x: x509: certificate has expired`, want: "Cluster/demo RemoteConnectionProbe"},
		"alarm": {says: planeDown + `
Machine/cp-0: EtcdMemberHealthy False NotHealthy 2 Etcd member reports alarms: NOSPACE`, want: "Machine/cp-0 EtcdMemberHealthy", command: "component=etcd"},
		"missing key": {says: certificates, want: "KubeadmControlPlane/cp CertificatesAvailable", command: "get secrets -l"},
		"missing key, and an etcd member that cannot be asked without it": {says: certificates + planeDown + `
Machine/cp-0: EtcdMemberHealthy Unknown InternalError 4 the key of etcd's CA in Secret demo-etcd is not known
MachineDeployment/md paused spec.paused
MachineDeployment/md: Paused True Paused 0`, want: "KubeadmControlPlane/cp CertificatesAvailable"},
		"missing key, for a worker": {says: workerDown + `
Machine/w-0: BootstrapConfigReady False NotReady 4 x
KubeadmConfig/w-0: DataSecretAvailable False NotAvailable 2 Waiting for Secret demo-ca with certificates of the cluster
KubeadmControlPlane/cp: CertificatesAvailable False NotAvailable 3 secret fleet/demo-ca, key "tls.key": it is missing`, want: "KubeadmControlPlane/cp CertificatesAvailable"},
		"certificates of upstream": {says: `
KubeadmControlPlane/cp: CertificatesAvailable Unknown InternalError 3 Please check controller logs for errors
KubeadmControlPlane/cp: Available Unknown InternalError 3 x
Cluster/demo: ControlPlaneAvailable Unknown InternalError 3 x`, want: "KubeadmControlPlane/cp CertificatesAvailable"},
	})
}
