// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// LocalMachineFinalizer holds a LocalMachine until what runs for it is gone.
// The LocalMachine controller sets and removes it.
const LocalMachineFinalizer = "infrastructure.capstan.dev/localmachine"

// ChaosAnnotation names the faults of a LocalCluster or LocalMachine that
// "capstan chaos" has set, separated by commas: it takes them back, and no
// others.
const ChaosAnnotation = "infrastructure.capstan.dev/chaos"

// MachineFault is something that is made to go wrong with a simulated machine.
// +kubebuilder:validation:Enum=NeverBoots;PoweredOff;DiskLost;NodeNotReady;APIServerHangs;EtcdUnhealthy;EtcdLags;EtcdDiskFull
type MachineFault string

const (
	// MachineFaultNeverBoots keeps the machine from ever coming up.
	MachineFaultNeverBoots MachineFault = "NeverBoots"

	// MachineFaultPoweredOff stops everything on the machine: its kubelet says
	// nothing any more. Once it is taken away all runs again.
	MachineFaultPoweredOff MachineFault = "PoweredOff"

	// MachineFaultDiskLost stops everything on the machine for good: what it
	// would start from is lost, also after the fault was taken away.
	MachineFaultDiskLost MachineFault = "DiskLost"

	// MachineFaultNodeNotReady makes the machine's Node report NotReady.
	MachineFaultNodeNotReady MachineFault = "NodeNotReady"

	// MachineFaultAPIServerHangs makes the API server of a control plane
	// machine accept connections and never answer.
	MachineFaultAPIServerHangs MachineFault = "APIServerHangs"

	// MachineFaultEtcdUnhealthy stops the etcd member of a control plane
	// machine, and with it the API server beside it.
	MachineFaultEtcdUnhealthy MachineFault = "EtcdUnhealthy"

	// MachineFaultEtcdLags keeps the etcd member of a control plane machine
	// behind the others: it does not lead, and what it is asked that needs the
	// latest state times out. It counts for the quorum.
	MachineFaultEtcdLags MachineFault = "EtcdLags"

	// MachineFaultEtcdDiskFull makes the etcd member of a control plane machine
	// raise the alarm NOSPACE: the cluster stores nothing any more.
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

	// simulated makes the machine a simulated one: a record that behaves like
	// a machine towards everybody who talks to it.
	// +optional
	Simulated *LocalMachineSimulated `json:"simulated,omitempty"`

	// container makes the machine a container one: Linux namespaces of this host
	// with systemd, containerd and kubelet in them, made from a node image. It is
	// root on the host's kernel, so it is no boundary between tenants.
	// +optional
	Container *LocalMachineContainer `json:"container,omitempty"`
}

// LocalMachineContainer says how large a container machine is. Empty is one
// without limits.
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

// LocalMachineSimulated says how a simulated machine behaves. Empty is a
// machine that comes up at once and has no faults.
type LocalMachineSimulated struct {
	// vm is the machine itself, from creation until it runs its bootstrap
	// data.
	// +optional
	VM SimulatedStage `json:"vm,omitempty,omitzero"`

	// node is the kubelet, from the running machine until its Node is there.
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

	// faults are what goes wrong as long as they are listed.
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

	// initialization says how far the first provisioning is; the Machine
	// controller reads it.
	// +optional
	Initialization LocalMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is true together with initialization.provisioned, for who reads the
	// contract v1beta1.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// failureReason says in one word why the machine will never run: what failed
	// is not tried again.
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

// LocalMachineInitializationStatus says how far the first provisioning of a
// LocalMachine is.
// +kubebuilder:validation:MinProperties=1
type LocalMachineInitializationStatus struct {
	// provisioned is true once the machine runs and its bootstrap data was
	// executed. It never goes back.
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
	// template is what the LocalMachines made from this look like.
	// +required
	Template LocalMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalMachineTemplateResource is what a LocalMachine made from a template
// looks like.
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

// LocalMachineTemplateStatus is what an autoscaler needs to know of machines
// that are not there yet.
// +kubebuilder:validation:MinProperties=1
type LocalMachineTemplateStatus struct {
	// capacity is what a machine made from this template has to offer.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo describes the Node of a machine made from this template.
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
