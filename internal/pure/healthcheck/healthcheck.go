// SPDX-License-Identifier: Apache-2.0

// Package healthcheck decides which Machines a MachineHealthCheck finds
// unhealthy, and what is done about it.
//
// It is pure: the controller observes, calls Select and Decide, carries the
// actions out and comes back at Decision.Wake, when time alone changes
// something.
//
//   - A Machine is judged by one MachineHealthCheck: the oldest that selects it.
//   - What is reported counts from when its cluster began to answer without a
//     failure, at the earliest. While it does not answer, Machines are Unknown,
//     and nothing but an order of a user has one remediated.
//   - With too many that are not healthy, nothing is remediated.
//   - A MachineHealthCheck that shall only report writes on no Machine.
//   - What was said of a Machine counts as long as a MachineHealthCheck judges
//     it, and no longer than the connection that it was seen by; see Orders.
package healthcheck

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Facts are what is decided from.
type Facts struct {
	Check      *clusterv1.MachineHealthCheck
	Cluster    *clusterv1.Cluster
	Selection  Selection
	Observed   map[string]Observed // by the name of a target
	Connection Connection
	// Template says why requests to an external controller cannot be made; empty
	// if they can, or are not wanted.
	Template string
	Now      time.Time
}

// Observed is what is known of a target beside its Machine.
type Observed struct {
	Node      *corev1.Node // nil if there is none, or none is known
	Requested bool         // an external controller has been asked to remediate it
}

// Connection is what is known of the one to the workload cluster.
type Connection struct {
	// Answering is since when the cluster has answered without a failure; zero
	// while it does not.
	Answering time.Time
	// Untried is until when a process that has just started need not know
	// whether the cluster answers; zero if it knows.
	Untried time.Time
}

// State is how a Machine is found.
type State int

// The states of a Machine. Only Healthy ones are healthy when they are counted.
const (
	Healthy   State = iota
	Unhealthy       // it is to be remediated
	Doubtful        // it is Unhealthy at Verdict.Due unless something changes
	Starting        // its Node is not there yet, or nothing is to be expected of it
	Leaving         // it is being deleted
	Unknown         // its cluster does not answer
	Unjudged        // nobody knows yet whether its cluster answers
)

// Verdict is how a target is found.
type Verdict struct {
	Machine *clusterv1.Machine
	State   State
	Reason  string // of HealthCheckSucceeded
	Message string // which rule says so, by which observation, since when
	Due     time.Time
}

// Decision is what becomes of the targets.
type Decision struct {
	Verdicts []Verdict
	Healthy  int
	Limit    Limit
	Actions  []Action // what is to be written on Machines, or requested for them
	Wake     time.Time
}

// Decide judges the targets and says what is to be done.
func Decide(f Facts) Decision {
	var d Decision
	for _, m := range f.Selection.Targets {
		v := f.examine(m)
		d.Verdicts = append(d.Verdicts, v)
		if v.State == Healthy {
			d.Healthy++
		}
		if !v.Due.IsZero() && (d.Wake.IsZero() || v.Due.Before(d.Wake)) {
			d.Wake = v.Due
		}
	}
	d.Limit = limit(f.Check.Spec.Remediation.TriggerIf, len(d.Verdicts), d.Healthy)
	for _, v := range d.Verdicts {
		if a := f.act(v, d.Limit); a.does() {
			d.Actions = append(d.Actions, a)
		}
	}
	return d
}

// unhealthy are the verdicts on Machines that are to be remediated.
func (d Decision) unhealthy() (all []Verdict) {
	for _, v := range d.Verdicts {
		if v.State == Unhealthy {
			all = append(all, v)
		}
	}
	return all
}

// ReportsOnly tells whether a MachineHealthCheck shall remediate nothing. An
// annotation with a word that is not known is no leave to remediate.
func ReportsOnly(check *clusterv1.MachineHealthCheck) bool {
	_, ok := check.Annotations[clusterv1.RemediationModeAnnotation]
	return ok
}

func isControlPlane(m metav1.Object) bool {
	_, ok := m.GetLabels()[clusterv1.MachineControlPlaneLabel]
	return ok
}

// Why is what a health check has found of a Machine, in words for its owner.
func Why(m *clusterv1.Machine) string {
	if found := conditions.Message(m, clusterv1.MachineHealthCheckSucceededCondition); found != "" {
		return found
	}
	return "it is unhealthy"
}

// Because adds to what an owner says of an unhealthy Machine what a health check
// has found of it, if that said so.
func Because(m *clusterv1.Machine, what string) string {
	if found := conditions.Message(m, clusterv1.MachineHealthCheckSucceededCondition); found != "" {
		return what + "; " + found
	}
	return what
}
