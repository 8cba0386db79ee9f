// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	older := check(func(c *clusterv1.MachineHealthCheck) {
		c.Name, c.CreationTimestamp = "z-older", metav1.NewTime(ago(2*time.Hour))
		c.Spec.Selector.MatchLabels = map[string]string{"pool": "a", "shared": ""}
	})
	twin := older.DeepCopy()
	twin.Name, twin.CreationTimestamp = "a-twin", check().CreationTimestamp
	younger := twin.DeepCopy()
	younger.Name = "z-younger"
	shared := func(m *clusterv1.Machine) { m.Labels["shared"] = "" }
	foreign := func(m *clusterv1.Machine) { m.Labels["pool"] = "b" }
	reports := func(c *clusterv1.MachineHealthCheck) *clusterv1.MachineHealthCheck {
		c = c.DeepCopy()
		c.Annotations = map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
		return c
	}
	ending := older.DeepCopy()
	ending.DeletionTimestamp = new(metav1.NewTime(now))
	broken := older.DeepCopy()
	broken.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
	tests := map[string]struct {
		check    *clusterv1.MachineHealthCheck
		machines []*clusterv1.Machine
		others   []*clusterv1.MachineHealthCheck
		want     string
		wantErr  string
	}{
		"what matches, by name":                     {machines: []*clusterv1.Machine{machine(called("b")), machine(called("a")), machine(called("c"), foreign)}, want: "targets a b"},
		"not what a user wants left alone":          {machines: []*clusterv1.Machine{machine(called("a"), annotated(clusterv1.PausedAnnotation)), machine(called("b"), annotated(clusterv1.MachineSkipRemediationAnnotation))}},
		"an empty selector selects nothing":         {check: check(func(c *clusterv1.MachineHealthCheck) { c.Spec.Selector = metav1.LabelSelector{} }), machines: []*clusterv1.Machine{machine()}},
		"a broken one is reported":                  {check: broken, machines: []*clusterv1.Machine{machine()}, wantErr: `read spec.selector: "Like" is not a valid label selector operator`},
		"an older check comes first":                {machines: []*clusterv1.Machine{machine(shared), machine(called("n"))}, others: []*clusterv1.MachineHealthCheck{older}, want: "targets n, others m of z-older"},
		"of the same age, the first by name":        {machines: []*clusterv1.Machine{machine(shared)}, others: []*clusterv1.MachineHealthCheck{younger, twin}, want: "others m of a-twin"},
		"not a younger one":                         {machines: []*clusterv1.Machine{machine(shared)}, others: []*clusterv1.MachineHealthCheck{younger}, want: "targets m"},
		"nor one that ends, or is broken":           {machines: []*clusterv1.Machine{machine(shared)}, others: []*clusterv1.MachineHealthCheck{ending, broken}, want: "targets m"},
		"one that reports does not block others":    {machines: []*clusterv1.Machine{machine(shared)}, others: []*clusterv1.MachineHealthCheck{reports(older)}, want: "targets m"},
		"and others do not block it":                {check: reports(check()), machines: []*clusterv1.Machine{machine(shared)}, others: []*clusterv1.MachineHealthCheck{older}, want: "targets m"},
		"a skipped Machine belongs to no check":     {machines: []*clusterv1.Machine{machine(shared, annotated(clusterv1.PausedAnnotation))}, others: []*clusterv1.MachineHealthCheck{older}},
		"the list of checks holds the check itself": {machines: []*clusterv1.Machine{machine()}, others: []*clusterv1.MachineHealthCheck{check()}, want: "targets m"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tc.check
			if c == nil {
				c = check()
			}
			s, err := Select(c, tc.machines, tc.others)
			if text := fmt.Sprint(err); (err == nil) != (tc.wantErr == "") || err != nil && text != tc.wantErr {
				t.Errorf("error %q, want %q", text, tc.wantErr)
			}
			var parts []string
			if len(s.Targets) > 0 {
				parts = append(parts, "targets")
			}
			for _, m := range s.Targets {
				parts[0] += " " + m.Name
			}
			for _, o := range s.Others {
				parts = append(parts, "others "+o.Machine+" of "+o.Check)
			}
			if got := strings.Join(parts, ", "); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	fine, sick := node("Ready True", time.Minute), node("Ready Unknown", time.Hour)
	const (
		found = "Condition Ready of Node n is Unknown since 2026-08-01T11:00:00Z, for more than 5m0s (spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck mhc)"
		off   = "Annotation capstan.dev/remediation is report: Machines are not remediated"
	)
	tests := map[string]struct {
		facts Facts
		was   string // the reason of RemediationAllowed
		want  []string
		event string
	}{
		"all is well":           {facts: facts(machine(), fine), want: []string{"1/1 +1 [m]", "RemediationAllowed True RemediationAllowed ", "Sound True Sound "}},
		"one needs remediation": {facts: facts(machine(), sick), want: []string{"0/1 +0 [m]", "RemediationAllowed True RemediationAllowed ", "Sound True Sound "}},
		"too many are": {
			facts: facts(machine(), sick, atMost(0)),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed False TooManyUnhealthy Remediation is not allowed: 1 of 1 Machines are not healthy, and spec.remediation.triggerIf.unhealthyLessThanOrEqualTo is 0", "Sound True Sound "},
			event: "Warning RemediationRestricted Remediation is not allowed: 1 of 1 Machines are not healthy, and spec.remediation.triggerIf.unhealthyLessThanOrEqualTo is 0",
		},
		"too many still are": {
			facts: facts(machine(), sick, atMost(0)), was: clusterv1.MachineHealthCheckTooManyUnhealthyReason,
			want: []string{"0/1 +0 [m]", "RemediationAllowed False TooManyUnhealthy Remediation is not allowed: 1 of 1 Machines are not healthy, and spec.remediation.triggerIf.unhealthyLessThanOrEqualTo is 0", "Sound True Sound "},
		},
		"the cluster does not answer": {
			facts: facts(machine(), sick, silent, reporting),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed Unknown ConnectionDown The workload cluster of Cluster demo does not answer: what was known of its Machines and Nodes may be out of date, and none is remediated by it", "Sound True Sound "},
		},
		"the template is not there": {facts: facts(machine(), fine, vanished), want: []string{"1/1 +1 [m]", "RemediationAllowed False RemediationTemplateNotFound FixTemplate fix does not exist", "Sound True Sound "}},
		"only a report is wanted":   {facts: facts(machine(), fine, reporting), want: []string{"1/1 +1 [m]", "RemediationAllowed False ReportOnly " + off, "Sound True Sound "}},
		"it says what would be done": {
			facts: facts(machine(), sick, reporting),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed False ReportOnly " + off + "\n* Would remediate Machine m: " + found, "Sound True Sound "},
			event: "Normal RemediationReported " + off + "\n* Would remediate Machine m: " + found,
		},
		"an order is reported": {
			facts: facts(machine(annotated(clusterv1.RemediateMachineAnnotation)), sick, reporting),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed False ReportOnly " + off + "\n* Would remediate Machine m: Annotation cluster.x-k8s.io/remediate-machine is set (MachineHealthCheck mhc)", "Sound True Sound "},
			event: "Normal RemediationReported " + off + "\n* Would remediate Machine m: Annotation cluster.x-k8s.io/remediate-machine is set (MachineHealthCheck mhc)",
		},
		"and in the same words at another time": {
			facts: facts(machine(annotated(clusterv1.RemediateMachineAnnotation)), sick, reporting, func(f *Facts) { f.Now = now.Add(time.Minute) }),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed False ReportOnly " + off + "\n* Would remediate Machine m: Annotation cluster.x-k8s.io/remediate-machine is set (MachineHealthCheck mhc)", "Sound True Sound "},
			event: "Normal RemediationReported " + off + "\n* Would remediate Machine m: Annotation cluster.x-k8s.io/remediate-machine is set (MachineHealthCheck mhc)",
		},
		"and what would not": {
			facts: facts(machine(), sick, reporting, atMost(0)),
			want:  []string{"0/1 +0 [m]", "RemediationAllowed False ReportOnly " + off + "\n* Would remediate Machine m: " + found + "\n* Would not be allowed to: 1 of 1 Machines are not healthy, and spec.remediation.triggerIf.unhealthyLessThanOrEqualTo is 0", "Sound True Sound "},
			event: "Normal RemediationReported " + off + "\n* Would remediate Machine m: " + found + "\n* Would not be allowed to: 1 of 1 Machines are not healthy, and spec.remediation.triggerIf.unhealthyLessThanOrEqualTo is 0",
		},
		"another word than report remediates nothing either": {
			facts: facts(machine(), fine, reporting, with(func(c *clusterv1.MachineHealthCheck) { c.Annotations[clusterv1.RemediationModeAnnotation] = "off" })),
			want:  []string{"1/1 +1 [m]", "RemediationAllowed False ReportOnly Annotation capstan.dev/remediation has a value that is not known, and is taken for report: Machines are not remediated; correct it, or remove the annotation", "Sound True Sound "},
		},
		"nothing is selected": {
			facts: facts(machine(), fine, func(f *Facts) { f.Selection = Selection{} }),
			want:  []string{"0/0 +0 []", "RemediationAllowed True RemediationAllowed ", "Sound False NoMachineSelected spec.selector matches no Machine of Cluster demo that must be remediated"},
		},
		"there is no Cluster": {
			facts: Facts{Check: check(), Now: now},
			want:  []string{"0/0 +0 []", "RemediationAllowed True RemediationAllowed ", "Sound False ClusterMissing Cluster demo, named by spec.clusterName, does not exist: create it, or correct the field"},
		},
		"everything is selected, without a timeout": {
			facts: facts(machine(), fine, func(f *Facts) {
				f.Selection.Targets = append(f.Selection.Targets, machine(called("cp"), controlPlane, leaving))
				f.Check.Spec.Checks.UnhealthyNodeConditions[0].TimeoutSeconds = new(int32(0))
				f.Check.Spec.Checks.UnhealthyMachineConditions[0].TimeoutSeconds = new(int32(0))
			}),
			want: []string{"1/2 +1 [m cp]", "RemediationAllowed True RemediationAllowed ", "Sound False ControlPlaneAndWorkersSelected spec.selector matches Machines of the control plane and workers, as m and cp, which are counted together: use a MachineHealthCheck for each\n" +
				"spec.checks.unhealthyNodeConditions[0].timeoutSeconds, spec.checks.unhealthyMachineConditions[0].timeoutSeconds is 0: a Machine is remediated as soon as this is reported once; one whose Node has not been ready yet has the time of spec.checks.nodeStartupTimeoutSeconds"},
		},
		"others are checked elsewhere": {
			facts: facts(machine(), fine, func(f *Facts) { f.Selection.Others = []Other{{"a", "old"}, {"b", "old"}} }),
			want:  []string{"1/1 +1 [m]", "RemediationAllowed True RemediationAllowed ", "Sound False SelectedByAnother Not checked here, but by an older MachineHealthCheck, old, which selects them too: a, b"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.was != "" {
				tc.facts.Check.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineHealthCheckRemediationAllowedCondition, Reason: tc.was}}
			}
			d := Decide(tc.facts)
			st := Report(tc.facts, d)
			got := []string{fmt.Sprintf("%d/%d +%d %v", *st.CurrentHealthy, *st.ExpectedMachines, *st.RemediationsAllowed, st.Targets)}
			for _, c := range st.Conditions {
				got = append(got, fmt.Sprintf("%s %s %s %s", c.Type, c.Status, c.Reason, c.Message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			told := Event(tc.facts, d)
			if got := strings.TrimSpace(told.Type + " " + told.Reason + " " + told.Message); got != tc.event {
				t.Errorf("event %q, want %q", got, tc.event)
			}
		})
	}
}

func TestAReportNamesTenMachines(t *testing.T) {
	t.Parallel()
	f := facts(machine(), node("Ready Unknown", time.Hour), reporting)
	f.Selection.Targets = nil
	for i := range 12 {
		m := machine(called(fmt.Sprintf("m%02d", i)))
		f.Selection.Targets, f.Observed[m.Name] = append(f.Selection.Targets, m), f.Observed["m"]
	}
	message := Report(f, Decide(f)).Conditions[0].Message
	if n := strings.Count(message, "Would remediate"); n != 10 || !strings.Contains(message, "And 2 Machines more") {
		t.Errorf("%d Machines in %s", n, message)
	}
}
