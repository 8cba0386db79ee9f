// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// APIVersion and Kind are those of a Plan.
const (
	APIVersion = "plan.capstan.dev/v1alpha1"
	Kind       = "Plan"
)

// Plan is what a change does.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	// Made is when the management cluster was read.
	Made metav1.Time `json:"made"`
	// Program is the version of the program that made the plan.
	Program string `json:"program"`
	// Change lists the objects that the change writes.
	Change []Object `json:"change"`
	// Summary counts the Machines by action.
	Summary Summary `json:"summary"`
	// Clusters are those that the change reaches, by namespace and name.
	Clusters []Cluster `json:"clusters"`
	// Assumptions are facts that could not be read, in sentences.
	Assumptions []string `json:"assumptions,omitempty"`
}

// Object names an object. Field is the path of the field that matters, if any.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Action is what happens to it.
	Action Action `json:"action,omitempty"`
	// Fields are those that change; none for an object that is created or deleted.
	Fields []Field `json:"fields,omitempty"`
}

// Field is a changed field. A value is empty if the field is not set, and long values
// are shortened.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Action is what happens to a Machine or another object.
type Action string

// The actions. Objects other than Machines are never kept or replaced.
const (
	Kept     Action = "Kept"     // it stays as it is
	Changed  Action = "Changed"  // it stays, with other fields
	Replaced Action = "Replaced" // it is deleted, and another of the same owner is created
	Deleted  Action = "Deleted"
	Created  Action = "Created"
	// Transient is a Machine that is created and deleted again by the same change.
	Transient Action = "Transient"
)

// Summary counts Machines. Those of Clusters that cannot be predicted are in
// NotPredicted alone.
type Summary struct {
	Kept         int `json:"kept"`
	Changed      int `json:"changed"`
	Replaced     int `json:"replaced"`
	Deleted      int `json:"deleted"`
	Created      int `json:"created"`
	Transient    int `json:"transient"`
	NotPredicted int `json:"notPredicted"`
}

// Go is the number of existing Machines that are deleted.
func (s Summary) Go() int { return s.Replaced + s.Deleted }

// Cluster is what a change does to a Cluster.
type Cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// NotPredicted is set if it cannot be known what happens. The other fields are
	// empty then, except Machines, which has the existing ones without an action.
	NotPredicted *NotPredicted `json:"notPredicted,omitempty"`
	// Machines are in the order of their owners, and then in the order in which they
	// are deleted or created.
	Machines []Machine `json:"machines,omitempty"`
	// Pools are the MachinePools that the change reaches.
	Pools []Pool `json:"pools,omitempty"`
	// Groups are the owners of Machines.
	Groups []Group `json:"groups,omitempty"`
	// Hooks are the calls of runtime extensions, in their order. Lifecycle hooks are
	// assumed to allow what they are asked for.
	Hooks []Hook `json:"hooks,omitempty"`
	// Objects are those other than Machines that are created, changed or deleted.
	// Status alone is no change.
	Objects []Object `json:"objects,omitempty"`
	// Blocked says what the change still waits for at the end.
	Blocked []Blocked `json:"blocked,omitempty"`
	// Unending is set if Machines are replaced again and again.
	Unending *Unending `json:"unending,omitempty"`
	// Takes is the time until nothing changes any longer, or until the end of the plan.
	Takes metav1.Duration `json:"takes"`
}

// NotPredicted is why a Cluster cannot be predicted.
type NotPredicted struct {
	// Reason is a word in CamelCase.
	Reason string `json:"reason"`
	// Message is a sentence with the remedy, if there is one.
	Message string `json:"message"`
	// Objects are those that change although the change was not made, with fields.
	Objects []Object `json:"objects,omitempty"`
}

// Reasons of NotPredicted.
const (
	// NotAtRest is a Cluster that changes without the change.
	NotAtRest = "NotAtRest"
	// HookNotAsked is a runtime extension whose answer decides, and that could not be
	// called.
	HookNotAsked = "HookNotAsked"
	// ForeignControlPlane is a control plane of another provider that the change
	// reaches: only its own controller knows what it does.
	ForeignControlPlane = "ForeignControlPlane"
	// MachinePools are pools whose upgrade the topology waits for: their provider
	// decides when they have the version.
	MachinePools = "MachinePools"
	// WorkloadNotAnswering is a workload cluster that accepts connections and does not
	// answer.
	WorkloadNotAnswering = "WorkloadNotAnswering"
	// Failed is an error of a controller.
	Failed = "Failed"
)

// Machine is what happens to a Machine.
type Machine struct {
	Name string `json:"name"`
	// UID is empty for a Machine that is created; its name is a number then.
	UID   types.UID `json:"uid,omitempty"`
	Owner string    `json:"owner"`
	// Action is empty if it cannot be predicted, for a Cluster or for a MachinePool.
	Action Action `json:"action,omitempty"`
	// Cause is why it is replaced or deleted, by its conditions.
	Cause string `json:"cause,omitempty"`
	// Fields are those that change in place.
	Fields []Field `json:"fields,omitempty"`
	// By names the Machine that is created in its place.
	By string `json:"by,omitempty"`
	// Wave numbers the deletions of the Cluster, from 1. Those of one wave begin at once.
	Wave int `json:"wave,omitempty"`
	// After is when its deletion begins, or when it is created.
	After *metav1.Duration `json:"after,omitempty"`
}

// Group is an owner of Machines: a control plane, MachineDeployment, MachineSet or
// MachinePool.
type Group struct {
	Owner        string `json:"owner"`
	ControlPlane bool   `json:"controlPlane"`
	// Before and Then are the numbers of its Machines.
	Before int `json:"before"`
	Then   int `json:"then"`
	// AvailableBefore and FewestAvailable count its available Machines that are not
	// being deleted.
	AvailableBefore int `json:"availableBefore"`
	FewestAvailable int `json:"fewestAvailable"`
	// MostDeleting is how many of its Machines are being deleted at once.
	MostDeleting int `json:"mostDeleting"`
	// Deleting and OutOfDate are how many of its Machines are still being deleted, or
	// not up to date, at the end: they wait for what Blocked names.
	Deleting  int `json:"deleting,omitempty"`
	OutOfDate int `json:"outOfDate,omitempty"`
}

// Pool is a MachinePool. Its machines are only Machines if its infrastructure provider
// has an object for each.
type Pool struct {
	Name string `json:"name"`
	// Before and Then are its replicas.
	Before int32 `json:"before"`
	Then   int32 `json:"then"`
	// Fields are those that change, also of its infrastructure and bootstrap config.
	Fields []Field `json:"fields,omitempty"`
	// NotPredicted says what its infrastructure provider alone decides; empty if it
	// decides nothing. Machines of the pool have no action then.
	NotPredicted string `json:"notPredicted,omitempty"`
}

// Hook is a call of a runtime extension.
type Hook struct {
	Hook    string          `json:"hook"`
	Handler string          `json:"handler,omitempty"`
	After   metav1.Duration `json:"after"`
}

// Blocked is a condition that the change waits for.
type Blocked struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Unending is a change that never ends.
type Unending struct {
	// Period is the time between two waves of deletions.
	Period metav1.Duration `json:"period"`
	// Machines is the number of Machines that each wave deletes, on average.
	Machines int `json:"machines"`
}
