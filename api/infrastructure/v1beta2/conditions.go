// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Condition types of LocalCluster and LocalMachine beyond Ready, Paused and
// Deleting, which every kind shares. The controller of each kind sets them.
const (
	// VMProvisionedCondition of a LocalMachine is True while the machine
	// itself, simulated or not, is up.
	VMProvisionedCondition = "VMProvisioned"

	// BootstrapExecSucceededCondition of a LocalMachine is True once the
	// machine executed its bootstrap data and its Node is there.
	BootstrapExecSucceededCondition = "BootstrapExecSucceeded"
)

// Reasons of VMProvisioned.
const (
	// VMProvisionedReason says that the machine is up.
	VMProvisionedReason = "Provisioned"

	// VMNotProvisionedReason says that the machine is not up, and why.
	VMNotProvisionedReason = "NotProvisioned"

	// VMWaitingForClusterInfrastructureReason says that the cluster's own
	// infrastructure comes first.
	VMWaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructureReady"

	// VMWaitingForControlPlaneInitializedReason says that a worker waits for
	// the cluster's first control plane machine.
	VMWaitingForControlPlaneInitializedReason = "WaitingForControlPlaneInitialized"

	// VMWaitingForBootstrapDataReason says that the bootstrap data is not
	// there yet.
	VMWaitingForBootstrapDataReason = "WaitingForBootstrapData"

	// VMDeletingReason says that the machine is being taken down.
	VMDeletingReason = "Deleting"
)

// Reasons of BootstrapExecSucceeded.
const (
	// BootstrapExecSucceededReason says that bootstrapping is done.
	BootstrapExecSucceededReason = "Succeeded"

	// BootstrapExecRunningReason says that the bootstrap data is being
	// executed.
	BootstrapExecRunningReason = "Running"

	// BootstrapExecFailedReason says that the bootstrap data could not be
	// executed; the message says which step and why.
	BootstrapExecFailedReason = "Failed"
)
