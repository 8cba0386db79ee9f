// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

const (
	succeeded  = clusterv1.MachineHealthCheckSucceededCondition
	byOwner    = clusterv1.MachineOwnerRemediatedCondition
	externally = clusterv1.MachineExternallyRemediatedCondition
)

// Action is what is to be done about one Machine.
type Action struct {
	Machine *clusterv1.Machine
	Set     []metav1.Condition
	Drop    []string // types of conditions
	// Anew says that HealthCheckSucceeded is of now, though it said so before:
	// owners follow no verdict from before the connection.
	Anew    bool
	Request Request
	// Marked says why the Machine is found unhealthy, if it was not before.
	Marked string
}

// Request is what is to become of the request to an external controller.
type Request int

// What may become of it.
const (
	Leave Request = iota
	Make
	Remove
)

func (a Action) does() bool { return len(a.Set) > 0 || len(a.Drop) > 0 || a.Request != Leave }

// Failed is the action if the request could not be made.
func (a Action) Failed(err error) Action {
	for i, c := range a.Set {
		if c.Type == externally {
			a.Set = slices.Clone(a.Set)
			a.Set[i].Reason, a.Set[i].Message = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason, err.Error()
		}
	}
	return a
}

// act says what follows from a verdict.
func (f Facts) act(v Verdict, l Limit) Action {
	a := Action{Machine: v.Machine}
	switch m := v.Machine; {
	case v.State == Leaving, v.State == Unjudged, ReportsOnly(f.Check):
	case v.State == Healthy:
		a.Set = []metav1.Condition{conditions.New(succeeded, metav1.ConditionTrue, clusterv1.MachineHealthCheckSucceededReason, "")}
		a.Drop = append(waiting(m), externally)
		if f.Observed[m.Name].Requested {
			a.Request = Remove
		}
	case v.State == Unknown:
		a.Set = []metav1.Condition{conditions.New(succeeded, metav1.ConditionUnknown, clusterv1.MachineHealthCheckConnectionDownReason, v.Message)}
	case v.State == Unhealthy:
		a = f.remediate(v, l)
	case conditions.Has(m, succeeded) && !conditions.IsTrue(m, succeeded):
		// Nothing has lasted for too long, by what is known now.
		a.Set = []metav1.Condition{conditions.New(succeeded, metav1.ConditionUnknown, clusterv1.MachineHealthCheckWaitingForNewsReason, cmp.Or(v.Message, "Waiting for a Node"))}
	}
	a.Set, a.Drop = a.news(), present(v.Machine, a.Drop)
	return a
}

// remediate has an unhealthy Machine remediated, if that is allowed now. What
// was asked for before and has not begun is taken back if it is not.
func (f Facts) remediate(v Verdict, l Limit) Action {
	a := Action{Machine: v.Machine, Set: []metav1.Condition{conditions.New(succeeded, metav1.ConditionFalse, v.Reason, v.Message)}}
	if !conditions.IsFalse(v.Machine, succeeded) {
		a.Marked = v.Message
	} else {
		a.Anew = v.Reason != clusterv1.MachineHealthCheckHasRemediateAnnotationReason && stale(v.Machine, f.Check, f.Cluster, f.Connection.Answering)
	}
	external := f.Check.Spec.Remediation.TemplateRef
	switch {
	case l.Exceeded != "":
		a.Drop = begun(v.Machine)
	case external.IsDefined() && f.Template != "":
		a.Set = append(a.Set, conditions.New(externally, metav1.ConditionFalse, clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, f.Template))
		a.Drop = before(v.Machine)
	case external.IsDefined():
		a.Drop = before(v.Machine)
		if requested := f.Observed[v.Machine.Name].Requested; !requested || unasked(v.Machine) {
			a.Set = append(a.Set, conditions.New(externally, metav1.ConditionFalse, clusterv1.MachineExternallyRemediatedWaitingForRemediationReason, "Waiting for remediation: "+v.Message))
			if !requested {
				a.Request = Make
			}
		}
	default:
		a.Drop = []string{externally}
		if !conditions.IsFalse(v.Machine, byOwner) {
			a.Set = append(a.Set, conditions.New(byOwner, metav1.ConditionFalse, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, "Waiting for remediation: "+v.Message))
		}
	}
	return a
}

// unasked reports whether a Machine does not say yet that an external controller was
// asked. What that controller says stands.
func unasked(m *clusterv1.Machine) bool {
	switch conditions.Reason(m, externally) {
	case "", clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason:
		return true
	}
	return false
}

// withdrawn are the conditions by which a Machine would be remediated.
func withdrawn(m *clusterv1.Machine) []string {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	return append(begun(m), succeeded, externally)
}

// begun is the request to the owner, unless it has begun to follow it.
func begun(m *clusterv1.Machine) []string {
	if conditions.Reason(m, byOwner) == clusterv1.MachineSetMachineRemediationMachineDeletingReason {
		return nil
	}
	return []string{byOwner}
}

// before is the request to the owner from before there was one to an external
// controller. What that one asks of the owner later is its affair.
func before(m *clusterv1.Machine) []string {
	if conditions.Has(m, externally) {
		return nil
	}
	return begun(m)
}

// waiting is the request to the owner, if it has not looked at it: what it has
// written itself it takes away itself.
func waiting(m *clusterv1.Machine) []string {
	if conditions.Reason(m, byOwner) != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		return nil
	}
	return []string{byOwner}
}

// news are the conditions that the Machine does not have as they are.
func (a Action) news() []metav1.Condition {
	return slices.DeleteFunc(a.Set, func(c metav1.Condition) bool {
		is := conditions.Get(a.Machine, c.Type)
		return is != nil && conditions.SameState(*is, c) && !(a.Anew && c.Type == succeeded)
	})
}

// present are the conditions that a Machine has.
func present(m *clusterv1.Machine, types []string) []string {
	return slices.DeleteFunc(types, func(t string) bool { return !conditions.Has(m, t) })
}
