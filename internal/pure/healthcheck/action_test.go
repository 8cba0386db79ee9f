// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func atMost(n int) func(*Facts) {
	return func(f *Facts) { f.Check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromInt(n)) }
}

func external(f *Facts) {
	f.Check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "x.io/v1", Kind: "FixTemplate", Name: "fix"}
}
func vanished(f *Facts) { external(f); f.Template = "FixTemplate fix does not exist" }
func requested(f *Facts) {
	external(f)
	o := f.Observed["m"]
	o.Requested = true
	f.Observed["m"] = o
}
func reporting(f *Facts) {
	f.Check.Annotations = map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
}

func anyTime(f *Facts) { f.Check.Spec.Checks.NodeStartupTimeoutSeconds = new(int32(0)) }
func pausedAgo(since time.Duration) func(*Facts) {
	return func(f *Facts) {
		conditions.Set(f.Check, ago(since), metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason})
	}
}

// written is what actions do, in a line each.
func written(actions []Action) (lines []string) {
	for _, a := range actions {
		line := a.Machine.Name + ":"
		for _, c := range a.Set {
			line += fmt.Sprintf(" %s=%s/%s", c.Type, c.Status, c.Reason)
		}
		for _, t := range a.Drop {
			line += " -" + t
		}
		line += map[Request]string{Make: " make request", Remove: " remove request"}[a.Request]
		if a.Marked != "" {
			line += " (marked)"
		}
		if a.Again {
			line += " (again)"
		}
		lines = append(lines, line)
	}
	return lines
}

func TestActions(t *testing.T) {
	t.Parallel()
	fine, sick := node("Ready True", time.Minute), node("Ready Unknown", time.Hour)
	const told = "Condition Ready of Node n is Unknown since 2026-08-01T11:00:00Z, for more than 5m0s (spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck mhc)"
	marked := has("HealthCheckSucceeded False UnhealthyNode "+told, time.Hour)
	waits, defers, goes := has("OwnerRemediated False WaitingForRemediation", 0), has("OwnerRemediated False RemediationDeferred", 0), has("OwnerRemediated False MachineDeleting", 0)
	tests := map[string]struct {
		facts Facts
		want  string
	}{
		"a healthy one is said to be":                        {facts(machine(), fine), "HealthCheckSucceeded=True/HealthCheckSucceeded"},
		"once":                                               {facts(machine(has("HealthCheckSucceeded True HealthCheckSucceeded", 0)), fine), ""},
		"an unhealthy one goes to its owner":                 {facts(machine(), sick), "HealthCheckSucceeded=False/UnhealthyNode OwnerRemediated=False/WaitingForRemediation (marked)"},
		"once, too":                                          {facts(machine(marked, waits), sick), ""},
		"whose word on it stays":                             {facts(machine(marked, defers), sick), ""},
		"again if that was long ago":                         {facts(machine(marked, has("OwnerRemediated True R", 0)), sick), "OwnerRemediated=False/WaitingForRemediation"},
		"one that recovers is released":                      {facts(machine(marked, waits), fine), "HealthCheckSucceeded=True/HealthCheckSucceeded -OwnerRemediated"},
		"its owner takes back its own word":                  {facts(machine(marked, defers), fine), "HealthCheckSucceeded=True/HealthCheckSucceeded"},
		"one in doubt stays as it is":                        {facts(machine(has("HealthCheckSucceeded True HealthCheckSucceeded", 0)), node("Ready Unknown", time.Minute)), ""},
		"one that starts has no result":                      {facts(machine(nodeless, func(m *clusterv1.Machine) { m.CreationTimestamp = metav1.NewTime(now) }), nil), ""},
		"one that leaves is left alone":                      {facts(machine(leaving, marked, goes), nil), ""},
		"too many: it is only reported":                      {facts(machine(), sick, atMost(0)), "HealthCheckSucceeded=False/UnhealthyNode (marked)"},
		"too many: a remediation that has not started ends":  {facts(machine(marked, defers), sick, atMost(0)), "-OwnerRemediated"},
		"too many: a remediation that has started continues": {facts(machine(marked, goes), sick, atMost(0)), ""},
		"a silent cluster: nothing counts":                   {facts(machine(marked, waits), sick, silent), "HealthCheckSucceeded=Unknown/ConnectionDown"},
		"not what is healthy either":                         {facts(machine(has("HealthCheckSucceeded True HealthCheckSucceeded", 0)), fine, silent), "HealthCheckSucceeded=Unknown/ConnectionDown"},
		"it answers again: it waits for a recent status":     {facts(machine(has("HealthCheckSucceeded Unknown ConnectionDown", 0), waits), sick, answering(0)), "HealthCheckSucceeded=Unknown/WaitingForNews"},
		"at a start nothing is said yet":                     {facts(machine(marked, waits), sick, untried), ""},
		"to an external controller by a request":             {facts(machine(), sick, external), "HealthCheckSucceeded=False/UnhealthyNode ExternallyRemediated=False/WaitingForRemediation make request (marked)"},
		"once, again":                                        {facts(machine(marked, has("ExternallyRemediated False WaitingForRemediation", 0)), sick, requested), ""},
		"said after all, if that went wrong":                 {facts(machine(marked, has("ExternallyRemediated False RemediationTemplateNotFound", 0)), sick, requested), "ExternallyRemediated=False/WaitingForRemediation"},
		"as where it could not be made":                      {facts(machine(marked, has("ExternallyRemediated False RemediationRequestCreationFailed", 0)), sick, requested), "ExternallyRemediated=False/WaitingForRemediation"},
		"what the controller says stays":                     {facts(machine(marked, has("ExternallyRemediated False Rebooting", 0)), sick, requested), ""},
		"again if the request is gone":                       {facts(machine(marked, has("ExternallyRemediated True R", 0)), sick, external), "ExternallyRemediated=False/WaitingForRemediation make request"},
		"no longer to its owner":                             {facts(machine(marked, waits), sick, external), "ExternallyRemediated=False/WaitingForRemediation -OwnerRemediated make request"},
		"without a template":                                 {facts(machine(), sick, vanished), "HealthCheckSucceeded=False/UnhealthyNode ExternallyRemediated=False/RemediationTemplateNotFound (marked)"},
		"and taken back":                                     {facts(machine(marked, has("ExternallyRemediated False WaitingForRemediation", 0)), fine, requested), "HealthCheckSucceeded=True/HealthCheckSucceeded -ExternallyRemediated remove request"},
		"too many for it, too":                               {facts(machine(), sick, external, atMost(0)), "HealthCheckSucceeded=False/UnhealthyNode (marked)"},
		"a report says nothing of a healthy one":             {facts(machine(), fine, reporting), ""},
		"nor of an unhealthy one":                            {facts(machine(), sick, reporting), ""},
		"nor takes back what another one says":               {facts(machine(marked, waits), sick, reporting), ""},
		"what is in doubt now is not unhealthy":              {facts(machine(marked, waits), node("Ready False", time.Minute)), "HealthCheckSucceeded=Unknown/WaitingForNews"},
		"nor is what nothing speaks against":                 {facts(machine(marked, waits, nodeless), nil, anyTime), "HealthCheckSucceeded=Unknown/WaitingForNews"},
		"after a reconnect it is reported again":             {facts(machine(marked, waits), sick, answering(10*time.Minute)), "HealthCheckSucceeded=False/UnhealthyNode (again)"},
		"an order of a user needs no recent status":          {facts(machine(has("HealthCheckSucceeded False HasRemediateAnnotation", time.Hour), waits, annotated(clusterv1.RemediateMachineAnnotation)), sick, answering(time.Minute)), ""},
		"after a pause it is reported again":                 {facts(machine(marked, waits), sick, pausedAgo(time.Minute)), "HealthCheckSucceeded=False/UnhealthyNode (again)"},
		"what the external one asks stays":                   {facts(machine(marked, waits, has("ExternallyRemediated False WaitingForRemediation", 0)), sick, requested), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.TrimPrefix(strings.Join(written(Decide(tc.facts).Actions), "\n"), "m: ")
			got = strings.TrimPrefix(got, "m:")
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUnbuildableRequestIsReported(t *testing.T) {
	t.Parallel()
	a := Decide(facts(machine(), node("Ready Unknown", time.Hour), external)).Actions[0].Failed(errors.New("quota"))
	if c := a.Set[1]; c.Reason != clusterv1.MachineExternallyRemediatedRemediationRequestCreationFailedReason || c.Message != "quota" {
		t.Errorf("condition %+v", c)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	number := func(n intstr.IntOrString) clusterv1.MachineHealthCheckRemediationTriggerIf {
		return clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyLessThanOrEqualTo: &n}
	}
	within := func(r string) clusterv1.MachineHealthCheckRemediationTriggerIf {
		return clusterv1.MachineHealthCheckRemediationTriggerIf{UnhealthyInRange: r, UnhealthyLessThanOrEqualTo: new(intstr.FromInt32(0))}
	}
	const inRange, atMost = "spec.remediation.triggerIf.unhealthyInRange", "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
	tests := map[string]struct {
		trigger           clusterv1.MachineHealthCheckRemediationTriggerIf
		expected, healthy int
		want              Limit
	}{
		"without a limit all may be":          {expected: 3, healthy: 0},
		"without a Machine there is none":     {},
		"as many as the number":               {trigger: number(intstr.FromInt32(2)), expected: 5, healthy: 3},
		"fewer than the number":               {trigger: number(intstr.FromInt32(2)), expected: 5, healthy: 4, want: Limit{Remaining: 1}},
		"more than the number":                {trigger: number(intstr.FromInt32(2)), expected: 5, healthy: 2, want: Limit{Exceeded: "3 of 5 Machines are not healthy, and " + atMost + " is 2"}},
		"no more than there are":              {trigger: number(intstr.FromInt32(9)), expected: 3, healthy: 3, want: Limit{Remaining: 3}},
		"a share is rounded down":             {trigger: number(intstr.FromString("40%")), expected: 3, healthy: 2},
		"and exceeded after that":             {trigger: number(intstr.FromString("40%")), expected: 3, healthy: 1, want: Limit{Exceeded: "2 of 3 Machines are not healthy, and " + atMost + " is 40%"}},
		"none may be":                         {trigger: number(intstr.FromInt32(0)), expected: 3, healthy: 2, want: Limit{Exceeded: "1 of 3 Machines are not healthy, and " + atMost + " is 0"}},
		"a range wins, and begins somewhere":  {trigger: within("[2-3]"), expected: 5, healthy: 4, want: Limit{Exceeded: "1 of 5 Machines are not healthy, and " + inRange + " is [2-3]"}},
		"within it":                           {trigger: within("[2-3]"), expected: 5, healthy: 3, want: Limit{Remaining: 1}},
		"at its end":                          {trigger: within("[2-3]"), expected: 5, healthy: 2},
		"beyond it":                           {trigger: within("[2-3]"), expected: 5, healthy: 1, want: Limit{Exceeded: "4 of 5 Machines are not healthy, and " + inRange + " is [2-3]"}},
		"a range that ends before it begins":  {trigger: within("[3-2]"), expected: 5, healthy: 2, want: Limit{Exceeded: "3 of 5 Machines are not healthy, and " + inRange + " is [3-2]"}},
		"a range of numbers beyond all count": {trigger: within("[1-99999999999999999999]"), expected: 5, healthy: 4, want: Limit{Exceeded: inRange + " cannot be read: [1-99999999999999999999] is not a range of numbers such as [1-5]"}},
		"what is no number":                   {trigger: number(intstr.FromString("most")), expected: 5, healthy: 5, want: Limit{Exceeded: atMost + ` cannot be read: invalid value for IntOrString: invalid type: string is not a percentage`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, limit(tc.trigger, tc.expected, tc.healthy)); diff != "" {
				t.Errorf("limit (-want +got):\n%s", diff)
			}
		})
	}
}
