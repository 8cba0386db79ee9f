// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Condition types of LocalCluster and LocalMachine beyond Ready, Paused and
// Deleting, which every kind shares. The controller of each kind sets them.
const (
	// VMProvisionedCondition of a LocalMachine is True while the machine
	// itself, simulated or not, is up.
	VMProvisionedCondition = "VMProvisioned"

	// BootstrapExecSucceededCondition of a LocalMachine is True once the machine
	// has executed its bootstrap data and its Node exists.
	BootstrapExecSucceededCondition = "BootstrapExecSucceeded"
)

// Reasons of VMProvisioned.
const (
	// VMProvisionedReason means that the machine is ready.
	VMProvisionedReason = "Provisioned"

	// VMNotProvisionedReason means that the machine is not ready; the message
	// gives the reason.
	VMNotProvisionedReason = "NotProvisioned"

	// VMWaitingForClusterInfrastructureReason means that the infrastructure of
	// the cluster must be provisioned first.
	VMWaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructureReady"

	// VMWaitingForControlPlaneInitializedReason means that a worker waits for
	// the cluster's first control plane machine.
	VMWaitingForControlPlaneInitializedReason = "WaitingForControlPlaneInitialized"

	// VMWaitingForBootstrapDataReason means that the bootstrap data does not
	// exist yet.
	VMWaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// VMDeletingReason means that the machine is being deleted.
	VMDeletingReason = "Deleting"
)

// Reasons of BootstrapExecSucceeded.
const (
	// BootstrapExecSucceededReason means that bootstrapping is done.
	BootstrapExecSucceededReason = "Succeeded"

	// BootstrapExecRunningReason means that the bootstrap data is being
	// executed.
	BootstrapExecRunningReason = "Running"

	// BootstrapExecFailedReason means that the bootstrap data could not be
	// executed; the message names the step and the cause.
	BootstrapExecFailedReason = "Failed"
)
