// SPDX-License-Identifier: Apache-2.0

package v1beta1conditions

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
)

// Merge combines conditions, in order of precedence, into one of type t: the first of
// the worst. With steps, its message reports how many of them are completed, instead of
// the message of the worst. Without conditions it is None.
func Merge(t clusterv1.ConditionType, steps int, parts ...clusterv1.Condition) clusterv1.Condition {
	worst, completed := None(t), 0
	for _, c := range parts {
		if c.Status == corev1.ConditionTrue {
			completed++
		}
		if worst.Status == "" || badness(c) > badness(worst) {
			worst = c
		}
	}
	if worst.Status == corev1.ConditionTrue {
		return True(t)
	}
	worst.Type, worst.LastTransitionTime = t, metav1.Time{}
	if steps > 0 {
		worst.Message = counted(completed, steps)
	}
	return worst
}

// badness is the rank of a condition among others.
func badness(c clusterv1.Condition) int {
	switch {
	case c.Status == corev1.ConditionTrue:
		return 1
	case c.Status != corev1.ConditionFalse:
		return 0
	case c.Severity == clusterv1.ConditionSeverityError:
		return 4
	case c.Severity == clusterv1.ConditionSeverityWarning:
		return 3
	}
	return 2
}

// Ready summarizes those conditions of the list that have these types, as Ready.
func Ready(list clusterv1.Conditions, steps int, types ...clusterv1.ConditionType) clusterv1.Condition {
	var parts []clusterv1.Condition
	for _, t := range types {
		if c := Get(list, t); c != nil {
			parts = append(parts, *c)
		}
	}
	return Merge(clusterv1.ReadyV1Beta1Condition, steps, parts...)
}

// Child is one of the objects of an aggregate.
type Child struct {
	Name       string
	Conditions clusterv1.Conditions
}

// Aggregate combines Ready of children of one kind into a condition. Its reason names
// the first child, by name, of the worst, and its message counts the ready ones.
// Children without the condition only count toward the total; if none has it, the result
// is None. Without children it is True.
func Aggregate(t clusterv1.ConditionType, kind string, children []Child) clusterv1.Condition {
	if len(children) == 0 {
		return True(t)
	}
	worst, first, completed := None(t), "", 0
	for _, child := range children {
		i := index(child.Conditions, clusterv1.ReadyV1Beta1Condition)
		if i < 0 {
			continue
		}
		c := &child.Conditions[i]
		if c.Status == corev1.ConditionTrue {
			completed++
		}
		if is, was := badness(*c), badness(worst); worst.Status == "" || is > was || is == was && child.Name < first {
			worst, first = *c, child.Name
		}
	}
	switch {
	case worst.Status == "":
		return None(t)
	case worst.Status == corev1.ConditionTrue:
		return True(t)
	case worst.Reason != "" && !strings.Contains(worst.Reason, " @ "):
		worst.Reason += " @ " + kind + "/" + first
	}
	worst.Type, worst.LastTransitionTime = t, metav1.Time{}
	worst.Message = counted(completed, len(children))
	return worst
}

func counted(completed, steps int) string { return fmt.Sprintf("%d of %d completed", completed, steps) }

// Mirror copies Ready of an object to a condition. An object that does not report it is
// ready once it is done; until then, awaited is the reason.
func Mirror(t clusterv1.ConditionType, from *unstructured.Unstructured, done bool, awaited string) clusterv1.Condition {
	if c := contract.Ready(from); c != nil {
		c.Type = t
		return *c
	}
	return Done(t, done, awaited)
}

// Done is True once something is done; until then, awaited is the reason.
func Done(t clusterv1.ConditionType, done bool, awaited string) clusterv1.Condition {
	if done {
		return True(t)
	}
	return False(t, clusterv1.ConditionSeverityInfo, awaited, "")
}
