// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// SavedKind is the kind of a SavedPlan.
const SavedKind = "SavedPlan"

// SavedPlan is a plan that can be carried out: the file of `capstan plan --save`. It has
// the objects of the change, Secrets included.
type SavedPlan struct {
	metav1.TypeMeta `json:",inline"`
	// Management is the UID of the namespace kube-system of the management cluster.
	Management types.UID `json:"management"`
	// Manager is the field manager of the change.
	Manager string `json:"manager"`
	// Horizon is the virtual time after which the plan ended.
	Horizon metav1.Duration `json:"horizon"`
	// Writes are the change, in their order.
	Writes []SavedWrite `json:"writes"`
	// Digests are of the objects that the plan was made from, by Cluster, and then by
	// kind, namespace and name.
	Digests map[string]map[string]string `json:"digests"`
	// Plan is what the change does.
	Plan Plan `json:"plan"`
	// Checksum is the SHA-256 of the plan without this field. Its first digits identify
	// the plan.
	Checksum string `json:"checksum"`
}

// SavedWrite is one write of a change.
type SavedWrite struct {
	// Patch is the type of the patch; empty replaces the object.
	Patch types.PatchType `json:"patch,omitempty"`
	// Delete deletes the object, of which only the name matters.
	Delete bool `json:"delete,omitempty"`
	// Object has the fields to write.
	Object runtime.RawExtension `json:"object"`
}

// identity is the number of digits of a checksum that identify a plan.
const identity = 12

// ID identifies a saved plan.
func (p *SavedPlan) ID() string { return p.Checksum[:min(identity, len(p.Checksum))] }
