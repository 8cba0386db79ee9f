// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// Report returns the counters and conditions of a MachineHealthCheck, except for Paused.
func Report(f Facts, d Decision) clusterv1.MachineHealthCheckStatus {
	var targets []string
	for _, v := range d.Results {
		targets = append(targets, v.Machine.Name)
	}
	return clusterv1.MachineHealthCheckStatus{
		ExpectedMachines:    new(int32(len(d.Results))),
		CurrentHealthy:      new(int32(d.Healthy)),
		RemediationsAllowed: new(int32(d.Limit.Remaining)),
		Targets:             targets,
		Conditions:          []metav1.Condition{f.allowed(d), f.sound()},
	}
}

// allowed reports whether unhealthy Machines are remediated.
func (f Facts) allowed(d Decision) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Status: metav1.ConditionFalse}
	blind := slices.ContainsFunc(d.Results, func(v Result) bool { return v.State == Unknown })
	switch mode, reports := f.Check.Annotations[clusterv1.RemediationModeAnnotation]; {
	case blind:
		c.Status, c.Reason = metav1.ConditionUnknown, clusterv1.MachineHealthCheckConnectionDownReason
		c.Message = f.silence() + ", and none is remediated by it"
	case reports:
		c.Reason, c.Message = clusterv1.MachineHealthCheckReportOnlyReason, f.would(mode, d)
	case d.Limit.Exceeded != "":
		c.Reason, c.Message = clusterv1.MachineHealthCheckTooManyUnhealthyReason, "Remediation is not allowed: "+d.Limit.Exceeded
	case f.Template != "":
		c.Reason, c.Message = clusterv1.MachineHealthCheckRemediationTemplateNotFoundReason, f.Template
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.MachineHealthCheckRemediationAllowedReason
	}
	return c
}

// would lists the remediations that the annotation prevents.
func (f Facts) would(mode string, d Decision) string {
	lines := []string{fmt.Sprintf("Annotation %s is %s: Machines are not remediated", clusterv1.RemediationModeAnnotation, clusterv1.RemediationModeReport)}
	if mode != clusterv1.RemediationModeReport {
		lines[0] = fmt.Sprintf("Annotation %s has a value that is not known, and is taken for %s: Machines are not remediated; correct it, or remove the annotation", clusterv1.RemediationModeAnnotation, clusterv1.RemediationModeReport)
	}
	unhealthy := d.unhealthy()
	for _, v := range unhealthy[:min(len(unhealthy), maxTold)] {
		lines = append(lines, fmt.Sprintf("Would remediate Machine %s: %s", v.Machine.Name, v.Message))
	}
	if more := len(unhealthy) - maxTold; more > 0 {
		lines = append(lines, "And "+conditions.Count(more, "Machine")+" more")
	}
	switch {
	case len(unhealthy) == 0:
		return lines[0]
	case d.Limit.Exceeded != "":
		lines = append(lines, "Would not be allowed to: "+d.Limit.Exceeded)
	case f.Template != "":
		lines = append(lines, "Would not be able to: "+f.Template)
	}
	return strings.Join(lines, "\n* ")
}

// Told is an event of a MachineHealthCheck. The zero value is none.
type Told struct {
	Type, Reason, Message string
	Once                  string // events with the same value here are sent once until the status has changed
}

// Event is the event to send, if the status does not report it yet.
func Event(f Facts, d Decision) Told {
	c, was := f.allowed(d), conditions.Get(f.Check, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	was = cmp.Or(was, &metav1.Condition{})
	switch {
	case c.Reason == clusterv1.MachineHealthCheckTooManyUnhealthyReason && was.Reason != c.Reason:
		return Told{corev1.EventTypeWarning, "RemediationRestricted", c.Message, c.Reason}
	case c.Reason == clusterv1.MachineHealthCheckReportOnlyReason && was.Message != c.Message && len(d.unhealthy()) > 0:
		return Told{corev1.EventTypeNormal, "RemediationReported", c.Message, c.Message}
	}
	return Told{}
}

// maxTold is how many Machines are listed individually.
const maxTold = 10

// sound reports settings of a valid spec that are probably not intended.
func (f Facts) sound() metav1.Condition {
	type doubt struct{ reason, message string }
	var doubts []doubt
	s := f.Selection
	switch {
	case f.Cluster == nil:
		doubts = append(doubts, doubt{clusterv1.MachineHealthCheckClusterMissingReason, fmt.Sprintf("Cluster %s, named by spec.clusterName, does not exist: create it, or correct the field", f.Check.Spec.ClusterName)})
	case len(s.Others) > 0:
		doubts = append(doubts, doubt{clusterv1.MachineHealthCheckSelectedByAnotherReason, others(s.Others)})
	case len(s.Targets) == 0:
		doubts = append(doubts, doubt{clusterv1.MachineHealthCheckNoMachineSelectedReason, fmt.Sprintf("spec.selector matches no Machine of Cluster %s that must be remediated", f.Check.Spec.ClusterName)})
	}
	if i := slices.IndexFunc(s.Targets, func(m *clusterv1.Machine) bool { return isControlPlane(m) != isControlPlane(s.Targets[0]) }); i >= 0 {
		doubts = append(doubts, doubt{
			clusterv1.MachineHealthCheckControlPlaneAndWorkersSelectedReason,
			fmt.Sprintf("spec.selector matches Machines of the control plane and workers, as %s and %s, which are counted together: use a MachineHealthCheck for each", s.Targets[0].Name, s.Targets[i].Name),
		})
	}
	if fields := f.impatient(); len(fields) > 0 {
		doubts = append(doubts, doubt{
			clusterv1.MachineHealthCheckNoTimeoutReason,
			strings.Join(fields, ", ") + " is 0: a Machine is remediated as soon as this is reported once; one whose Node has not been ready yet has the time of spec.checks.nodeStartupTimeoutSeconds",
		})
	}
	c := metav1.Condition{Type: clusterv1.MachineHealthCheckSoundCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineHealthCheckSoundReason}
	if len(doubts) == 0 {
		return c
	}
	var messages []string
	for _, d := range doubts {
		messages = append(messages, d.message)
	}
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, doubts[0].reason, strings.Join(messages, "\n")
	return c
}

func others(all []Other) string {
	var machines, checks []string
	for _, o := range all {
		machines = append(machines, o.Machine)
		if !slices.Contains(checks, o.Check) {
			checks = append(checks, o.Check)
		}
	}
	return fmt.Sprintf("Not checked here, but by an older MachineHealthCheck, %s, which selects them too: %s", conditions.Names(checks), conditions.Names(machines))
}

// impatient are the rules by which a single report of a transient condition makes a
// Machine unhealthy.
func (f Facts) impatient() (fields []string) {
	for i, c := range f.Check.Spec.Checks.UnhealthyNodeConditions {
		if c.Type == corev1.NodeReady && seconds(c.TimeoutSeconds) == 0 {
			fields = append(fields, fmt.Sprintf("spec.checks.unhealthyNodeConditions[%d].timeoutSeconds", i))
		}
	}
	for i, c := range f.Check.Spec.Checks.UnhealthyMachineConditions {
		if seconds(c.TimeoutSeconds) == 0 {
			fields = append(fields, fmt.Sprintf("spec.checks.unhealthyMachineConditions[%d].timeoutSeconds", i))
		}
	}
	return fields
}
