// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// startupSeconds is how long a Machine can take to have a Node if the spec does not set
// it.
const startupSeconds = 600

// maxType is how much of the type of a Node's condition is reported: a spec can contain
// any type, and the text becomes part of events.
const maxType = 100

// symptom is a sign that a Machine is unhealthy, by one rule.
type symptom struct {
	reason string
	what   string // as in "Condition Ready of Node n is Unknown"
	since  time.Time
	after  time.Duration // how long it can last
	rule   string        // the field that defines the rule
}

// examine evaluates a target.
func (f Facts) examine(m *clusterv1.Machine) Result {
	v := Result{Machine: m}
	switch _, ordered := m.Annotations[clusterv1.RemediateMachineAnnotation]; {
	case !m.DeletionTimestamp.IsZero():
		v.State = Leaving
		return v
	case ordered:
		return f.at(v, clusterv1.MachineHealthCheckHasRemediateAnnotationReason, "Annotation "+clusterv1.RemediateMachineAnnotation+" is set")
	case !f.expected(m):
		v.State = Starting
		return v
	case !needsReport(f.Cluster, m) || !f.Connection.Answering.IsZero():
		return f.weigh(v, f.symptoms(m, f.Observed[m.Name].Node))
	case f.Connection.Untried.After(f.Now):
		v.State, v.Due = Unjudged, f.Connection.Untried
	default:
		v.State, v.Message = Unknown, f.silence()
	}
	return v
}

// expected reports whether a Machine can be expected to be healthy yet.
func (f Facts) expected(m *clusterv1.Machine) bool {
	i := f.Cluster.Status.Initialization
	return ptr.Deref(i.InfrastructureProvisioned, false) && (ptr.Deref(i.ControlPlaneInitialized, false) || isControlPlane(m))
}

// needsReport reports whether a Machine can be evaluated only by what its cluster reports:
// before the control plane is initialized, no API server can answer.
func needsReport(cluster *clusterv1.Cluster, m *clusterv1.Machine) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) || m.Status.NodeRef.IsDefined()
}

func (f Facts) silence() string {
	return fmt.Sprintf("The workload cluster of Cluster %s does not answer: what was known of its Machines and Nodes may be out of date", f.Cluster.Name)
}

// signature precedes the name of the check in each message about an unhealthy Machine.
const signature = "MachineHealthCheck "

// at returns v as Unhealthy because of the current state. While that state lasts, the
// message stays the same: a result that is only reported is not recorded, so it has no
// time.
func (f Facts) at(v Result, reason, what string) Result {
	v.State, v.Reason = Unhealthy, reason
	if ReportsOnly(f.Check) {
		v.Message = fmt.Sprintf("%s (%s%s)", what, signature, f.Check.Name)
		return v
	}
	was := conditions.Get(v.Machine, clusterv1.MachineHealthCheckSucceededCondition)
	if was != nil && was.Status == metav1.ConditionFalse && was.Reason == reason {
		v.Message = was.Message
		return v
	}
	v.Message = fmt.Sprintf("%s, as seen at %s (%s%s)", what, stamp(f.Now), signature, f.Check.Name)
	return v
}

// weigh returns the first symptom that has exceeded its timeout or, without one, the one
// that will exceed it first.
func (f Facts) weigh(v Result, symptoms []symptom) Result {
	for _, s := range symptoms {
		if !f.Now.Before(f.due(s)) {
			v.State, v.Reason = Unhealthy, s.reason
			v.Message = fmt.Sprintf("%s since %s, for more than %s%s (%s of %s%s)", s.what, stamp(s.since), s.after, f.knowing(s), s.rule, signature, f.Check.Name)
			return v
		}
	}
	node := v.Machine.Status.NodeRef
	if node.IsDefined() && f.Observed[v.Machine.Name].Node == nil {
		return f.at(v, clusterv1.MachineHealthCheckNodeDeletedReason, "Node "+node.Name+" has been deleted")
	}
	for _, s := range symptoms {
		if due := f.due(s); v.Due.IsZero() || due.Before(v.Due) {
			v.State, v.Due = Doubtful, due
			v.Message = fmt.Sprintf("%s since %s%s: unhealthy at %s (%s of MachineHealthCheck %s)", s.what, stamp(s.since), f.knowing(s), stamp(due), s.rule, f.Check.Name)
		}
	}
	if v.State != Doubtful && !node.IsDefined() {
		v.State = Starting
	}
	return v
}

// due is when a symptom exceeds its timeout. The timeout starts at the earliest when the
// cluster started to answer: no observation is older than the connection.
func (f Facts) due(s symptom) time.Time {
	from := s.since
	if f.Connection.Answering.After(from) {
		from = f.Connection.Answering
	}
	return from.Add(s.after)
}

func (f Facts) knowing(s symptom) string {
	if !f.Connection.Answering.After(s.since) {
		return ""
	}
	return ", counted from " + stamp(f.Connection.Answering) + " when its cluster began to answer"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// symptoms are the signs that a Machine is unhealthy, in order of precedence.
func (f Facts) symptoms(m *clusterv1.Machine, node *corev1.Node) (all []symptom) {
	checks := f.Check.Spec.Checks
	for i, c := range checks.UnhealthyMachineConditions {
		is := conditions.Get(m, c.Type)
		if is == nil || is.Status != c.Status {
			continue
		}
		s := symptom{
			reason: clusterv1.MachineHealthCheckUnhealthyMachineReason, what: fmt.Sprintf("Condition %s of the Machine is %s", c.Type, c.Status),
			since: is.LastTransitionTime.Time, after: seconds(c.TimeoutSeconds), rule: fmt.Sprintf("spec.checks.unhealthyMachineConditions[%d]", i),
		}
		if f.counts(&s, m, node) {
			all = append(all, s)
		}
	}
	if node == nil {
		if starting := f.startup(m); starting.after > 0 && !m.Status.NodeRef.IsDefined() {
			all = append(all, starting)
		}
		return all
	}
	for i, c := range checks.UnhealthyNodeConditions {
		at := slices.IndexFunc(node.Status.Conditions, func(is corev1.NodeCondition) bool { return is.Type == c.Type && is.Status == c.Status })
		if at < 0 {
			continue
		}
		s := symptom{
			reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, what: fmt.Sprintf("Condition %s of Node %s is %s", sanitize.Line(string(c.Type), maxType), node.Name, sanitize.Line(string(c.Status), maxType)),
			since: node.Status.Conditions[at].LastTransitionTime.Time, after: seconds(c.TimeoutSeconds), rule: fmt.Sprintf("spec.checks.unhealthyNodeConditions[%d]", i),
		}
		if c.Type != corev1.NodeReady || f.counts(&s, m, node) {
			all = append(all, s)
		}
	}
	return all
}

// counts reports whether a symptom counts. A rule without a timeout would replace each
// new Machine while it starts: until its Node has been ready once, such a Machine has
// the startup timeout.
func (f Facts) counts(s *symptom, m *clusterv1.Machine, node *corev1.Node) bool {
	up := m.Status.NodeRef.IsDefined() && (node == nil || !neverReady(node))
	if s.after > 0 || up {
		return true
	}
	starting := f.startup(m)
	s.since, s.after = starting.since, starting.after
	return s.after > 0
}

// neverReady reports whether a Node has not been ready since it was created. The
// kubelet's clock can differ by some seconds.
func neverReady(node *corev1.Node) bool {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return at >= 0 && node.Status.Conditions[at].Status != corev1.ConditionTrue &&
		node.Status.Conditions[at].LastTransitionTime.Time.Before(node.CreationTimestamp.Add(10*time.Second))
}

// startup is the symptom of a Machine without a Node: its timeout starts when everything
// that the Machine depends on is ready.
func (f Facts) startup(m *clusterv1.Machine) symptom {
	since := m.CreationTimestamp.Time
	for _, c := range []*metav1.Condition{
		conditions.Get(f.Cluster, clusterv1.ClusterControlPlaneInitializedCondition),
		conditions.Get(f.Cluster, clusterv1.ClusterInfrastructureReadyCondition),
		conditions.Get(m, clusterv1.MachineInfrastructureReadyCondition),
	} {
		if c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return symptom{
		reason: clusterv1.MachineHealthCheckNodeStartupTimeoutReason, what: "No Node has come up",
		since: since, after: startupTimeout(f.Check), rule: "spec.checks.nodeStartupTimeoutSeconds",
	}
}

// startupTimeout is how long a Machine can take to have a Node; 0 for any time.
func startupTimeout(check *clusterv1.MachineHealthCheck) time.Duration {
	if s := check.Spec.Checks.NodeStartupTimeoutSeconds; s != nil {
		return seconds(s)
	}
	return startupSeconds * time.Second
}

func seconds(s *int32) time.Duration { return time.Duration(ptr.Deref(s, 0)) * time.Second }
