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

// Action is the change to one Machine.
type Action struct {
	Machine *clusterv1.Machine
	Set     []metav1.Condition
	Drop    []string // types of conditions to delete
	// Again says that HealthCheckSucceeded gets a new time although its state is
	// unchanged: owners ignore a result from before the connection.
	Again   bool
	Request Request
	// Marked is why the Machine is unhealthy, if it was healthy before.
	Marked string
}

// Request is the change to the request to an external controller.
type Request int

// The changes to a request.
const (
	Leave Request = iota
	Make
	Remove
)

func (a Action) does() bool { return len(a.Set) > 0 || len(a.Drop) > 0 || a.Request != Leave }

// Failed is the action if the request could not be created.
func (a Action) Failed(err error) Action {
	for i, c := range a.Set {
		if c.Type == externally {
			a.Set = slices.Clone(a.Set)
			a.Set[i].Reason, a.Set[i].Message = clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason, err.Error()
		}
	}
	return a
}

// act returns the action that follows from the result for a target.
func (f Facts) act(v Result, l Limit) Action {
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
		// No timeout has expired, as far as is known now.
		a.Set = []metav1.Condition{conditions.New(succeeded, metav1.ConditionUnknown, clusterv1.MachineHealthCheckWaitingForNewsReason, cmp.Or(v.Message, "Waiting for a Node"))}
	}
	a.Set, a.Drop = a.changed(), present(v.Machine, a.Drop)
	return a
}

// remediate requests the remediation of an unhealthy Machine, if that is allowed now. If
// it is not, a request that the owner has not started to execute is withdrawn.
func (f Facts) remediate(v Result, l Limit) Action {
	a := Action{Machine: v.Machine, Set: []metav1.Condition{conditions.New(succeeded, metav1.ConditionFalse, v.Reason, v.Message)}}
	if !conditions.IsFalse(v.Machine, succeeded) {
		a.Marked = v.Message
	} else {
		a.Again = v.Reason != clusterv1.MachineHealthCheckHasRemediateAnnotationReason && stale(v.Machine, f.Check, f.Cluster, f.Connection.Answering)
	}
	external := f.Check.Spec.Remediation.TemplateRef
	switch {
	case l.Exceeded != "":
		a.Drop = pendingRequest(v.Machine)
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

// unasked reports whether the Machine does not report a request to an external
// controller yet. A condition that the external controller set is not overwritten.
func unasked(m *clusterv1.Machine) bool {
	switch conditions.Reason(m, externally) {
	case "", clusterv1.MachineExternallyRemediatedRemediationTemplateNotFoundReason, clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason:
		return true
	}
	return false
}

// withdrawn are the conditions that request the remediation of a Machine.
func withdrawn(m *clusterv1.Machine) []string {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	return append(pendingRequest(m), succeeded, externally)
}

// pendingRequest is the request to the owner, unless the owner has started to execute it.
func pendingRequest(m *clusterv1.Machine) []string {
	if conditions.Reason(m, byOwner) == clusterv1.MachineSetMachineRemediationMachineDeletingReason {
		return nil
	}
	return []string{byOwner}
}

// before is the request to the owner from before there was one to an external
// controller. Later requests to the owner belong to that controller.
func before(m *clusterv1.Machine) []string {
	if conditions.Has(m, externally) {
		return nil
	}
	return pendingRequest(m)
}

// waiting is the request to the owner, if the owner has not processed it: the owner
// removes the conditions that it wrote itself.
func waiting(m *clusterv1.Machine) []string {
	if conditions.Reason(m, byOwner) != clusterv1.MachineOwnerRemediatedWaitingForRemediationReason {
		return nil
	}
	return []string{byOwner}
}

// changed are the conditions that differ from those of the Machine.
func (a Action) changed() []metav1.Condition {
	return slices.DeleteFunc(a.Set, func(c metav1.Condition) bool {
		is := conditions.Get(a.Machine, c.Type)
		return is != nil && conditions.SameState(*is, c) && !(a.Again && c.Type == succeeded)
	})
}

// present are those of the types that the Machine has a condition of.
func present(m *clusterv1.Machine, types []string) []string {
	return slices.DeleteFunc(types, func(t string) bool { return !conditions.Has(m, t) })
}
