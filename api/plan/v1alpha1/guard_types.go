// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RequirePlanAnnotation is an annotation of a Cluster. With the value "true", no
// Machine of it is deleted, and no change that can replace Machines is admitted, unless
// a plan has it.
const RequirePlanAnnotation = "capstan.dev/require-plan"

// PlanHeldCondition is a condition of a Cluster under a PlanGuard. False names the
// objects that were to be deleted or changed although no plan has that.
const PlanHeldCondition = "PlanHeld"

// Reasons of PlanHeldCondition.
const (
	// CarryingOutReason is a plan that is being carried out.
	CarryingOutReason = "CarryingOut"
	// NotInPlanReason is a deletion or change that was refused while a plan is carried
	// out.
	NotInPlanReason = "NotInPlan"
	// PlanRequiredReason is a deletion or change that was refused because the Cluster
	// requires plans.
	PlanRequiredReason = "PlanRequired"
)

// PlanGuardSpec is what a guard admits.
type PlanGuardSpec struct {
	// plan is the identity of the saved plan that is being carried out. A guard without
	// a plan admits nothing: it belongs to a Cluster that requires plans.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Plan string `json:"plan,omitempty"`

	// required is set for a Cluster that requires plans: changes that can replace
	// Machines are admitted only for objects in change. The Cluster controller sets it.
	// +optional
	Required bool `json:"required,omitempty"`

	// deadline is until when the plan has to be carried out. After it, the guard admits
	// everything, or nothing if the Cluster requires plans.
	// +optional
	Deadline metav1.Time `json:"deadline,omitempty,omitzero"`

	// change lists the objects that the plan writes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5000
	Change []Object `json:"change,omitempty"`

	// cluster is what the plan does to the Cluster.
	// +optional
	Cluster *Cluster `json:"cluster,omitempty"`
}

// PlanGuardStatus is the progress of a plan, and what its guard has refused.
type PlanGuardStatus struct {
	// sent is when the change was sent. Before that, the plan cannot be carried out yet.
	// +optional
	Sent metav1.Time `json:"sent,omitempty,omitzero"`

	// held are the latest refusals, one for each object and user.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Held []Held `json:"held,omitempty"`
}

// Held is a deletion or a change that was refused.
type Held struct {
	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is the UID of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// what is what would have happened to it, as "deleted".
	// +required
	// +kubebuilder:validation:MaxLength=64
	What string `json:"what"`

	// user is the name of the user who sent the request.
	// +required
	// +kubebuilder:validation:MaxLength=256
	User string `json:"user"`

	// why is the reason that its conditions give, if any.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Why string `json:"why,omitempty"`

	// at is when it was first refused.
	// +required
	At metav1.Time `json:"at"`
}

// PlanGuard keeps the Machines of the Cluster of its name: only what its plan has is
// deleted, or changed in place. A user who can write PlanGuards can carry out plans, and
// one who can delete them can release a Cluster from its plan.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=planguards,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Plan",type="string",JSONPath=".spec.plan",description="The saved plan that is being carried out"
// +kubebuilder:printcolumn:name="Required",type="boolean",JSONPath=".spec.required",description="Whether the Cluster requires plans"
// +kubebuilder:printcolumn:name="Deadline",type="string",JSONPath=".spec.deadline",description="When the plan has to be carried out"
// +kubebuilder:printcolumn:name="Held",type="string",JSONPath=".status.held[*].name",description="What was to be deleted or changed without a plan"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since its creation"
type PlanGuard struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what it admits.
	// +optional
	Spec PlanGuardSpec `json:"spec,omitempty,omitzero"`

	// status is what it has refused.
	// +optional
	Status PlanGuardStatus `json:"status,omitempty,omitzero"`
}

// PlanGuardList is a list of PlanGuards.
//
// +kubebuilder:object:root=true
type PlanGuardList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`

	// items are the PlanGuards.
	Items []PlanGuard `json:"items"`
}
