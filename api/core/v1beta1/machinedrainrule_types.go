// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// MachineDrainRuleSpec defines which Pods on which machines the rule is about, and what happens to
// them.
type MachineDrainRuleSpec struct {
	// drain defines what happens to the Pods.
	// +required
	Drain MachineDrainRuleDrainConfig `json:"drain"`

	// machines that the rule is about: those that any entry matches; all without entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="entries in machines must be unique"
	Machines []clusterv1.MachineDrainRuleMachineSelector `json:"machines,omitempty"`

	// pods that the rule is about: those that any entry matches; all without entries.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x == y))",message="entries in pods must be unique"
	Pods []clusterv1.MachineDrainRulePodSelector `json:"pods,omitempty"`
}

// MachineDrainRuleDrainConfig defines what happens to Pods.
type MachineDrainRuleDrainConfig struct {
	// behavior is what draining does to the Pods.
	// +required
	// +kubebuilder:validation:Enum=Drain;Skip;WaitCompleted
	Behavior clusterv1.MachineDrainRuleDrainBehavior `json:"behavior"`

	// order in which Pods are evicted, lowest first; those of one order at the same time. 0 when left
	// out. Not with Skip.
	// +optional
	Order *int32 `json:"order,omitempty"`
}

// MachineDrainRule defines how Pods are treated when the Nodes of Machines are drained.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion
// +kubebuilder:resource:path=machinedrainrules,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Behavior",type=string,JSONPath=".spec.drain.behavior"
// +kubebuilder:printcolumn:name="Order",type=string,JSONPath=".spec.drain.order"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type MachineDrainRule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +required
	metav1.ObjectMeta `json:"metadata"`

	// spec is the desired state.
	// +required
	Spec MachineDrainRuleSpec `json:"spec"`
}

// MachineDrainRuleList is a list of MachineDrainRules.
//
// +kubebuilder:object:root=true
type MachineDrainRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []MachineDrainRule `json:"items"`
}
