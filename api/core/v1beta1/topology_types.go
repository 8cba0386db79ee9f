// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Topology describes a cluster by a class and by what differs from it.
type Topology struct {
	// class is the name of the ClusterClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class"`

	// classNamespace is the namespace of the ClusterClass; the Cluster's own when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClassNamespace string `json:"classNamespace,omitempty"`

	// version of Kubernetes for the whole cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`

	// rolloutAfter has no effect.
	// +optional
	RolloutAfter *metav1.Time `json:"rolloutAfter,omitempty"`

	// controlPlane describes the control plane.
	// +optional
	ControlPlane ControlPlaneTopology `json:"controlPlane,omitempty"`

	// workers describes groups of workers.
	// +optional
	Workers *WorkersTopology `json:"workers,omitempty"`

	// variables are values for the variables that the class defines.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterVariable `json:"variables,omitempty"`
}

// ControlPlaneTopology describes a control plane. Fields that are left out have the values of the
// class.
type ControlPlaneTopology struct {
	// metadata is put on the control plane object and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty"`

	// replicas is the desired number of control plane machines; when left out, another client
	// manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// rollout defines when machines are replaced.
	// +optional
	Rollout clusterv1.ControlPlaneTopologyRolloutSpec `json:"rollout,omitempty,omitzero"`

	// machineHealthCheck watches over the control plane machines.
	// +optional
	MachineHealthCheck *MachineHealthCheckTopology `json:"machineHealthCheck,omitempty"`

	NodeTimeouts `json:",inline"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`

	// readinessGates are further conditions that must be good for a Machine to be ready; they replace
	// those of the class.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// variables are values only for the control plane.
	// +optional
	Variables *Variables `json:"variables,omitempty"`
}

// WorkersTopology describes groups of workers.
type WorkersTopology struct {
	// machineDeployments are groups kept by MachineDeployments.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=2000
	MachineDeployments []MachineDeploymentTopology `json:"machineDeployments,omitempty"`

	// machinePools are groups kept by MachinePools.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=2000
	MachinePools []MachinePoolTopology `json:"machinePools,omitempty"`
}

// MachineDeploymentTopology describes one group of workers. Fields that are left out have the
// values of the class.
type MachineDeploymentTopology struct {
	// metadata is put on the MachineDeployment and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty"`

	// class is one of the ClusterClass's classes of MachineDeployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class"`

	// name of the group, unique in the topology.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// failureDomain is the failure domain of the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain *string `json:"failureDomain,omitempty"`

	// replicas is the desired number of machines; when left out, another client manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// machineHealthCheck watches over the machines.
	// +optional
	MachineHealthCheck *MachineHealthCheckTopology `json:"machineHealthCheck,omitempty"`

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

	// readinessGates are further conditions that must be good for a Machine to be ready; they replace
	// those of the class.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// strategy defines how machines are replaced and which are deleted first.
	// +optional
	Strategy *MachineDeploymentStrategy `json:"strategy,omitempty"`

	// rollout defines when machines are replaced.
	// +optional
	Rollout clusterv1.ControlPlaneTopologyRolloutSpec `json:"rollout,omitempty,omitzero"`

	// variables are values only for this group.
	// +optional
	Variables *Variables `json:"variables,omitempty"`
}

// MachinePoolTopology describes one group of workers managed by a MachinePool. Fields that are
// left out have the values of the class.
type MachinePoolTopology struct {
	// metadata is put on the MachinePool and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty"`

	// class is one of the ClusterClass's classes of MachinePools.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class"`

	// name of the group, unique in the topology.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// failureDomains that the machines are spread over.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

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

	// replicas is the desired number of machines; when left out, another client manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// variables are values only for this group.
	// +optional
	Variables *Variables `json:"variables,omitempty"`
}

// ClusterVariable is the value of one variable.
type ClusterVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`

	// definitionFrom has no effect.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DefinitionFrom string `json:"definitionFrom,omitempty"`

	// value of the variable, validated against the schema of its definition.
	// +required
	Value apiextensionsv1.JSON `json:"value"`
}

// Variables are values only for one part of the cluster.
type Variables struct {
	// overrides take precedence over the variables of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Overrides []ClusterVariable `json:"overrides,omitempty"`
}

// MachineHealthCheckTopology watches over the machines of a group.
type MachineHealthCheckTopology struct {
	// enable turns the health check on or off. When left out, it is on if the topology or the class
	// defines one.
	// +optional
	Enable *bool `json:"enable,omitempty"`

	MachineHealthCheckClass `json:",inline"`
}
