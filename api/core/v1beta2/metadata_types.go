// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ConditionPolarity defines which status of a condition is good.
type ConditionPolarity string

const (
	// PositivePolarityCondition describes a condition that is good when True.
	PositivePolarityCondition ConditionPolarity = "Positive"
	// NegativePolarityCondition describes a condition that is good when False.
	NegativePolarityCondition ConditionPolarity = "Negative"
)

// MachineSetPreflightCheck names a check that a MachineSet runs before it creates a Machine.
type MachineSetPreflightCheck string

const (
	// MachineSetPreflightCheckAll represents all checks in a list of checks to skip.
	MachineSetPreflightCheckAll MachineSetPreflightCheck = "All"
	// MachineSetPreflightCheckKubeadmVersionSkew requires that machines are bootstrapped by kubeadm
	// at the minor version of the control plane.
	MachineSetPreflightCheckKubeadmVersionSkew MachineSetPreflightCheck = "KubeadmVersionSkew"
	// MachineSetPreflightCheckKubernetesVersionSkew requires that the machine's version is within
	// the skew from the control plane that Kubernetes allows.
	MachineSetPreflightCheckKubernetesVersionSkew MachineSetPreflightCheck = "KubernetesVersionSkew"
	// MachineSetPreflightCheckControlPlaneIsStable requires a control plane that is neither being
	// created nor being upgraded.
	MachineSetPreflightCheckControlPlaneIsStable MachineSetPreflightCheck = "ControlPlaneIsStable"
	// MachineSetPreflightCheckControlPlaneVersionSkew requires, in a cluster with a topology,
	// exactly the version of the control plane.
	MachineSetPreflightCheckControlPlaneVersionSkew MachineSetPreflightCheck = "ControlPlaneVersionSkew"
)

// MachineAddressType is the kind of address that a MachineAddress holds.
type MachineAddressType string

// Kinds of addresses.
const (
	MachineHostName    MachineAddressType = "Hostname"
	MachineExternalIP  MachineAddressType = "ExternalIP"
	MachineInternalIP  MachineAddressType = "InternalIP"
	MachineExternalDNS MachineAddressType = "ExternalDNS"
	MachineInternalDNS MachineAddressType = "InternalDNS"
)

// MachineAddresses are the addresses of one machine.
// +listType=atomic
// +kubebuilder:validation:MaxItems=256
type MachineAddresses []MachineAddress

// MachineTaintPropagation defines when a taint is put on the Node.
type MachineTaintPropagation string

const (
	// MachineTaintPropagationAlways keeps the taint on the Node for as long as the Machine
	// specifies it.
	MachineTaintPropagationAlways MachineTaintPropagation = "Always"
	// MachineTaintPropagationOnInitialization sets the taint once, when the Node joins.
	MachineTaintPropagationOnInitialization MachineTaintPropagation = "OnInitialization"
)

// IsDefined reports whether the reference refers to anything.
func (r *ContractVersionedObjectReference) IsDefined() bool {
	return r != nil && *r != ContractVersionedObjectReference{}
}

// GroupKind returns the group and kind of the object referred to.
func (r *ContractVersionedObjectReference) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.APIGroup, Kind: r.Kind}
}

// ObjectMeta is the part of an object's metadata that a template may set.
// +kubebuilder:validation:MinProperties=1
type ObjectMeta struct {
	// labels are put on the object in addition to those that controllers set.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on the object in addition to those that controllers set.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ContractVersionedObjectReference refers to an object of a provider in the same namespace. It has
// no version: the version in use follows from the contract labels of the CRD.
type ContractVersionedObjectReference struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// apiGroup of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	APIGroup string `json:"apiGroup,omitempty"`
}

// MachineAddress is one address at which a machine can be reached.
type MachineAddress struct {
	// type of the address.
	// +required
	// +kubebuilder:validation:Enum=Hostname;ExternalIP;InternalIP;ExternalDNS;InternalDNS
	Type MachineAddressType `json:"type,omitempty"`

	// address is the address itself.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
}

// MachineReadinessGate names an additional condition of the Machine that must be good for it to be
// ready.
type MachineReadinessGate struct {
	// conditionType is the type of the condition; a missing condition counts as unknown.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	ConditionType string `json:"conditionType,omitempty"`

	// polarity defines which status is good. Positive when it is left out.
	// +optional
	// +kubebuilder:validation:Enum=Positive;Negative
	Polarity ConditionPolarity `json:"polarity,omitempty"`
}

// MachineTaint is a taint that a Machine sets on its Node.
type MachineTaint struct {
	// key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	Key string `json:"key,omitempty"`

	// value of the taint.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	Value string `json:"value,omitempty"`

	// effect on pods that do not tolerate the taint.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// propagation specifies whether the taint is maintained on the Node or set only when the Node
	// joins.
	// +required
	// +kubebuilder:validation:Enum=Always;OnInitialization
	Propagation MachineTaintPropagation `json:"propagation,omitempty"`
}

// FailureDomain is a part of the infrastructure that fails independently.
type FailureDomain struct {
	// name of the failure domain.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// controlPlane reports whether control plane machines can be placed here.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`

	// attributes are further facts that the infrastructure provider reports.
	// +optional
	Attributes map[string]string `json:"attributes,omitempty"`
}

// StatusVersion counts the machines at one Kubernetes version.
type StatusVersion struct {
	// version of Kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// replicas is how many machines have this version.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Replicas int32 `json:"replicas,omitempty"`
}

// StatusUpgradePlanVersion is one remaining step of an upgrade.
type StatusUpgradePlanVersion struct {
	// version of Kubernetes that the step leads to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}
