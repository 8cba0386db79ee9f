// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ClusterClassSpec is what clusters of the class have in common.
type ClusterClassSpec struct {
	// availabilityGates are further conditions that must be good for a Cluster of the class to be
	// available.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	AvailabilityGates []ClusterAvailabilityGate `json:"availabilityGates,omitempty"`

	// infrastructure names the template of the infrastructure object.
	// +optional
	Infrastructure LocalObjectTemplate `json:"infrastructure,omitempty"`

	// infrastructureNamingStrategy defines how the infrastructure object is named.
	// +optional
	InfrastructureNamingStrategy *NamingStrategy `json:"infrastructureNamingStrategy,omitempty"`

	// controlPlane defines what the control plane is created from.
	// +optional
	ControlPlane ControlPlaneClass `json:"controlPlane,omitempty"`

	// workers are the classes of groups of workers.
	// +optional
	Workers WorkersClass `json:"workers,omitempty"`

	// variables that a Cluster of the class may set.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterClassVariable `json:"variables,omitempty"`

	// patches change the templates for a Cluster, in their order.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	Patches []ClusterClassPatch `json:"patches,omitempty"`

	// upgrade defines how clusters are upgraded.
	// +optional
	Upgrade clusterv1.ClusterClassUpgrade `json:"upgrade,omitempty,omitzero"`

	// kubernetesVersions that an upgrade may go through, in ascending order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`
}

// LocalObjectTemplate names a template.
type LocalObjectTemplate struct {
	// ref refers to the template.
	// +required
	Ref *corev1.ObjectReference `json:"ref"`
}

// NamingStrategy defines how an object is named.
type NamingStrategy struct {
	// template is a Go template for the name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Template *string `json:"template,omitempty"`
}

// ControlPlaneClass defines what the control plane is created from.
type ControlPlaneClass struct {
	// metadata is put on the control plane object and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty"`

	LocalObjectTemplate `json:",inline"`

	// machineInfrastructure names the template of the machines, if the control plane has machines.
	// +optional
	MachineInfrastructure *LocalObjectTemplate `json:"machineInfrastructure,omitempty"`

	// machineHealthCheck watches over the control plane machines.
	// +optional
	MachineHealthCheck *MachineHealthCheckClass `json:"machineHealthCheck,omitempty"`

	// namingStrategy defines how the control plane object is named.
	// +optional
	NamingStrategy *NamingStrategy `json:"namingStrategy,omitempty"`

	NodeTimeouts `json:",inline"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`

	// readinessGates are further conditions that must be good for a Machine to be ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`
}

// WorkersClass are the classes of groups of workers.
type WorkersClass struct {
	// machineDeployments are the classes of groups kept by MachineDeployments.
	// +optional
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MaxItems=100
	MachineDeployments []MachineDeploymentClass `json:"machineDeployments,omitempty"`

	// machinePools are the classes of groups kept by MachinePools.
	// +optional
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MaxItems=100
	MachinePools []MachinePoolClass `json:"machinePools,omitempty"`
}

// WorkerClassTemplate defines what the machines of a class are created from.
type WorkerClassTemplate struct {
	// metadata is put on the group and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty"`

	// bootstrap names the template of the bootstrap configs.
	// +required
	Bootstrap LocalObjectTemplate `json:"bootstrap"`

	// infrastructure names the template of the hosts.
	// +required
	Infrastructure LocalObjectTemplate `json:"infrastructure"`
}

// MachineDeploymentClass is what groups of workers of the class have in common.
type MachineDeploymentClass struct {
	// class is the name of the class.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class"`

	// template defines what the machines are created from.
	// +required
	Template WorkerClassTemplate `json:"template"`

	// machineHealthCheck watches over the machines.
	// +optional
	MachineHealthCheck *MachineHealthCheckClass `json:"machineHealthCheck,omitempty"`

	// failureDomain is the failure domain of the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain *string `json:"failureDomain,omitempty"`

	// namingStrategy defines how the MachineDeployment is named.
	// +optional
	NamingStrategy *NamingStrategy `json:"namingStrategy,omitempty"`

	NodeTimeouts `json:",inline"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`

	// minReadySeconds is how long a Machine must be ready to count as available.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// readinessGates are further conditions that must be good for a Machine to be ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// strategy defines how machines are replaced and which are deleted first.
	// +optional
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`
}

// MachinePoolClass is what groups of workers of the class have in common.
type MachinePoolClass struct {
	// class is the name of the class.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class"`

	// template defines what the machines are created from.
	// +required
	Template WorkerClassTemplate `json:"template"`

	// failureDomains that the machines are spread over.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

	// namingStrategy defines how the MachinePool is named.
	// +optional
	NamingStrategy *NamingStrategy `json:"namingStrategy,omitempty"`

	NodeTimeouts `json:",inline"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`

	// minReadySeconds is how long a machine must be ready to count as available.
	// +optional
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`
}

// ClusterClassStatus is the observed state of a ClusterClass.
type ClusterClassStatus struct {
	// variables are all variables, those that extensions define included.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterClassStatusVariable `json:"variables,omitempty"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// ClusterClass defines what many Clusters have in common, so that a Cluster specifies
// only what differs.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterclasses,shortName=cc,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ClusterClassSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status ClusterClassStatus `json:"status,omitempty"`
}

// ClusterClassList is a list of ClusterClasses.
//
// +kubebuilder:object:root=true
type ClusterClassList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []ClusterClass `json:"items"`
}
