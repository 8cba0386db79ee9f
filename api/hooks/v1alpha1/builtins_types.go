// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/types"
)

// Builtins are the values of the variable builtin that patches can use.
type Builtins struct {
	// cluster describes the Cluster.
	// +optional
	Cluster *ClusterBuiltins `json:"cluster,omitempty"`

	// controlPlane describes the control plane, for items that belong to it.
	// +optional
	ControlPlane *ControlPlaneBuiltins `json:"controlPlane,omitempty"`

	// machineDeployment describes the MachineDeployment, for items that belong
	// to one.
	// +optional
	MachineDeployment *MachineDeploymentBuiltins `json:"machineDeployment,omitempty"`

	// machinePool describes the MachinePool, for items that belong to one.
	// +optional
	MachinePool *MachinePoolBuiltins `json:"machinePool,omitempty"`
}

// ClusterBuiltins are what patches can know of the Cluster.
type ClusterBuiltins struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`

	// namespace is its namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// uid is its UID.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// metadata are its labels and annotations.
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`

	// topology is from spec.topology.
	// +optional
	Topology *ClusterTopologyBuiltins `json:"topology,omitempty"`

	// network is from spec.clusterNetwork.
	// +optional
	Network *ClusterNetworkBuiltins `json:"network,omitempty"`
}

// ClusterTopologyBuiltins are what patches can know of spec.topology.
type ClusterTopologyBuiltins struct {
	// version is the target Kubernetes version.
	// +optional
	Version string `json:"version,omitempty"`

	// classRef names the ClusterClass.
	ClassRef ClusterTopologyClusterClassRefBuiltins `json:"classRef"`

	// class is the ClusterClass's name; classRef holds it too.
	// +optional
	Class string `json:"class,omitempty"`

	// classNamespace is its namespace; classRef holds it too.
	// +optional
	ClassNamespace string `json:"classNamespace,omitempty"`
}

// ClusterTopologyClusterClassRefBuiltins names a ClusterClass.
type ClusterTopologyClusterClassRefBuiltins struct {
	// name is its name.
	Name string `json:"name"`

	// namespace is its namespace.
	Namespace string `json:"namespace"`
}

// ClusterNetworkBuiltins are what patches can know of spec.clusterNetwork.
type ClusterNetworkBuiltins struct {
	// serviceDomain is the domain of Services.
	// +optional
	ServiceDomain *string `json:"serviceDomain,omitempty"`

	// services are the address ranges of Services.
	// +optional
	Services []string `json:"services,omitempty"`

	// pods are the address ranges of Pods.
	// +optional
	Pods []string `json:"pods,omitempty"`
}

// ControlPlaneBuiltins are what patches can know of the control plane.
type ControlPlaneBuiltins struct {
	// version is the version it has or is getting.
	// +optional
	Version string `json:"version,omitempty"`

	// metadata are its labels and annotations.
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`

	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`

	// replicas is how many machines it has.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// machineTemplate describes its machines.
	// +optional
	MachineTemplate *ControlPlaneMachineTemplateBuiltins `json:"machineTemplate,omitempty"`
}

// ControlPlaneMachineTemplateBuiltins are what patches can know of the machines
// of the control plane.
type ControlPlaneMachineTemplateBuiltins struct {
	// infrastructureRef names their infrastructure template.
	// +optional
	InfrastructureRef ControlPlaneMachineTemplateInfrastructureRefBuiltins `json:"infrastructureRef,omitempty"`
}

// ControlPlaneMachineTemplateInfrastructureRefBuiltins names an infrastructure
// template.
type ControlPlaneMachineTemplateInfrastructureRefBuiltins struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`
}

// MachineDeploymentBuiltins are what patches can know of a MachineDeployment.
type MachineDeploymentBuiltins struct {
	// version is the version it has or is getting.
	// +optional
	Version string `json:"version,omitempty"`

	// metadata are its labels and annotations.
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`

	// class is its class in the ClusterClass.
	// +optional
	Class string `json:"class,omitempty"`

	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`

	// topologyName is its name in spec.topology.
	// +optional
	TopologyName string `json:"topologyName,omitempty"`

	// replicas is how many machines it has.
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`

	// bootstrap describes its bootstrap object.
	// +optional
	Bootstrap *MachineBootstrapBuiltins `json:"bootstrap,omitempty"`

	// infrastructureRef names its infrastructure object.
	// +optional
	InfrastructureRef *MachineInfrastructureRefBuiltins `json:"infrastructureRef,omitempty"`
}

// MachinePoolBuiltins are what patches can know of a MachinePool.
type MachinePoolBuiltins struct {
	// version is the version it has or is getting.
	// +optional
	Version string `json:"version,omitempty"`

	// metadata are its labels and annotations.
	// +optional
	Metadata *ObjectMeta `json:"metadata,omitempty"`

	// class is its class in the ClusterClass.
	// +optional
	Class string `json:"class,omitempty"`

	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`

	// topologyName is its name in spec.topology.
	// +optional
	TopologyName string `json:"topologyName,omitempty"`

	// replicas is how many machines it has.
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`

	// bootstrap describes its bootstrap object.
	// +optional
	Bootstrap *MachineBootstrapBuiltins `json:"bootstrap,omitempty"`

	// infrastructureRef names its infrastructure object.
	// +optional
	InfrastructureRef *MachineInfrastructureRefBuiltins `json:"infrastructureRef,omitempty"`
}

// MachineBootstrapBuiltins are what patches can know of a bootstrap object.
type MachineBootstrapBuiltins struct {
	// configRef names it.
	// +optional
	ConfigRef *MachineBootstrapConfigRefBuiltins `json:"configRef,omitempty"`
}

// MachineBootstrapConfigRefBuiltins names a bootstrap object.
type MachineBootstrapConfigRefBuiltins struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`
}

// MachineInfrastructureRefBuiltins names an infrastructure object.
type MachineInfrastructureRefBuiltins struct {
	// name is its name.
	// +optional
	Name string `json:"name,omitempty"`
}
