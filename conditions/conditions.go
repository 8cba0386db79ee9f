// SPDX-License-Identifier: Apache-2.0

// Package conditions sets, mirrors, summarizes and aggregates the conditions of objects.
//
// There are four ways to create a condition, and a controller needs no other:
//
//   - Set stores one that the caller wrote;
//   - Mirror shows a condition of one object on another;
//   - Summary turns many conditions of one object into one;
//   - Aggregate turns one condition of many objects into one.
//
// All functions are pure: the time is a parameter.
package conditions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons for a missing condition or reason.
const (
	// NotYetReportedReason means that the condition is expected but does not exist.
	NotYetReportedReason = "NotYetReported"
	// NoReasonReportedReason replaces the reason of a condition without one.
	NoReasonReportedReason = "NoReasonReported"
)

// maxMessage is the maximum length of a message in the API, in bytes. One that is longer
// would have the API reject the whole status. more ends what was cut.
const (
	maxMessage = 32768
	more       = " …"
)

// Getter is an object that has conditions.
type Getter interface {
	GetConditions() []metav1.Condition
}

// Setter is an object whose conditions can be replaced.
type Setter interface {
	Getter
	SetConditions(conditions []metav1.Condition)
}

// List is a bare list of conditions, for use without an object.
type List []metav1.Condition

// GetConditions implements Getter.
func (l List) GetConditions() []metav1.Condition { return l }

// New returns a condition for Set.
func New(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message}
}

// Get returns a copy of the condition of a type, or nil if it does not exist.
func Get(from Getter, conditionType string) *metav1.Condition {
	if c := find(from.GetConditions(), conditionType); c != nil {
		return new(*c)
	}
	return nil
}

// find returns the condition of a type in the list. Each reconcile calls it dozens of
// times: it copies nothing.
func find(list []metav1.Condition, conditionType string) *metav1.Condition {
	for i := range list {
		if list[i].Type == conditionType {
			return &list[i]
		}
	}
	return nil
}

// Has reports whether the condition of a type exists.
func Has(from Getter, conditionType string) bool {
	return find(from.GetConditions(), conditionType) != nil
}

// IsTrue reports whether the condition exists and is True.
func IsTrue(from Getter, conditionType string) bool {
	return is(from, conditionType, metav1.ConditionTrue)
}

// IsFalse reports whether the condition exists and is False.
func IsFalse(from Getter, conditionType string) bool {
	return is(from, conditionType, metav1.ConditionFalse)
}

// IsUnknown reports whether the condition is Unknown or does not exist.
func IsUnknown(from Getter, conditionType string) bool {
	return !Has(from, conditionType) || is(from, conditionType, metav1.ConditionUnknown)
}

func is(from Getter, conditionType string, status metav1.ConditionStatus) bool {
	c := find(from.GetConditions(), conditionType)
	return c != nil && c.Status == status
}

// Reason returns the reason of a condition, empty if it does not exist.
func Reason(from Getter, conditionType string) string {
	if c := find(from.GetConditions(), conditionType); c != nil {
		return c.Reason
	}
	return ""
}

// Message returns the message of a condition, empty if it does not exist.
func Message(from Getter, conditionType string) string {
	if c := find(from.GetConditions(), conditionType); c != nil {
		return c.Message
	}
	return ""
}

// Set stores a condition. The time of the last transition does not change while the
// status does not; when the status changes, it is the one given in c, or now. An observed
// generation of zero in c retains the stored one. The list is sorted, so that equal
// conditions are equal lists.
func Set(to Setter, now time.Time, c metav1.Condition) {
	list := to.GetConditions()
	at := slices.IndexFunc(list, func(old metav1.Condition) bool { return old.Type == c.Type })
	var old metav1.Condition
	if at >= 0 {
		old = list[at]
	}
	switch {
	case old.Status == c.Status && !old.LastTransitionTime.IsZero():
		c.LastTransitionTime = old.LastTransitionTime
	case c.LastTransitionTime.IsZero():
		// The wire format has whole seconds; a finer time would differ from what is read
		// back.
		c.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	}
	if c.ObservedGeneration == 0 {
		c.ObservedGeneration = old.ObservedGeneration
	}
	if c.Reason == "" {
		c.Reason = NoReasonReportedReason
	}
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage-len(more)], "") + more
	}
	switch {
	case at >= 0 && c == old && slices.IsSortedFunc(list, inOrder):
		return // most conditions that a reconcile sets are unchanged
	case at >= 0:
		list = slices.Clone(list)
		list[at] = c
	default:
		list = append(slices.Clip(list), c)
	}
	slices.SortStableFunc(list, inOrder)
	to.SetConditions(list)
}

// Delete removes the condition of a type, if it exists.
func Delete(from Setter, conditionType string) {
	if !Has(from, conditionType) {
		return
	}
	from.SetConditions(slices.DeleteFunc(slices.Clone(from.GetConditions()), func(c metav1.Condition) bool {
		return c.Type == conditionType
	}))
}

// SameState reports whether two conditions are equal except for their times.
func SameState(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason &&
		a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}

// rank orders the list: the conditions that users check first are first, those of little
// interest last, all others by name in between.
var rank = map[string]int{
	"Available": -3, "Ready": -2, "UpToDate": -1,
	"RollingOut": 1, "ScalingUp": 2, "ScalingDown": 3, "Remediating": 4, "Updating": 5, "Deleting": 6, "Paused": 7,
}

func inOrder(a, b metav1.Condition) int {
	return cmp.Or(cmp.Compare(rank[a.Type], rank[b.Type]), cmp.Compare(a.Type, b.Type))
}
