// SPDX-License-Identifier: Apache-2.0

// Package reference decides for which roles an object can be referred to, and to which
// owner a referenced object belongs. It also holds the observed state of an object that
// another refers to, and converts it to conditions. A reference is only a name, which any
// client can write: it grants no right to the object.
//
// Whether a kind can have a role, as far as its group indicates:
//
//   - Kinds of Cluster API's own groups are never infrastructure, bootstrap
//     configuration or control plane.
//   - A group whose name contains another role serves that role, and not this one: for
//     example bootstrap.cluster.x-k8s.io. A control plane can be the infrastructure of
//     its Cluster, and infrastructure its control plane: providers of managed Kubernetes
//     have one object for both.
//   - A reference to a template has a kind that ends in Template, and no other reference
//     does.
//
// The holder of an object:
//
//   - The holder is the owner that its controller reference names, regardless of the
//     UID: an owner that was restored or moved has a different UID. If that owner
//     created the object for the claimant, such as the MachineSet of a Machine, the
//     object has no holder yet.
//   - A Cluster can have an object next to a controller that is not part of Cluster API,
//     if the object permits it by its label or an owner reference. So can the Machine of
//     a pool, whose provider created the object.
//   - Without a controller, any other owner of Cluster API is the holder. Two Clusters
//     among the owners exclude each other.
//   - Without such an owner, it is the Cluster in the cluster-name label.
//   - Otherwise the object has no holder, and any referrer can take it.
//
// Templates, and Secrets that are only read, are shared by all objects of one Cluster:
// they are held by the Clusters among their owners or, without one, by the Cluster in
// their label. Objects that a bootstrap configuration controls are for its machine only.
package reference

import (
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Object is an object of a provider that another object refers to.
type Object struct {
	Ref   clusterv1.ContractVersionedObjectReference
	Field string // the path of the reference, as users write it
	// Obj is nil if it does not exist, if it was not read, or if it belongs to another
	// owner.
	Obj     *unstructured.Unstructured
	Missing bool   // read, and not found
	Held    bool   // by another owner, as Err reports
	Err     string // why it cannot be used
}

// String names the object for messages.
func (o Object) String() string { return o.Ref.Kind + " " + o.Ref.Name }

// Defined reports whether the reference is set.
func (o Object) Defined() bool { return o.Ref.IsDefined() }

// Problem returns why the object cannot be used; empty if it can, or was not read.
func (o Object) Problem() string {
	if o.Missing {
		return fmt.Sprintf("%s, named by %s, does not exist: create it, or correct the reference", o, o.Field)
	}
	return o.Err
}

// Dependent is an object that needs another one.
type Dependent struct {
	Kind     string
	Cluster  string // name of its Cluster
	Deleting bool
	Done     bool   // the other object did its part before
	Remedy   string // what follows in that case, or what users can do
}

// Absent is the condition of a dependent while there is no object to read.
func (o Object) Absent(d Dependent) metav1.Condition {
	switch {
	case !o.Missing:
		return conditions.New("", metav1.ConditionUnknown, clusterv1.InternalErrorReason, fmt.Sprintf("Waiting for Cluster %s, named by spec.clusterName, to exist", d.Cluster))
	case d.Deleting && d.Done:
		return conditions.New("", metav1.ConditionUnknown, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted", o))
	case d.Done:
		return conditions.New("", metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted while the %s still exists: %s", o, d.Kind, d.Remedy))
	case d.Deleting:
		return conditions.New("", metav1.ConditionUnknown, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist", o))
	default:
		return conditions.New("", metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist: create it, or correct the reference", o))
	}
}

// Mirrored configures how a condition of an object is copied to its referrer.
type Mirrored struct {
	Source, Target string
	Done           bool             // the object did its part before
	Good, Bad      string           // reasons, while the object has no such condition
	Awaited        string           // message until it is done
	Lacks          string           // a field that it has not set although it reports completion
	Absent         metav1.Condition // while there is no object to read
}

// Mirror copies a condition of the object.
func (o Object) Mirror(m Mirrored) metav1.Condition {
	switch {
	case o.Held:
		return conditions.New(m.Target, metav1.ConditionFalse, m.Bad, o.Err)
	case o.Err != "":
		return conditions.New(m.Target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, o.Err)
	case o.Obj == nil:
		m.Absent.Type = m.Target
		return m.Absent
	case m.Lacks != "":
		return conditions.New(m.Target, metav1.ConditionFalse, m.Bad, fmt.Sprintf("Waiting for %s to set %s", o, m.Lacks))
	}
	reported, err := conditions.FromUnstructured(o.Obj)
	if err != nil {
		return conditions.New(m.Target, metav1.ConditionUnknown, clusterv1.InvalidConditionReportedReason, err.Error())
	}
	fallback := conditions.New("", metav1.ConditionFalse, m.Bad, m.Awaited)
	if m.Done {
		fallback = conditions.New("", metav1.ConditionTrue, m.Good, "")
	}
	return fit(conditions.Mirror(reported, m.Source, m.Target, fallback), m.Good)
}

// reason is the API's pattern for a reason.
var reason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Limits of the API for a reason, and for a message in v1beta1 too.
const (
	maxReason  = 1024
	maxMessage = 10240
)

// fit converts a condition so that the API accepts it. Conditions of the older contract
// have a reason only if they are not true, and follow neither pattern nor limits.
func fit(c metav1.Condition, good string) metav1.Condition {
	if len(c.Reason) > maxReason || !reason.MatchString(c.Reason) {
		c.Reason, c.Message = conditions.NoReasonReportedReason, c.Reason+": "+c.Message
	}
	if c.Status == metav1.ConditionTrue && c.Reason == conditions.NoReasonReportedReason {
		c.Reason = good
	}
	if len(c.Message) > maxMessage {
		c.Message = sanitize.Line(c.Message, maxMessage)
	}
	return c
}

// NoteFailure copies the failures of objects, as contract.Failure defines them, to the
// two fields of a status; of several, the last. The fields stay until another failure is
// reported.
func NoteFailure(reason, message **string, objects ...Object) {
	note := func(field **string, value string) {
		if value != "" {
			*field = &value
		}
	}
	for _, o := range objects {
		if o.Obj != nil {
			r, m := contract.AnyFailure().Of(o.Obj)
			note(reason, r)
			note(message, m)
		}
	}
}
