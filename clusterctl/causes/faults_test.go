// SPDX-License-Identifier: Apache-2.0

package causes

import "testing"

// What a cluster reports while it is created, while a worker is not ready, and while the
// control plane Machine is not.
const (
	starting = `
Cluster/demo: Available False NotAvailable 1 * RemoteConnectionProbe: Remote connection not established yet
Cluster/demo: ControlPlaneInitialized False NotInitialized 1 Waiting for KubeadmControlPlane cp to be initialized
Cluster/demo: ControlPlaneAvailable False NotAvailable 1 Control plane not yet initialized
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection not established yet
KubeadmControlPlane/cp: Available False NotAvailable 1 Control plane not yet initialized
KubeadmControlPlane/cp: Initialized False NotInitialized 1
`
	planeDown = `
KubeadmControlPlane/cp: MachinesReady False NotReady 2 * Machine cp-0: not ready
Cluster/demo: ControlPlaneMachinesReady False NotReady 2 * Machine cp-0: not ready
Machine/cp-0: Ready False NotReady 2 not ready
`
	workerDown = `
Cluster/demo: WorkersAvailable False NotAvailable 2 * MachineDeployment md: 0 available replicas, at least 1 required
Cluster/demo: WorkerMachinesReady False NotReady 2 * Machine w-0: not ready
MachineDeployment/md: Available False NotAvailable 2 0 available replicas, at least 1 required
MachineDeployment/md: MachinesReady False NotReady 2 * Machine w-0: not ready
MachineSet/ms: MachinesReady False NotReady 2 * Machine w-0: not ready
Machine/w-0: Ready False NotReady 2 not ready
`
	infraWaits = `
Cluster/demo: InfrastructureReady False NotReady 1 Waiting for FakeCluster demo to be provisioned
KubeadmControlPlane/cp: CertificatesAvailable False NotAvailable 1 Waiting for the Cluster's infrastructure to be provisioned
`
	hostWaits = `
Machine/w-0: InfrastructureReady False NotReady 2 Waiting for FakeMachine w-0 to be provisioned
Machine/w-0: NodeHealthy Unknown InspectionFailed 2 Waiting for FakeMachine w-0 to report spec.providerID
`
)

func TestFindNamesBrokenContract(t *testing.T) {
	t.Parallel()
	run(t, map[string]scene{
		"no label, Cluster": {says: starting + `
Cluster/demo: InfrastructureReady Unknown InternalError 0 spec.infrastructureRef: kind FakeCluster.infrastructure.example.com: no label cluster.x-k8s.io/v1beta2 lists the API versions that follow the contract`,
			want: "Cluster/demo InfrastructureReady"},
		"no label, Cluster of upstream": {says: starting + `
Cluster/demo: InfrastructureReady Unknown InternalError 0 Please check controller logs for errors
FakeCluster/demo unset label cluster.x-k8s.io/v1beta2`, want: "FakeCluster/demo Contract", command: "get crds"},
		"no label, Machine": {says: workerDown + `
Machine/w-0: InfrastructureReady Unknown InternalError 2 spec.infrastructureRef: kind FakeMachine.infrastructure.example.com: no label cluster.x-k8s.io/v1beta2 lists`,
			want: "Machine/w-0 InfrastructureReady"},
		"no label, pool": {says: `
Cluster/demo: WorkersAvailable False NotAvailable 2 * MachinePool mp: x
MachinePool/mp: InfrastructureReady Unknown InternalError 2 spec.template.spec.infrastructureRef: kind FakeMachinePool.infrastructure.example.com: no label`,
			want: "MachinePool/mp InfrastructureReady"},
		"ready Cluster that is not provisioned": {says: starting + `
KubeadmControlPlane/cp: CertificatesAvailable False NotAvailable 1 Waiting for the Cluster's infrastructure to be provisioned
FakeCluster/demo unset status.initialization`, want: "FakeCluster/demo Contract"},
		"ready Machine that is not provisioned": {says: workerDown + `
Machine/w-0: NodeHealthy Unknown InspectionFailed 2 Waiting for FakeMachine w-0 to report spec.providerID
FakeMachine/w-0 unset status.initialization`, want: "FakeMachine/w-0 Contract"},
		"ready bootstrap without data": {says: workerDown + hostWaits + `
FakeMachine/w-0: Ready False WaitingForBootstrapData 2
KubeadmConfig/w-0 unset status.initialization`, want: "KubeadmConfig/w-0 Contract"},
		"data without its Secret": {says: workerDown + hostWaits + `
Machine/w-0: BootstrapConfigReady False NotReady 2 Waiting for KubeadmConfig w-0 to set status.dataSecretName
KubeadmConfig/w-0 unset status.dataSecretName`, want: "KubeadmConfig/w-0 Contract"},
		"available control plane that is not initialized": {says: `
Cluster/demo: ControlPlaneInitialized False NotInitialized 1 Waiting for KubeadmControlPlane cp to be initialized
KubeadmControlPlane/cp unset status.initialization`, want: "KubeadmControlPlane/cp Contract"},
		"provider ID of another type": {says: workerDown + `
Machine/w-0: InfrastructureReady Unknown InternalError 2 read spec.providerID of FakeMachine w-0: cannot unmarshal array
Machine/w-0: NodeHealthy Unknown InspectionFailed 2 Waiting for FakeMachine w-0 to report spec.providerID
FakeMachine/w-0 unset spec.providerID`, want: "FakeMachine/w-0 Contract"},
		"provider ID that no Node has": {says: workerDown + `
Machine/w-0: NodeHealthy Unknown InspectionFailed 2 Waiting for a Node with spec.providerID fake://other to exist`,
			want: "Machine/w-0 NodeHealthy", unsure: true},
		"addresses": {says: workerDown + `
Machine/w-0: InfrastructureReady Unknown InternalError 2 read status.addresses of FakeMachine w-0: json: cannot unmarshal string`,
			want: "Machine/w-0 InfrastructureReady"},
		"failure domains": {says: starting + `
Cluster/demo: InfrastructureReady Unknown InternalError 0 read status.failureDomains of FakeCluster demo: it must be a list`,
			want: "Cluster/demo InfrastructureReady"},
		"condition with another status": {says: starting + `
Cluster/demo: InfrastructureReady Unknown InvalidConditionReported 0 condition "Net" of FakeCluster demo: status is "Maybe"
FakeCluster/demo: Ready Unknown Unreadable 0 condition "Net" of FakeCluster demo: status is "Maybe", it must be True, False or Unknown`,
			want: "FakeCluster/demo Ready"},
		"no endpoint": {says: starting + `
Cluster/demo unset spec.controlPlaneEndpoint
FakeCluster/demo unset spec.controlPlaneEndpoint
KubeadmConfig/cp-0: DataSecretAvailable False NotAvailable 1 Waiting for Cluster demo to have a spec.controlPlaneEndpoint`,
			want: "FakeCluster/demo Contract"},
		"endpoint that the user has set": {says: starting + `
FakeCluster/demo unset spec.controlPlaneEndpoint
FakeMachine/cp-0: InstanceReady False NoCapacity 2 no capacity
Machine/cp-0: InfrastructureReady False NotReady 2 no capacity`, want: "FakeMachine/cp-0 InstanceReady"},
		"bootstrap of contract v1beta1, which has no provider ID": {says: workerDown + `
Machine/w-0: BootstrapConfigReady False NotReady 2 x
KubeadmConfig/w-0: Ready False NoTemplate 2 no template
KubeadmConfig/w-0 unset spec.providerID`, want: "KubeadmConfig/w-0 Ready"},
	})
}

func TestFindNamesProviderThatDoesNotServe(t *testing.T) {
	t.Parallel()
	const stopped = starting + infraWaits + `
FakeCluster/demo provider infrastructure-fake
FakeCluster/demo untouched
Deployment/ctl provider infrastructure-fake
`
	run(t, map[string]scene{
		"managed externally": {says: starting + infraWaits + `
FakeCluster/demo provider infrastructure-fake
FakeCluster/demo untouched
FakeCluster/demo manager terraform`, want: "FakeCluster/demo Provider", command: "kubectl describe fakecluster"},
		"Pod not scheduled": {says: stopped + `
Deployment/ctl: Available False MinimumReplicasUnavailable 0 Deployment does not have minimum availability.
Pod/ctl-0: PodScheduled False Unschedulable 0 0/3 nodes are available: 3 Insufficient cpu.`, want: "Pod/ctl-0 PodScheduled", command: "describe pod ctl-0"},
		"container without its Secret": {says: stopped + `
Deployment/ctl: Available False MinimumReplicasUnavailable 0 Deployment does not have minimum availability.
Pod/ctl-0: ContainersReady False CreateContainerConfigError 0 container manager, image example.com/x:v1: secret "webhook" not found`, want: "Pod/ctl-0 ContainersReady"},
		"Pods that are not admitted": {says: stopped + `
Deployment/ctl: Available False MinimumReplicasUnavailable 0 Deployment does not have minimum availability.
Deployment/ctl: Progressing False ProgressDeadlineExceeded 5 timed out
Deployment/ctl: ReplicaFailure True FailedCreate 1 pods "ctl-x" is forbidden: violates PodSecurity`, want: "Deployment/ctl ReplicaFailure"},
		"paused Deployment": {says: stopped + `
Deployment/ctl: Available False MinimumReplicasUnavailable 0 Deployment does not have minimum availability.
Deployment/ctl paused spec.paused`, want: "Deployment/ctl Paused", command: "rollout resume deployment/ctl"},
		"quota of the cloud": {says: workerDown + hostWaits + `
FakeMachine/w-0: InstanceReady False QuotaExceeded 3 vCPU quota of region eu-1 exceeded`, want: "FakeMachine/w-0 InstanceReady"},
		"paused infrastructure": {says: workerDown + hostWaits + `
FakeMachine/w-0 paused annotation cluster.x-k8s.io/paused`, want: "FakeMachine/w-0 Paused", command: "paused-"},
		"bootstrap that failed": {says: workerDown + `
Machine/w-0: InfrastructureReady False NotReady 2 x
Machine/w-0: NodeHealthy Unknown InspectionFailed 2 Waiting for FakeMachine w-0 to report spec.providerID
FakeMachine/w-0: BootstrapSucceeded False Failed 3 cloud-init ended with status 1`, want: "FakeMachine/w-0 BootstrapSucceeded"},
		"data that waits for a control plane that does not start": {says: starting + planeDown + workerDown + `
Machine/w-0: BootstrapConfigReady False NotReady 3 x
KubeadmConfig/w-0: DataSecretAvailable False NotAvailable 0 Waiting for the control plane of Cluster demo to be initialized
Machine/w-0: InfrastructureReady False NotReady 3 x
FakeMachine/w-0: Ready False WaitingForBootstrapData 0
Machine/cp-0: InfrastructureReady False NotReady 3 x
FakeMachine/cp-0: InstanceReady False Crashed 4 kernel panic`, want: "FakeMachine/cp-0 InstanceReady"},
		"API server that never answers": {says: starting + planeDown + `
KubeadmControlPlane/cp: Initialized False NotInitialized 4 Waiting for the workload cluster to answer: probe https://10.0.0.1:6443/version: connection refused
Machine/cp-0: NodeHealthy Unknown InspectionFailed 2 Waiting for Cluster control plane to be initialized`, want: "KubeadmControlPlane/cp Initialized"},
		"broken kubeconfig": {says: `
Cluster/demo: Available False NotAvailable 1 x
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection not established yet: Secret fleet/demo-kubeconfig: key value: no configuration`,
			want: "Cluster/demo RemoteConnectionProbe", command: "--raw /readyz"},
		"pool whose infrastructure fails": {says: `
Cluster/demo: WorkersAvailable False NotAvailable 2 * MachinePool mp: x
MachinePool/mp: Available False NotAvailable 2 Waiting for FakeMachinePool mp to be provisioned
MachinePool/mp: InfrastructureReady False NotReady 2 Waiting for FakeMachinePool mp to be provisioned
FakeMachinePool/mp: ScalingGroupReady False LaunchFailed 1 no launch template`, want: "FakeMachinePool/mp ScalingGroupReady"},
		"pool whose infrastructure does not exist": {says: `
Cluster/demo: WorkersAvailable False NotAvailable 2 * MachinePool mp: x
MachinePool/mp: InfrastructureReady False ObjectDoesNotExist 2 FakeMachinePool mp does not exist
FakeMachinePool/mp missing`, want: "FakeMachinePool/mp Missing", command: "get fakemachinepool"},
	})
}
