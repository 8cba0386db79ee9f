// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxNames is how many objects, and how many messages, an aggregate names.
const maxNames = 3

// Object is one of the objects that an aggregate reads.
type Object struct {
	Kind, Name string
	Conditions []metav1.Condition
}

// GetConditions implements Getter.
func (o Object) GetConditions() []metav1.Condition { return o.Conditions }

// Objects builds the input of Aggregate from objects of one kind.
func Objects[T interface {
	Getter
	GetName() string
}](kind string, objects ...T) []Object {
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, Object{kind, o.GetName(), o.GetConditions()})
	}
	return out
}

// AggregateOptions define how conditions of many objects become one.
type AggregateOptions struct {
	// Negative means that True is the bad status, in the source and the target.
	Negative bool
	// Reasons of the aggregate.
	Reasons Reasons
	// Empty is the condition to return when there are no objects.
	Empty metav1.Condition
}

// Aggregate computes one condition from the condition source of many objects. One issue
// makes it bad; otherwise, one unknown makes it Unknown; an object without the condition
// is unknown. Equal messages are grouped, the message shared by most objects first, and
// at most three objects are named for each.
func Aggregate(objects []Object, source, target string, o AggregateOptions) metav1.Condition {
	if len(objects) == 0 {
		c := o.Empty
		c.Type = target
		return c
	}
	worst := Info
	byPriority := map[Priority][]told{}
	for _, obj := range objects {
		c := find(obj.GetConditions(), source)
		if c == nil {
			c = new(notYetReported(source))
		}
		p := priorityOf(c.Status, o.Negative)
		worst = min(worst, p)
		if p == Info && c.Message == "" {
			continue
		}
		byPriority[p] = append(byPriority[p], told{obj.Kind, obj.Name, cmp.Or(c.Message, "No additional info provided")})
	}
	var lines []string
	if worst == Info {
		lines, _ = grouped(byPriority[Info], maxNames, "with additional info")
	} else {
		issues, left := grouped(byPriority[Issue], maxNames, "with other issues")
		unknowns, _ := grouped(byPriority[Unknown], left, "with status unknown")
		lines = append(issues, unknowns...)
	}
	return metav1.Condition{
		Type: target, Status: statusOf(worst, o.Negative), Reason: o.Reasons.of(worst),
		Message: strings.Join(lines, "\n"),
	}
}

// told is the message of one object.
type told struct{ kind, name, message string }

// group is a message with the objects of one kind that have it.
type group struct {
	kind, message string
	names         []string
}

// grouped returns a line for each of at most room messages, one that counts the objects
// of all others, and how much room is left.
func grouped(all []told, room int, others string) (lines []string, left int) {
	var groups []group
	index := map[[2]string]int{} // thousands of objects may each have their own message
	for _, t := range all {
		key := [2]string{t.kind, t.message}
		at, known := index[key]
		if !known {
			at = len(groups)
			groups = append(groups, group{kind: t.kind, message: t.message})
			index[key] = at
		}
		groups[at].names = append(groups[at].names, t.name)
	}
	for _, g := range groups {
		slices.Sort(g.names)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.names), len(a.names)), cmp.Compare(a.names[0], b.names[0]), cmp.Compare(a.kind, b.kind))
	})
	shown := min(room, len(groups))
	for _, g := range groups[:shown] {
		lines = append(lines, item(g.head(), g.message))
	}
	rest := map[string]int{}
	for _, g := range groups[shown:] {
		rest[g.kind] += len(g.names)
	}
	for _, kind := range slices.Sorted(maps.Keys(rest)) {
		lines = append(lines, fmt.Sprintf("And %d %s %s", rest[kind], plural(kind, rest[kind]), others))
	}
	return lines, room - shown
}

func (g group) head() string {
	head := plural(g.kind, len(g.names)) + " " + Names(g.names)
	return strings.TrimSpace(head)
}

// Names lists names for a message: at most three, and how many more there are.
func Names(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, ... (%d more)", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Count is how many there are of a kind, in words: 1 Machine, 2 Machines.
func Count(n int, kind string) string { return fmt.Sprintf("%d %s", n, plural(kind, n)) }

func plural(kind string, n int) string {
	if n == 1 || kind == "" {
		return kind
	}
	return kind + "s"
}
