// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SummaryOptions configure a summary.
type SummaryOptions struct {
	// Types are the conditions to summarize, in the order of the message.
	Types []string
	// Negative are those types for which True is the bad status, such as Deleting.
	Negative []string
	// Optional are those types that do not count while they are absent.
	Optional []string
	// Overrides replace the conditions of the same type.
	Overrides []metav1.Condition
	// Priority decides for single conditions, when it is not nil and its
	// second result is true.
	Priority func(metav1.Condition) (Priority, bool)
	// Join may merge the conditions that the message is built from, for example those of
	// one component under one heading.
	Join func([]metav1.Condition) []metav1.Condition
	// Reasons of the summary.
	Reasons Reasons
	// NegativeTarget makes the summary True when there is an issue.
	NegativeTarget bool
}

// Summary computes one condition from many conditions of one object. One issue makes it
// bad; otherwise, one unknown makes it Unknown. A condition that is absent and not
// optional is unknown. The message lists what is not good; when all is good, the
// remaining messages.
func Summary(of Getter, target string, o SummaryOptions) metav1.Condition {
	worst := Info
	var merged []metav1.Condition
	priorities := map[string]Priority{}
	for _, t := range o.Types {
		c := find(o.Overrides, t)
		if c == nil {
			c = find(of.GetConditions(), t)
		}
		if c == nil {
			if slices.Contains(o.Optional, t) {
				continue
			}
			c = new(notYetReported(t))
		}
		p := o.priority(*c)
		worst = min(worst, p)
		priorities[t] = p
		merged = append(merged, *c)
	}
	if len(merged) == 0 {
		worst = Unknown
	}
	return metav1.Condition{
		Type: target, Status: statusOf(worst, o.NegativeTarget), Reason: o.Reasons.of(worst),
		Message: o.message(merged, priorities, worst),
	}
}

func (o SummaryOptions) priority(c metav1.Condition) Priority {
	if o.Priority != nil {
		if p, ok := o.Priority(c); ok {
			return p
		}
	}
	return priorityOf(c.Status, slices.Contains(o.Negative, c.Type))
}

func (o SummaryOptions) message(merged []metav1.Condition, priorities map[string]Priority, worst Priority) string {
	shown := slices.DeleteFunc(merged, func(c metav1.Condition) bool {
		return priorities[c.Type] == Info && (worst != Info || c.Message == "")
	})
	if o.Join != nil {
		shown = o.Join(shown)
	}
	var lines []string
	for _, c := range shown {
		message := c.Message
		if message == "" {
			message = "No additional info provided"
		}
		lines = append(lines, item(c.Type, message))
	}
	return strings.Join(lines, "\n")
}
