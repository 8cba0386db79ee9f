// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"fmt"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// invalidConfiguration is the failureReason of what has lost an object that it
// refers to.
const invalidConfiguration = "InvalidConfiguration"

// NoteGone shows that the object has been deleted under what needs it, in the two
// fields of its status. It stays until something else is reported.
func (o Object) NoteGone(reason, message **string, needs string) {
	*reason = new(invalidConfiguration)
	*message = new(fmt.Sprintf("%s has been deleted while the %s still exists", o, needs))
}

// Deprecated says how to show Ready of an object to clients of v1beta1.
type Deprecated struct {
	Target   clusterv1.ConditionType
	Done     bool   // the object has done its part at least once
	Awaited  string // the reason until it has
	Deleting bool   // what refers to it is being deleted
}

// Deprecated shows Ready of the object; was is what was shown before.
func (o Object) Deprecated(l Deprecated, was clusterv1.Conditions) clusterv1.Condition {
	const failed, info = clusterv1.ConditionSeverityError, clusterv1.ConditionSeverityInfo
	switch old := v1beta1conditions.Get(was, l.Target); {
	case o.Err != "":
		return v1beta1conditions.False(l.Target, failed, clusterv1.IncorrectExternalRefV1Beta1Reason, o.Err)
	case o.Missing && l.Deleting:
		return v1beta1conditions.False(l.Target, info, clusterv1.DeletedV1Beta1Reason, "")
	case o.Missing && l.Done:
		return v1beta1conditions.False(l.Target, failed, clusterv1.DeletedV1Beta1Reason, o.String()+" has been deleted")
	case o.Missing:
		return v1beta1conditions.False(l.Target, info, l.Awaited, o.Problem())
	case o.Obj != nil && l.Deleting:
		return v1beta1conditions.Mirror(l.Target, o.Obj, false, clusterv1.DeletingV1Beta1Reason)
	case o.Obj != nil:
		return v1beta1conditions.Mirror(l.Target, o.Obj, l.Done, l.Awaited)
	case old != nil:
		return *old
	}
	return v1beta1conditions.Done(l.Target, l.Done, l.Awaited)
}
