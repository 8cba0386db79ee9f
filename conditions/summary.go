// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SummaryOptions say what a summary looks at.
type SummaryOptions struct {
	// Types are the conditions to summarise, in the order of the message.
	Types []string
	// Negative are those types for which True is the bad news, as Deleting.
	Negative []string
	// Optional are those types that do not count while they are absent.
	Optional []string
	// Overrides take the place of the conditions of the same type.
	Overrides []metav1.Condition
	// Priority decides for single conditions, when it is not nil and its
	// second result is true.
	Priority func(metav1.Condition) (Priority, bool)
	// Join may turn the conditions that the message is made of into fewer,
	// for instance to put those of one component under one head.
	Join func([]metav1.Condition) []metav1.Condition
	// Reasons of the summary.
	Reasons Reasons
	// NegativeTarget makes the summary True when there is an issue.
	NegativeTarget bool
}

// Summary makes one condition of many conditions of one object. One issue makes
// it bad; failing that, one unknown makes it Unknown. A condition that is
// absent and not optional is unknown. The message lists what is not good; when
// all is good, what still has something to say.
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
