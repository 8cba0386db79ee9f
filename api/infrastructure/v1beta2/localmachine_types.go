// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// LocalMachineFinalizer retains a LocalMachine until everything that runs for it is deleted. The
// LocalMachine controller sets and removes it.
const LocalMachineFinalizer = "infrastructure.capstan.dev/localmachine"

// ChaosAnnotation names the faults of a LocalCluster or LocalMachine that "capstan simulated chaos" has set,
// separated by commas: it reverts these, and no others.
const ChaosAnnotation = "infrastructure.capstan.dev/chaos"

// MachineFault is a fault of a simulated machine.
// +kubebuilder:validation:Enum=NeverBoots;PoweredOff;DiskLost;NodeNotReady;APIServerHangs;EtcdUnhealthy;EtcdLags;EtcdDiskFull
type MachineFault string

const (
	// MachineFaultNeverBoots keeps the machine from ever coming up.
	MachineFaultNeverBoots MachineFault = "NeverBoots"

	// MachineFaultPoweredOff stops everything on the machine: its kubelet no longer reports. After
	// the fault is removed, everything runs again.
	MachineFaultPoweredOff MachineFault = "PoweredOff"

	// MachineFaultDiskLost stops everything on the machine permanently: the data to start from is
	// lost, even after the fault is removed.
	MachineFaultDiskLost MachineFault = "DiskLost"

	// MachineFaultNodeNotReady makes the machine's Node report NotReady.
	MachineFaultNodeNotReady MachineFault = "NodeNotReady"

	// MachineFaultAPIServerHangs makes the API server of a control plane
	// machine accept connections and never answer.
	MachineFaultAPIServerHangs MachineFault = "APIServerHangs"

	// MachineFaultEtcdUnhealthy stops the etcd member of a control plane machine, and with it the
	// API server next to it.
	MachineFaultEtcdUnhealthy MachineFault = "EtcdUnhealthy"

	// MachineFaultEtcdLags keeps the etcd member of a control plane machine behind the others: it
	// does not lead, and requests to it that need the latest state time out. It counts for the
	// quorum.
	MachineFaultEtcdLags MachineFault = "EtcdLags"

	// MachineFaultEtcdDiskFull makes the etcd member of a control plane machine raise the alarm
	// NOSPACE: the cluster no longer stores anything.
	MachineFaultEtcdDiskFull MachineFault = "EtcdDiskFull"
)

// LocalMachineSpec is the desired state of a LocalMachine.
// +kubebuilder:validation:XValidation:rule="has(self.simulated) != has(self.container)",message="exactly one machine kind must be set: simulated or container"
// +kubebuilder:validation:XValidation:rule="has(self.container) == has(oldSelf.container)",message="the machine kind cannot change: delete the machine and create another one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.container) || has(self.container) && self.container == oldSelf.container",message="container cannot change: delete the machine and create another one"
type LocalMachineSpec struct {
	// providerID names the machine as its Node does, for example
	// simulated://<namespace>/<cluster>/<machine> or, of a container machine,
	// local://<namespace>/<cluster>/<machine>. The controller sets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// simulated makes the machine a simulated one: a record that behaves like a machine to all
	// clients.
	// +optional
	Simulated *LocalMachineSimulated `json:"simulated,omitempty"`

	// container makes the machine a container one: Linux namespaces of this host with systemd,
	// containerd and kubelet in them, created from a node image. It is root on the host's kernel,
	// so it is not a boundary between tenants.
	// +optional
	Container *LocalMachineContainer `json:"container,omitempty"`
}

// LocalMachineContainer defines the size of a container machine. When it is empty, the machine has
// no limits.
type LocalMachineContainer struct {
	// memoryMiB is how much memory the machine may use, in MiB; its Node reports
	// it as its capacity. There is no limit when it is absent.
	// +optional
	// +kubebuilder:validation:Minimum=256
	// +kubebuilder:validation:Maximum=1048576
	MemoryMiB *int32 `json:"memoryMiB,omitempty"`

	// milliCPU is how much processor time the machine may use, in thousandths of
	// a core. There is no limit when it is absent.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=1024000
	MilliCPU *int32 `json:"milliCPU,omitempty"`
}

// LocalMachineSimulated configures the behavior of a simulated machine. When it is empty, the
// machine becomes ready immediately and has no faults.
type LocalMachineSimulated struct {
	// vm is the machine itself, from creation until it runs its bootstrap
	// data.
	// +optional
	VM SimulatedStage `json:"vm,omitempty,omitzero"`

	// node is the kubelet, from the running machine until its Node exists.
	// +optional
	Node SimulatedStage `json:"node,omitempty,omitzero"`

	// etcd is the etcd member, from the Node until the member is healthy;
	// control plane machines only.
	// +optional
	Etcd SimulatedStage `json:"etcd,omitempty,omitzero"`

	// apiServer is the API server, from the healthy etcd member until it
	// answers; control plane machines only.
	// +optional
	APIServer SimulatedStage `json:"apiServer,omitempty,omitzero"`

	// faults are active as long as they are listed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Faults []MachineFault `json:"faults,omitempty"`
}

// SimulatedStage is one stage of a simulated start.
type SimulatedStage struct {
	// startupMilliseconds is how long the stage takes; zero when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600000
	StartupMilliseconds *int32 `json:"startupMilliseconds,omitempty"`

	// jitterPercent is by how many percent of startupMilliseconds the stage
	// may take longer, chosen per machine; zero when absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	JitterPercent *int32 `json:"jitterPercent,omitempty"`
}

// LocalMachineStatus is the observed state of a LocalMachine.
type LocalMachineStatus struct {
	// conditions are the current conditions: Ready, VMProvisioned,
	// BootstrapExecSucceeded, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports the progress of the first provisioning; the Machine controller reads
	// it.
	// +optional
	Initialization LocalMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is true together with initialization.provisioned, for clients that read the contract
	// v1beta1.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// failureReason is a one-word reason why the machine will never run: the failed operation is
	// not retried.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage explains failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// addresses are where the machine is reached.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the failure domain the machine was placed in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`
}

// LocalMachineInitializationStatus reports the progress of the first provisioning of a
// LocalMachine.
// +kubebuilder:validation:MinProperties=1
type LocalMachineInitializationStatus struct {
	// provisioned is true once the machine runs and its bootstrap data was executed. It never
	// changes back.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// LocalMachine is one machine on this host.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachines,scope=Namespaced,categories=cluster-api,shortName=lm
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".metadata.ownerReferences[?(@.kind==\"Machine\")].name",description="Machine that owns it"
// +kubebuilder:printcolumn:name="Provider ID",type="string",JSONPath=".spec.providerID",description="What its Node calls it",priority=10
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status",description="Whether the machine runs"
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type==\"Paused\")].status",description="Whether reconciling is paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalMachineSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status LocalMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (m *LocalMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *LocalMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// LocalMachineList is a list of LocalMachines.
// +kubebuilder:object:root=true
type LocalMachineList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalMachines.
	Items []LocalMachine `json:"items"`
}

// LocalMachineTemplateSpec is what a LocalMachineTemplate holds.
type LocalMachineTemplateSpec struct {
	// template is the content of the LocalMachines created from this template.
	// +required
	Template LocalMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalMachineTemplateResource is the content of a LocalMachine created from a template.
type LocalMachineTemplateResource struct {
	// metadata are the labels and annotations of the LocalMachine.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the LocalMachine's spec.
	// +required
	Spec LocalMachineSpec `json:"spec,omitempty,omitzero"`
}

// Architecture is a processor architecture as Kubernetes names it.
// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
type Architecture string

// NodeInfo describes the Nodes of machines that are not there yet.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the processor architecture.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// operatingSystem is the operating system, in lower case, such as linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// LocalMachineTemplateStatus is what an autoscaler needs to know about machines that do not exist
// yet.
// +kubebuilder:validation:MinProperties=1
type LocalMachineTemplateStatus struct {
	// capacity is the capacity of a machine created from this template.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo describes the Node of a machine created from this template.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// LocalMachineTemplate is what MachineSets and control planes make
// LocalMachines from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=lmt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type LocalMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec LocalMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status LocalMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// LocalMachineTemplateList is a list of LocalMachineTemplates.
// +kubebuilder:object:root=true
type LocalMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the LocalMachineTemplates.
	Items []LocalMachineTemplate `json:"items"`
}
