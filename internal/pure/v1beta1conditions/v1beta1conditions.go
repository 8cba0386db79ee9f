// SPDX-License-Identifier: Apache-2.0

// Package v1beta1conditions builds conditions in the form of v1beta1, for
// status.deprecated.v1beta1: clients of that version read only these.
//
//   - Every condition is positive: True is good. The severity says how bad a False
//     condition is.
//   - Set stores conditions, Ready and Merge combine several into one, Mirror copies
//     that of another object, Aggregate combines those of many objects.
//   - The worst of several conditions determines the result: first False, by severity,
//     then True, then Unknown.
//
// A condition that a provider reports as False without a severity, as in the newer form,
// counts as Info: upstream ignores it in a summary, and reports an object as ready that
// is not.
package v1beta1conditions

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Limits of the API for a condition.
const (
	maxReason  = 256
	maxMessage = 10240
)

// True returns a condition that is True.
func True(t clusterv1.ConditionType) clusterv1.Condition {
	return clusterv1.Condition{Type: t, Status: corev1.ConditionTrue}
}

// False returns a condition that is False.
func False(t clusterv1.ConditionType, severity clusterv1.ConditionSeverity, reason, message string) clusterv1.Condition {
	return clusterv1.Condition{Type: t, Status: corev1.ConditionFalse, Severity: severity, Reason: reason, Message: message}
}

// Unknown returns a condition whose state is not known.
func Unknown(t clusterv1.ConditionType, reason, message string) clusterv1.Condition {
	return clusterv1.Condition{Type: t, Status: corev1.ConditionUnknown, Reason: reason, Message: message}
}

// Failure is a v1beta1 reason for a failed operation, with a message that is the same at
// the next attempt: each change of it is a write.
type Failure struct{ Reason, Message string }

// Get returns a copy of the condition of a type, or nil when there is none.
func Get(list clusterv1.Conditions, t clusterv1.ConditionType) *clusterv1.Condition {
	if i := index(list, t); i >= 0 {
		return new(list[i])
	}
	return nil
}

func index(list clusterv1.Conditions, t clusterv1.ConditionType) int {
	return slices.IndexFunc(list, func(c clusterv1.Condition) bool { return c.Type == t })
}

// None means that there is no condition of a type.
func None(t clusterv1.ConditionType) clusterv1.Condition { return clusterv1.Condition{Type: t} }

// Set returns the list with the conditions set, and without those that are None. The
// time of the last transition is the one given, or now, and is unchanged while status,
// severity, reason and message are. The list is sorted, Ready first.
func Set(list clusterv1.Conditions, now time.Time, all ...clusterv1.Condition) clusterv1.Conditions {
	out := slices.Clone(list)
	for _, c := range all {
		c.Reason, c.Message = sanitize.Line(c.Reason, maxReason), short(c.Message)
		at := index(out, c.Type)
		if at < 0 {
			at = len(out)
			out = append(out, clusterv1.Condition{})
		}
		switch {
		case same(out[at], c):
			c.LastTransitionTime = out[at].LastTransitionTime
		case c.LastTransitionTime.IsZero():
			c.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second)) // the wire has whole seconds
		}
		out[at] = c
	}
	out = slices.DeleteFunc(out, func(c clusterv1.Condition) bool { return c.Status == "" })
	slices.SortStableFunc(out, inOrder)
	return out
}

func same(a, b clusterv1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Severity == b.Severity && a.Reason == b.Reason &&
		a.Message == b.Message && !a.LastTransitionTime.IsZero()
}

func short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return sanitize.Line(message, maxMessage)
}

// inOrder puts Ready first, and sorts the others by name.
func inOrder(a, b clusterv1.Condition) int {
	rank := func(c clusterv1.Condition) int {
		if c.Type == clusterv1.ReadyV1Beta1Condition {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Type, b.Type))
}

// From converts a current condition, nil if there is none, to v1beta1. If it is False,
// its severity is the one given; its reason is looked up in reasons, and unchanged if
// not found.
func From(c *metav1.Condition, t clusterv1.ConditionType, severity clusterv1.ConditionSeverity, reasons map[string]string) clusterv1.Condition {
	if c == nil {
		return None(t)
	}
	reason, ok := reasons[c.Reason]
	if !ok {
		reason = c.Reason
	}
	switch c.Status {
	case metav1.ConditionTrue:
		return True(t)
	case metav1.ConditionFalse:
		return False(t, severity, reason, c.Message)
	}
	return Unknown(t, reason, c.Message)
}

// OfMachine is the v1beta1 status of a Machine. Several controllers set conditions in
// it.
func OfMachine(m *clusterv1.Machine) clusterv1.MachineV1Beta1DeprecatedStatus {
	return ptr.Deref(ptr.Deref(m.Status.Deprecated, clusterv1.MachineDeprecatedStatus{}).V1Beta1, clusterv1.MachineV1Beta1DeprecatedStatus{})
}

// SetMachine sets conditions of a Machine.
func SetMachine(m *clusterv1.Machine, now time.Time, all ...clusterv1.Condition) {
	st := OfMachine(m)
	if st.Conditions = Set(st.Conditions, now, all...); len(st.Conditions) == 0 && m.Status.Deprecated == nil {
		return // nothing to set
	}
	m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &st}
}

// AggregateMachines is the Aggregate of Machines.
func AggregateMachines(t clusterv1.ConditionType, machines []*clusterv1.Machine) clusterv1.Condition {
	children := make([]Child, 0, len(machines))
	for _, m := range machines {
		children = append(children, Child{m.Name, OfMachine(m).Conditions})
	}
	return Aggregate(t, "Machine", children)
}
