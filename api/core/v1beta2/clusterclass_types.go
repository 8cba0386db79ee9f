// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// ClusterClassKind is the kind of a ClusterClass.
	ClusterClassKind = "ClusterClass"
	// VariableDefinitionFromInline is the source of a variable that the ClusterClass itself
	// defines.
	VariableDefinitionFromInline = "inline"
)

// IsDefined reports whether the reference refers to anything.
func (r *ClusterClassTemplateReference) IsDefined() bool {
	return r != nil && *r != ClusterClassTemplateReference{}
}

// GroupVersionKind returns group, version and kind of the template.
func (r *ClusterClassTemplateReference) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// ClusterClassSpec is what clusters of the class have in common.
type ClusterClassSpec struct {
	// availabilityGates are further conditions that must be good for a Cluster of the class to be
	// available.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AvailabilityGates []ClusterAvailabilityGate `json:"availabilityGates,omitempty"`

	// infrastructure defines what the infrastructure object is created from.
	// +required
	Infrastructure InfrastructureClass `json:"infrastructure,omitempty,omitzero"`

	// controlPlane defines what the control plane is created from.
	// +required
	ControlPlane ControlPlaneClass `json:"controlPlane,omitempty,omitzero"`

	// workers are the classes of groups of workers.
	// +optional
	Workers WorkersClass `json:"workers,omitempty,omitzero"`

	// variables that a Cluster of the class may set.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterClassVariable `json:"variables,omitempty"`

	// patches change the templates for a Cluster, in their order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Patches []ClusterClassPatch `json:"patches,omitempty"`

	// upgrade defines how clusters are upgraded.
	// +optional
	Upgrade ClusterClassUpgrade `json:"upgrade,omitempty,omitzero"`

	// kubernetesVersions that an upgrade may go through, in ascending order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	KubernetesVersions []string `json:"kubernetesVersions,omitempty"`
}

// ClusterClassTemplateReference refers to a template in the namespace of the ClusterClass.
type ClusterClassTemplateReference struct {
	// kind of the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`

	// name of the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// apiVersion of the template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$`
	APIVersion string `json:"apiVersion,omitempty"`
}

// ClusterClassTemplate names a template.
type ClusterClassTemplate struct {
	// templateRef refers to the template.
	// +required
	TemplateRef ClusterClassTemplateReference `json:"templateRef,omitempty,omitzero"`
}

// ClusterClassNamingSpec defines how an object is named.
// +kubebuilder:validation:MinProperties=1
type ClusterClassNamingSpec struct {
	// template is a Go template for the name, with .cluster.name and .random, and for workers
	// .machineDeployment.topologyName or .machinePool.topologyName.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Template string `json:"template,omitempty"`
}

// InfrastructureClass defines what the infrastructure object is created from.
type InfrastructureClass struct {
	// templateRef refers to the template.
	// +required
	TemplateRef ClusterClassTemplateReference `json:"templateRef,omitempty,omitzero"`

	// naming defines how the object is named.
	// +optional
	Naming ClusterClassNamingSpec `json:"naming,omitempty,omitzero"`
}

// ControlPlaneClass defines what the control plane is created from.
type ControlPlaneClass struct {
	// metadata is put on the control plane object and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// templateRef refers to the template of the control plane object.
	// +required
	TemplateRef ClusterClassTemplateReference `json:"templateRef,omitempty,omitzero"`

	// machineInfrastructure names the template of the machines, if the control plane has machines.
	// +optional
	MachineInfrastructure ClusterClassTemplate `json:"machineInfrastructure,omitempty,omitzero"`

	// healthCheck watches over the control plane machines.
	// +optional
	HealthCheck ControlPlaneClassHealthCheck `json:"healthCheck,omitempty,omitzero"`

	// naming defines how the control plane object is named.
	// +optional
	Naming ClusterClassNamingSpec `json:"naming,omitempty,omitzero"`

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

	// readinessGates are further conditions that must be good for a Machine to be ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`
}

// ControlPlaneClassHealthCheck watches over control plane machines.
// +kubebuilder:validation:MinProperties=1
type ControlPlaneClassHealthCheck struct {
	// checks define when a Machine is unhealthy.
	// +optional
	Checks MachineHealthCheckChecks `json:"checks,omitempty,omitzero"`

	// remediation defines what happens to unhealthy Machines.
	// +optional
	Remediation MachineHealthCheckRemediation `json:"remediation,omitempty,omitzero"`
}

// WorkersClass are the classes of groups of workers.
// +kubebuilder:validation:MinProperties=1
type WorkersClass struct {
	// machineDeployments are the classes of groups kept by MachineDeployments.
	// +optional
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	MachineDeployments []MachineDeploymentClass `json:"machineDeployments,omitempty"`

	// machinePools are the classes of groups kept by MachinePools.
	// +optional
	// +listType=map
	// +listMapKey=class
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	MachinePools []MachinePoolClass `json:"machinePools,omitempty"`
}

// MachineDeploymentClass is what groups of workers of the class have in common.
type MachineDeploymentClass struct {
	// metadata is put on the MachineDeployment and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// class is the name of the class.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`

	// bootstrap names the template of the bootstrap configs.
	// +required
	Bootstrap ClusterClassTemplate `json:"bootstrap,omitempty,omitzero"`

	// infrastructure names the template of the hosts.
	// +required
	Infrastructure ClusterClassTemplate `json:"infrastructure,omitempty,omitzero"`

	// healthCheck watches over the machines.
	// +optional
	HealthCheck MachineDeploymentClassHealthCheck `json:"healthCheck,omitempty,omitzero"`

	// failureDomain is the failure domain of the machines.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// naming defines how the MachineDeployment is named.
	// +optional
	Naming ClusterClassNamingSpec `json:"naming,omitempty,omitzero"`

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

	// readinessGates are further conditions that must be good for a Machine to be ready.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []MachineReadinessGate `json:"readinessGates,omitempty"`

	// rollout defines how machines are replaced.
	// +optional
	Rollout MachineDeploymentClassRolloutSpec `json:"rollout,omitempty,omitzero"`
}

// MachineDeploymentClassHealthCheck watches over the machines of a group.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentClassHealthCheck struct {
	// checks define when a Machine is unhealthy.
	// +optional
	Checks MachineHealthCheckChecks `json:"checks,omitempty,omitzero"`

	// remediation defines what happens to unhealthy Machines.
	// +optional
	Remediation MachineDeploymentTopologyHealthCheckRemediation `json:"remediation,omitempty,omitzero"`
}

// MachineDeploymentClassRolloutSpec defines how machines are replaced.
// +kubebuilder:validation:MinProperties=1
type MachineDeploymentClassRolloutSpec struct {
	// strategy defines how machines are replaced.
	// +optional
	Strategy MachineDeploymentRolloutStrategy `json:"strategy,omitempty,omitzero"`
}

// MachinePoolClass is what groups of workers of the class have in common.
type MachinePoolClass struct {
	// metadata is put on the MachinePool and its machines.
	// +optional
	Metadata ObjectMeta `json:"metadata,omitempty,omitzero"`

	// class is the name of the class.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`

	// bootstrap names the template of the bootstrap config.
	// +required
	Bootstrap ClusterClassTemplate `json:"bootstrap,omitempty,omitzero"`

	// infrastructure names the template of the pool.
	// +required
	Infrastructure ClusterClassTemplate `json:"infrastructure,omitempty,omitzero"`

	// failureDomains that the machines are spread over.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

	// naming defines how the MachinePool is named.
	// +optional
	Naming ClusterClassNamingSpec `json:"naming,omitempty,omitzero"`

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
}

// ClusterClassUpgrade defines how clusters are upgraded.
// +kubebuilder:validation:MinProperties=1
type ClusterClassUpgrade struct {
	// external has an extension decide.
	// +optional
	External ClusterClassUpgradeExternal `json:"external,omitempty,omitzero"`
}

// ClusterClassUpgradeExternal has an extension decide how clusters are upgraded.
// +kubebuilder:validation:MinProperties=1
type ClusterClassUpgradeExternal struct {
	// generateUpgradePlanExtension is the handler that computes the plan; it excludes
	// kubernetesVersions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	GenerateUpgradePlanExtension string `json:"generateUpgradePlanExtension,omitempty"`
}

// ClusterClassStatus is the observed state of a ClusterClass.
// +kubebuilder:validation:MinProperties=1
type ClusterClassStatus struct {
	// conditions summarize the state; their types are the constants ClusterClass...Condition.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// variables are all variables, those that extensions define included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Variables []ClusterClassStatusVariable `json:"variables,omitempty"`

	// observedGeneration is the generation that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// deprecated holds what only older versions of the API show.
	// +optional
	Deprecated *ClusterClassDeprecatedStatus `json:"deprecated,omitempty"`
}

// ClusterClassDeprecatedStatus holds what only older versions of the API show.
type ClusterClassDeprecatedStatus struct {
	// v1beta1 holds what only v1beta1 shows.
	// +optional
	V1Beta1 *ClusterClassV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// ClusterClassV1Beta1DeprecatedStatus holds what only v1beta1 shows.
type ClusterClassV1Beta1DeprecatedStatus struct {
	// conditions as v1beta1 had them.
	// +optional
	Conditions Conditions `json:"conditions,omitempty"`
}

// ClusterClass defines what many Clusters have in common, so that a Cluster specifies only what
// differs.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterclasses,shortName=cc,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=10
// +kubebuilder:printcolumn:name="Variables Ready",type=string,JSONPath=`.status.conditions[?(@.type=="VariablesReady")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ClusterClassSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status ClusterClassStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the ClusterClass.
func (c *ClusterClass) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the ClusterClass.
func (c *ClusterClass) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

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
