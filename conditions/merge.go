// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons are the three reasons of a merged condition.
type Reasons struct {
	Issue   string // at least one merged condition is an issue
	Unknown string // none is an issue, at least one is unknown
	Info    string // neither
}

// Priority is the importance of a condition when it is merged with others.
type Priority int

// The priorities, the most pressing first.
const (
	Issue Priority = iota
	Unknown
	Info
)

// priorityOf returns the priority of a status: False is an issue, unless the
// condition has negative polarity, where True is.
func priorityOf(status metav1.ConditionStatus, negative bool) Priority {
	good := metav1.ConditionTrue
	if negative {
		good = metav1.ConditionFalse
	}
	switch status {
	case good:
		return Info
	case metav1.ConditionTrue, metav1.ConditionFalse:
		return Issue
	default:
		return Unknown
	}
}

// statusOf is the reverse: the status that a condition of some polarity has
// when the worst of what it merges has priority p.
func statusOf(p Priority, negative bool) metav1.ConditionStatus {
	switch {
	case p == Unknown:
		return metav1.ConditionUnknown
	case (p == Info) != negative:
		return metav1.ConditionTrue
	default:
		return metav1.ConditionFalse
	}
}

func (r Reasons) of(p Priority) string {
	return [...]string{Issue: r.Issue, Unknown: r.Unknown, Info: r.Info}[p]
}

// item is one line of a bullet list; a message that is a list itself, or has many
// lines, is placed below it.
func item(head, message string) string {
	if !strings.Contains(message, "\n") && !strings.HasPrefix(message, "* ") {
		return "* " + head + ": " + message
	}
	return "* " + head + ":\n  " + strings.ReplaceAll(message, "\n", "\n  ")
}
