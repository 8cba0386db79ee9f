// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// IsDefined reports whether the cluster is described by a topology.
func (t *Topology) IsDefined() bool {
	return t != nil && t.ClassRef.Name != ""
}

// IsDefined reports whether the class gives any checks or remediation.
func (h *ControlPlaneTopologyHealthCheck) IsDefined() bool {
	return h != nil && (h.Checks.isDefined() || h.Remediation.TriggerIf != MachineHealthCheckRemediationTriggerIf{} || h.Remediation.TemplateRef.IsDefined())
}

// IsDefined reports whether there are any checks or remediation.
func (h *MachineDeploymentTopologyHealthCheck) IsDefined() bool {
	return h != nil && (h.Checks.isDefined() || h.Remediation != MachineDeploymentTopologyHealthCheckRemediation{})
}

func (c *MachineHealthCheckChecks) isDefined() bool {
	return c.NodeStartupTimeoutSeconds != nil || len(c.UnhealthyNodeConditions) > 0 || len(c.UnhealthyMachineConditions) > 0
}

// Topology describes a cluster by a class and by what differs from it.
type Topology struct {
	// classRef refers to the ClusterClass.
	// +required
	ClassRef ClusterClassRef `json:"classRef,omitempty,omitzero"`

	// version of Kubernetes for the whole cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// controlPlane describes the control plane.
	// +optional
	ControlPlane ControlPlaneTopology `json:"controlPlane,omitempty,omitzero"`

	// workers describes groups of workers.
	// +optional
	Workers WorkersTopology `json:"workers,omitempty,omitzero"`

	// variables are values for the variables that the class defines.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterVariable `json:"variables,omitempty"`
}

// ClusterClassRef refers to a ClusterClass.
type ClusterClassRef struct {
	// name of the ClusterClass.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// namespace of the ClusterClass; the Cluster's own when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
}

// ControlPlaneTopology describes a control plane. Fields that are left out have the values of the
// class.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTopology struct {
	// metadata is put on the control plane object and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// replicas is the desired number of control plane machines; when left out, another client
	// manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// rollout defines when machines are replaced.
	// +optional
	Rollout ControlPlaneTopologyRolloutSpec `json:"rollout,omitempty,omitzero"`

	// healthCheck watches over the control plane machines.
	// +optional
	HealthCheck ControlPlaneTopologyHealthCheck `json:"healthCheck,omitempty,omitzero"`

	// deletion defines how long each step of a deletion may take.
	// +optional
	Deletion MachineDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []MachineTaint `json:"taints,omitempty"`

	// readinessGates are further conditions that must be good for a Machine to be ready; they replace
	// those of the class.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// variables are values only for the control plane.
	// +optional
	Variables ControlPlaneVariables `json:"variables,omitempty,omitzero"`
}

// ControlPlaneTopologyRolloutSpec defines when control plane machines are replaced.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTopologyRolloutSpec struct {
	// after is a time. Once it has passed, machines that were created before it are replaced.
	// +optional
	After metav1.Time `json:"after,omitempty,omitzero"`
}

// ControlPlaneTopologyHealthCheck watches over control plane machines.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTopologyHealthCheck struct {
	// enabled turns the health check on or off. When left out, it is on if the topology or the class
	// defines one.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// checks define when a Machine is unhealthy; they replace those of the class.
	// +optional
	Checks MachineHealthCheckChecks `json:"checks,omitempty,omitzero"`

	// remediation defines what happens to unhealthy Machines; it replaces that of the class.
	// +optional
	Remediation MachineHealthCheckRemediation `json:"remediation,omitempty,omitzero"`
}

// WorkersTopology describes groups of workers.
// +kubebuilder:validation:MinProperties=1
type WorkersTopology struct {
	// machineDeployments are groups kept by MachineDeployments.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2000
	MachineDeployments []MachineDeploymentTopology `json:"machineDeployments,omitempty"`

	// machinePools are groups kept by MachinePools.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2000
	MachinePools []MachinePoolTopology `json:"machinePools,omitempty"`
}

// MachineDeploymentTopology describes one group of workers. Fields that are left out have the
// values of the class.
type MachineDeploymentTopology struct {
	// metadata is put on the MachineDeployment and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// class is one of the ClusterClass's classes of MachineDeployments.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`

	// name of the group, unique in the topology.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// failureDomain is the failure domain of the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// replicas is the desired number of machines; when left out, another client manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// healthCheck watches over the machines.
	// +optional
	HealthCheck MachineDeploymentTopologyHealthCheck `json:"healthCheck,omitempty,omitzero"`

	// deletion defines which Machines are deleted first and how long each step may take.
	// +optional
	Deletion MachineDeploymentTopologyMachineDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []MachineTaint `json:"taints,omitempty"`

	// minReadySeconds is how long a Machine must be ready to count as available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// readinessGates are further conditions that must be good for a Machine to be ready; they replace
	// those of the class.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// rollout defines how and when machines are replaced.
	// +optional
	Rollout MachineDeploymentRolloutSpec `json:"rollout,omitempty,omitzero"`

	// variables are values only for this group.
	// +optional
	Variables MachineDeploymentVariables `json:"variables,omitempty,omitzero"`
}

// MachineDeploymentTopologyHealthCheck watches over the machines of a group.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentTopologyHealthCheck struct {
	// enabled turns the health check on or off. When left out, it is on if the topology or the class
	// defines one.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// checks define when a Machine is unhealthy; they replace those of the class.
	// +optional
	Checks MachineHealthCheckChecks `json:"checks,omitempty,omitzero"`

	// remediation defines what happens to unhealthy Machines; it replaces that of the class.
	// +optional
	Remediation MachineDeploymentTopologyHealthCheckRemediation `json:"remediation,omitempty,omitzero"`
}

// MachineDeploymentTopologyHealthCheckRemediation defines what happens to unhealthy Machines of a
// group.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentTopologyHealthCheckRemediation struct {
	// maxInFlight is the maximum number of concurrent replacements, as a number or a percentage.
	// +optional
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`

	// triggerIf prevents remediation from starting when too many Machines are unhealthy.
	// +optional
	TriggerIf MachineHealthCheckRemediationTriggerIf `json:"triggerIf,omitempty,omitzero"`

	// templateRef refers to a template of remediation requests for an external controller.
	// +optional
	TemplateRef MachineHealthCheckRemediationTemplateReference `json:"templateRef,omitempty,omitzero"`
}

// MachineDeploymentTopologyMachineDeletionSpec defines which Machines of a group are deleted first and how long
// each step may take.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentTopologyMachineDeletionSpec struct {
	// order in which healthy Machines are deleted.
	// +optional
	// +kubebuilder:validation:Enum=Random;Newest;Oldest
	Order MachineSetDeletionOrder `json:"order,omitempty"`

	// nodeDrainTimeoutSeconds bounds draining the Node. 0 or nothing: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDrainTimeoutSeconds *int32 `json:"nodeDrainTimeoutSeconds,omitempty"`

	// nodeVolumeDetachTimeoutSeconds bounds the wait for volumes to detach. 0 or nothing: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeVolumeDetachTimeoutSeconds *int32 `json:"nodeVolumeDetachTimeoutSeconds,omitempty"`

	// nodeDeletionTimeoutSeconds bounds the attempts to delete the Node. 0: no bound; nothing: 10
	// seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NodeDeletionTimeoutSeconds *int32 `json:"nodeDeletionTimeoutSeconds,omitempty"`
}

// MachinePoolTopology describes one group of workers managed by a MachinePool. Fields that are left
// out have the values of the class.
type MachinePoolTopology struct {
	// metadata is put on the MachinePool and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// class is one of the ClusterClass's classes of MachinePools.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`

	// name of the group, unique in the topology.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// failureDomains that the machines are spread over.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

	// deletion defines how long each step of a deletion may take.
	// +optional
	Deletion MachineDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints that the machines want on their Nodes.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []MachineTaint `json:"taints,omitempty"`

	// minReadySeconds is how long a machine must be ready to count as available.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// replicas is the desired number of machines; when left out, another client manages it.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// variables are values only for this group.
	// +optional
	Variables MachinePoolVariables `json:"variables,omitempty,omitzero"`
}

// ClusterVariable is the value of one variable.
type ClusterVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// value of the variable, validated against the schema of its definition.
	// +required
	Value apiextensionsv1.JSON `json:"value,omitempty,omitzero"`
}

// ControlPlaneVariables are values only for the control plane.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneVariables struct {
	// overrides take precedence over the variables of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Overrides []ClusterVariable `json:"overrides,omitempty"`
}

// MachineDeploymentVariables are values only for one group.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentVariables struct {
	// overrides take precedence over the variables of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Overrides []ClusterVariable `json:"overrides,omitempty"`
}

// MachinePoolVariables are values only for one group.
// +kubebuilder:validation:MinProperties=1
type MachinePoolVariables struct {
	// overrides take precedence over the variables of the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Overrides []ClusterVariable `json:"overrides,omitempty"`
}
