// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionSeverity defines how bad it is that a v1beta1 condition is False.
type ConditionSeverity string

// Severities of v1beta1 conditions; none when the status is not False.
const (
	ConditionSeverityError   ConditionSeverity = "Error"
	ConditionSeverityWarning ConditionSeverity = "Warning"
	ConditionSeverityInfo    ConditionSeverity = "Info"
	ConditionSeverityNone    ConditionSeverity = ""
)

// ConditionType is the type of a v1beta1 condition.
type ConditionType string

// Conditions are conditions as v1beta1 had them.
type Conditions []Condition

// Condition is a condition as v1beta1 had it. It is kept only below status.deprecated.
type Condition struct {
	// type of the condition, unique in its list.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type ConditionType `json:"type"`

	// status is True, False or Unknown.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// severity is the severity of a status of False.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Severity ConditionSeverity `json:"severity,omitempty"`

	// lastTransitionTime is when the status changed last.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// reason is one word, in CamelCase, for the last change.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// message is for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	Message string `json:"message,omitempty"`
}
