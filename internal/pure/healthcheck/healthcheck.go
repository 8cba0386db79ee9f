// SPDX-License-Identifier: Apache-2.0

// Package healthcheck decides which Machines a MachineHealthCheck finds unhealthy, and
// which action follows.
//
// It is pure: the controller observes, calls Select and Decide, executes the actions and
// requeues at Decision.RequeueAt, when time alone changes the result.
//
//   - A Machine is checked by one MachineHealthCheck: the oldest that selects it.
//   - Timeouts start at the earliest when the cluster started to answer without a
//     failure. While it does not answer, Machines are Unknown, and only a user's
//     annotation has one remediated.
//   - If too many Machines are not healthy, none is remediated.
//   - A MachineHealthCheck in report mode does not write to any Machine.
//   - The result for a Machine counts as long as a MachineHealthCheck checks it, and
//     only for the connection in which it was observed; see Orders.
package healthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Facts are the input of a decision.
type Facts struct {
	Check      *clusterv1.MachineHealthCheck
	Cluster    *clusterv1.Cluster
	Selection  Selection
	Observed   map[string]Observed // by the name of a target
	Connection Connection
	// Template is why requests to an external controller cannot be created; empty if
	// they can, or are not configured.
	Template string
	Now      time.Time
}

// Observed is the state of a target in addition to its Machine.
type Observed struct {
	Node      *corev1.Node // nil if it does not exist or is unknown
	Requested bool         // an external controller was requested to remediate it
}

// Connection is the state of the connection to the workload cluster.
type Connection struct {
	// Answering is since when the cluster has answered without a failure; zero while it
	// does not.
	Answering time.Time
	// Untried is until when a process that started recently need not know whether the
	// cluster answers; zero once it knows.
	Untried time.Time
}

// State is the result for a Machine.
type State int

// The states of a Machine. Only Healthy ones are healthy when they are counted.
const (
	Healthy   State = iota
	Unhealthy       // to be remediated
	Doubtful        // Unhealthy at Result.Due unless its state changes
	Starting        // it has no Node yet, or cannot be expected to have one
	Leaving         // it is being deleted
	Unknown         // its cluster does not answer
	Unjudged        // not known yet whether its cluster answers
)

// Result is the result for a target.
type Result struct {
	Machine *clusterv1.Machine
	State   State
	Reason  string // of HealthCheckSucceeded
	Message string // the rule, the observation, and since when
	Due     time.Time
}

// Decision is the result for all targets.
type Decision struct {
	Results   []Result
	Healthy   int
	Limit     Limit
	Actions   []Action // changes to Machines, and requests for them
	RequeueAt time.Time
}

// Decide evaluates the targets and returns the actions.
func Decide(f Facts) Decision {
	var d Decision
	for _, m := range f.Selection.Targets {
		v := f.examine(m)
		d.Results = append(d.Results, v)
		if v.State == Healthy {
			d.Healthy++
		}
		if !v.Due.IsZero() && (d.RequeueAt.IsZero() || v.Due.Before(d.RequeueAt)) {
			d.RequeueAt = v.Due
		}
	}
	d.Limit = limit(f.Check.Spec.Remediation.TriggerIf, len(d.Results), d.Healthy)
	for _, v := range d.Results {
		if a := f.act(v, d.Limit); a.does() {
			d.Actions = append(d.Actions, a)
		}
	}
	return d
}

// unhealthy are the results for Machines to remediate.
func (d Decision) unhealthy() (all []Result) {
	for _, v := range d.Results {
		if v.State == Unhealthy {
			all = append(all, v)
		}
	}
	return all
}

// ReportsOnly reports whether a MachineHealthCheck must not remediate. An annotation
// with an unknown value does not permit remediation either.
func ReportsOnly(check *clusterv1.MachineHealthCheck) bool {
	_, ok := check.Annotations[clusterv1.RemediationModeAnnotation]
	return ok
}

func isControlPlane(m metav1.Object) bool {
	_, ok := m.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}

// Why is the result of a health check for a Machine, as a text for its owner.
func Why(m *clusterv1.Machine) string {
	if found := conditions.Message(m, clusterv1.MachineHealthCheckSucceededCondition); found != "" {
		return found
	}
	return "it is unhealthy"
}

// Because appends the result of a health check to an owner's message about an unhealthy
// Machine, if there is one.
func Because(m *clusterv1.Machine, what string) string {
	if found := conditions.Message(m, clusterv1.MachineHealthCheckSucceededCondition); found != "" {
		return what + "; " + found
	}
	return what
}
