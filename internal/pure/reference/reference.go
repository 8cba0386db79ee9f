// SPDX-License-Identifier: Apache-2.0

// Package reference tells what is known of an object that another refers to,
// and how to show it in a status.
package reference

import (
	"fmt"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/plaintext"
)

// Object is an object of a provider that another object refers to.
type Object struct {
	Ref   clusterv1.ContractVersionedObjectReference
	Field string // that holds the reference, as users write it
	// Obj is nil if there is none, if it was not looked for, or if it belongs to
	// somebody else.
	Obj     *unstructured.Unstructured
	Missing bool   // looked for, and not there
	Held    bool   // by somebody else, as Err tells
	Err     string // why it cannot be used
}

// String names the object for messages.
func (o Object) String() string { return o.Ref.Kind + " " + o.Ref.Name }

// Defined reports whether there is a reference.
func (o Object) Defined() bool { return o.Ref.IsDefined() }

// Hindrance says why the object cannot be used; empty if it can, or was not
// looked for.
func (o Object) Hindrance() string {
	if o.Missing {
		return fmt.Sprintf("%s, named by %s, does not exist: create it, or correct the reference", o, o.Field)
	}
	return o.Err
}

// Mirrored says how to show a condition of an object on what refers to it.
type Mirrored struct {
	Source, Target string
	Done           bool             // the object has done its part at least once
	Good, Bad      string           // reasons, while the object has no such condition
	Awaited        string           // message until it is done
	Lacks          string           // a field that it has not set, though it says that it is done
	Absent         metav1.Condition // while there is no object to read
}

// Mirror shows a condition of the object.
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

// reason is what the API takes as one.
var reason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// Bounds of the API for a reason, and for a message in v1beta1 too.
const (
	maxReason  = 1024
	maxMessage = 10240
)

// fit makes a condition such as the API takes it. Those of the older contract say
// why only when they are not true, and have neither form nor bounds.
func fit(c metav1.Condition, good string) metav1.Condition {
	if len(c.Reason) > maxReason || !reason.MatchString(c.Reason) {
		c.Reason, c.Message = conditions.NoReasonReportedReason, c.Reason+": "+c.Message
	}
	if c.Status == metav1.ConditionTrue && c.Reason == conditions.NoReasonReportedReason {
		c.Reason = good
	}
	if len(c.Message) > maxMessage {
		c.Message = plaintext.Line(c.Message, maxMessage)
	}
	return c
}

// NoteFailure shows what objects report of failures, as contract.Failure has it,
// in the two fields of a status; of several, the last. What is shown stays until
// something else is reported.
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
