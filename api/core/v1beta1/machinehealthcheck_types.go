// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MachineHealthCheckClass defines when a Machine is unhealthy and what then happens.
type MachineHealthCheckClass struct {
	// unhealthyConditions make a Machine unhealthy if any of them holds for its Node.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`

	// unhealthyMachineConditions make a Machine unhealthy if any of them holds for it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	UnhealthyMachineConditions []UnhealthyMachineCondition `json:"unhealthyMachineConditions,omitempty"`

	// maxUnhealthy is the maximum number of unhealthy Machines, as a number or a percentage, with
	// which remediation is allowed.
	// +optional
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`

	// unhealthyRange, for example [3-5], is the range of unhealthy Machines in which remediation is
	// allowed; it takes precedence over maxUnhealthy.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^\[[0-9]+-[0-9]+\]$`
	UnhealthyRange *string `json:"unhealthyRange,omitempty"`

	// nodeStartupTimeout is how long a Machine may take to have a Node. 10m when left out; 0 turns the
	// check off.
	// +optional
	NodeStartupTimeout *metav1.Duration `json:"nodeStartupTimeout,omitempty"`

	// remediationTemplate refers to a template of remediation requests for an external controller.
	// +optional
	RemediationTemplate *corev1.ObjectReference `json:"remediationTemplate,omitempty"`
}

// MachineHealthCheckSpec is the desired state of a MachineHealthCheck.
type MachineHealthCheckSpec struct {
	// clusterName is the Cluster that the MachineHealthCheck belongs to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName"`

	// selector picks the Machines to watch over.
	// +required
	Selector metav1.LabelSelector `json:"selector"`

	MachineHealthCheckClass `json:",inline"`
}

// UnhealthyCondition is a state of a Node's condition that is bad when it lasts.
type UnhealthyCondition struct {
	// type of the Node's condition.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Type corev1.NodeConditionType `json:"type"`

	// status that is bad.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	Status corev1.ConditionStatus `json:"status"`

	// timeout is how long the status must last.
	// +required
	Timeout metav1.Duration `json:"timeout"`
}

// UnhealthyMachineCondition is a state of a Machine's condition that is bad when it lasts.
type UnhealthyMachineCondition struct {
	// type of the Machine's condition; not one that depends on health checks itself.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])",message="type must not be one of: Ready, Available, HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated"
	Type string `json:"type,omitempty"`

	// status that is bad.
	// +required
	// +kubebuilder:validation:Enum=True;False;Unknown
	Status metav1.ConditionStatus `json:"status,omitempty"`

	// timeout is how long the status must last.
	// +required
	Timeout metav1.Duration `json:"timeout"`
}

// MachineHealthCheckStatus is the observed state of a MachineHealthCheck.
type MachineHealthCheckStatus struct {
	// expectedMachines is how many Machines are watched over.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ExpectedMachines int32 `json:"expectedMachines"`

	// currentHealthy is how many of them are healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CurrentHealthy int32 `json:"currentHealthy"`

	// remediationsAllowed is how many more Machines may become unhealthy before remediation stops.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RemediationsAllowed int32 `json:"remediationsAllowed"`

	// observedGeneration is the generation that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// targets are the names of the Machines watched over.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Targets []string `json:"targets,omitempty"`

	// conditions summarize the state.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 holds what v1beta2 shows.
	// +optional
	V1Beta2 *V1Beta2Status `json:"v1beta2,omitempty"`
}

// MachineHealthCheck finds unhealthy Machines and has them replaced.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=machinehealthchecks,shortName=mhc;mhcs,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=".spec.clusterName"
// +kubebuilder:printcolumn:name="ExpectedMachines",type=integer,JSONPath=".status.expectedMachines"
// +kubebuilder:printcolumn:name="MaxUnhealthy",type=string,JSONPath=".spec.maxUnhealthy"
// +kubebuilder:printcolumn:name="CurrentHealthy",type=integer,JSONPath=".status.currentHealthy"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type MachineHealthCheck struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec MachineHealthCheckSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status MachineHealthCheckStatus `json:"status,omitempty"`
}

// MachineHealthCheckList is a list of MachineHealthChecks.
//
// +kubebuilder:object:root=true
type MachineHealthCheckList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []MachineHealthCheck `json:"items"`
}
