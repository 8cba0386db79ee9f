// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// appeared lets the workload cluster show Nodes, of that age.
func appeared(ago time.Duration, nodes ...string) func(*known) {
	return func(k *known) {
		k.Workload.Inspected, k.Workload.Nodes = true, map[string]*corev1.Node{}
		for _, n := range nodes {
			k.Workload.Nodes[n] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-ago))}}
		}
	}
}

// waits lets something be decided about the remediation of the first machine.
func waits(retry time.Time) func(*known) {
	return func(k *known) {
		k.Remediation = &Remediation{Machine: k.Machines[0], Reason: "RemediationDeferred", Message: "later", Retry: retry}
	}
}

func TestReportSaysUntilWhenItHolds(t *testing.T) {
	t.Parallel()
	asked := func(k *known) { k.Etcd.At = now.Add(-time.Minute) }
	young := func(k *known) { k.Machines[0].CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Second)) }
	coming := func(k *known) { uninitialized(&k.Facts); k.Workload.Connected = false; young(k) }
	deleted := func(k *known) { k.ControlPlane.DeletionTimestamp = new(metav1.NewTime(now)) }
	tests := map[string]struct {
		machines string
		change   []func(*known)
		want     time.Duration // 0: without limit
	}{
		"in steady state":                    {"a,b,c", nil, 0},
		"etcd was asked":                     {"a,b,c", []func(*known){asked}, InspectionLasts - time.Minute},
		"etcd was asked, and is not well":    {"a,b,c", []func(*known){asked, func(k *known) { k.Etcd.At, k.Etcd.MemberErrs = now, map[string]error{"a": errors.New("dead")} }}, 3 * time.Second},
		"a component has just failed":        {"a,b,c", []func(*known){func(k *known) { lately(&k.Facts) }}, failureGracePeriod},
		"a component has failed for a while": {"a failing,b,c", nil, 0},
		"a machine comes up":                 {"a bare", []func(*known){young}, comingUp - 2*time.Second},
		"a machine that goes is described":   {"a bare going", []func(*known){young}, 0},
		"the first is not expected yet":      {"a bare", []func(*known){coming}, comingUp - 2*time.Second},
		"the first is expected soon":         {"a bare going", []func(*known){coming}, FirstContact - 2*time.Second},
		"its first report waits":             {"a new", []func(*known){appeared(time.Second, "a")}, firstReport - time.Second},
		"its first report is complete":       {"a", []func(*known){appeared(time.Second, "a")}, 0},
		"the connection is lost":             {"a", []func(*known){func(k *known) { lost(time.Minute)(&k.Facts) }}, ConnectionGrace - time.Minute},
		"the connection is lost for long":    {"a", []func(*known){func(k *known) { lost(time.Hour)(&k.Facts) }}, 0},
		"a remediation waits":                {"a unhealthy,b,c", []func(*known){waits(now.Add(time.Minute))}, time.Minute},
		"the first of all":                   {"a unhealthy,b,c", []func(*known){waits(now.Add(time.Minute)), asked, func(k *known) { lately(&k.Facts) }}, failureGracePeriod},
		"a rollout is planned": {"a", []func(*known){func(k *known) { k.ControlPlane.Spec.Rollout.After = metav1.NewTime(now.Add(time.Hour)) }},
			time.Hour},
		"it is being deleted": {"a new", []func(*known){appeared(time.Second, "a"), deleted, func(k *known) { k.ControlPlane.Spec.Rollout.After = metav1.NewTime(now.Add(time.Hour)) }}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &known{Facts: facts(3, tc.machines)}
			for _, change := range tc.change {
				change(k)
			}
			_, due := Report(k.Facts, k.Outcome)
			got := time.Duration(0)
			if !due.IsZero() {
				got = due.Sub(now)
			}
			if got != tc.want {
				t.Errorf("holds for %s, want %s", got, tc.want)
			}
		})
	}
}

func TestReportOfAMachine(t *testing.T) {
	t.Parallel()
	const remediated = clusterv1.MachineOwnerRemediatedCondition
	healthy := func(k *known) {
		conditions.Delete(k.Machines[0].Machine, clusterv1.MachineHealthCheckSucceededCondition)
		k.Machines[0].Reported = k.Machines[0].Machine.GetConditions()
		k.Machines[0].Health = k.Machines[0].Reported
	}
	tests := map[string]struct {
		machine string
		change  []func(*known)
		of      string
		want    string // "held" if nothing is written yet
	}{
		"it is as desired":                            {"a", nil, "UpToDate", "True UpToDate "},
		"it is outdated":                              {"a old", nil, "UpToDate", "False NotUpToDate * old"},
		"its components as they were found":           {"a", []func(*known){func(k *known) { k.Machines[0].Health = nil }}, "APIServerPodHealthy", "none"},
		"it has no Node yet":                          {"a new bare", nil, "UpToDate", "held"},
		"it has no Node yet, and is outdated":         {"a new bare old", nil, "UpToDate", "False NotUpToDate * old"},
		"it has no Node any more":                     {"a bare", nil, "UpToDate", "True UpToDate "},
		"its components come up":                      {"a new", []func(*known){appeared(firstReport-1, "a")}, "UpToDate", "held"},
		"its components do not come up":               {"a new", []func(*known){appeared(firstReport, "a")}, "UpToDate", "True UpToDate "},
		"its Node is not there":                       {"a new", []func(*known){appeared(0)}, "UpToDate", "True UpToDate "},
		"it goes before it was ever up":               {"a new going", []func(*known){appeared(0, "a")}, "UpToDate", "True UpToDate "},
		"it has been reported, and comes up again":    {"a failing", []func(*known){appeared(0, "a")}, "APIServerPodHealthy", "False X "},
		"no decision about it":                        {"a unhealthy", nil, remediated, "False X "},
		"its remediation waits":                       {"a unhealthy", []func(*known){waits(now)}, remediated, "False RemediationDeferred later"},
		"its remediation waits, and so does it":       {"a new bare unhealthy", []func(*known){waits(now)}, remediated, "False RemediationDeferred later"},
		"its remediation is decided, and not started": {"a unhealthy", []func(*known){func(k *known) { k.Remediation = &Remediation{Machine: k.Machines[0]} }}, remediated, "False X "},
		"another's remediation waits":                 {"a unhealthy", []func(*known){waits(now), func(k *known) { k.Remediation.Machine = machine("b") }}, remediated, "False X "},
		"it is healthy again":                         {"a unhealthy", []func(*known){healthy}, remediated, "none"},
		"it is healthy again, and goes":               {"a unhealthy going", []func(*known){healthy}, remediated, "False X "},
		"all is being deleted":                        {"a", []func(*known){func(k *known) { k.ControlPlane.DeletionTimestamp = new(metav1.NewTime(now)) }}, "UpToDate", "held"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &known{Facts: facts(1, tc.machine)}
			for _, change := range tc.change {
				change(k)
			}
			before := slices.Clone(k.Machines[0].Machine.GetConditions())
			all, write := ReportMachine(k.Facts, k.Outcome, k.Machines[0])
			got := "held"
			if write {
				got = text(all, tc.of)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, k.Machines[0].Machine.GetConditions()); diff != "" {
				t.Errorf("the Machine itself changed (-before +after)\n%s", diff)
			}
		})
	}
}

func TestRemediationsAreSummedUp(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machines string
		change   func(*known)
		want     string
	}{
		"all are healthy": {"a,b", nil, "False NotRemediating "},
		"no decision yet": {"a unhealthy,b", nil, "True Remediating * Machine a: "},
		"one waits":       {"a unhealthy,b unhealthy", waits(now), "True Remediating * Machine a: later\n* Machine b: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &known{Facts: facts(3, tc.machines)}
			if tc.change != nil {
				tc.change(k)
			}
			if diff := cmp.Diff(tc.want, k.says("Remediating")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReportCountsCurrentUpToDateState(t *testing.T) {
	t.Parallel()
	f := facts(3, "a,b old,c,d")
	report(f.Machines[0], metav1.Condition{Type: "UpToDate", Status: metav1.ConditionFalse, Reason: "X"})
	report(f.Machines[1], metav1.Condition{Type: "UpToDate", Status: metav1.ConditionTrue, Reason: "X"})
	f.Machines[3].Annotations[clusterv1.UpdateInProgressAnnotation] = ""
	f.ControlPlane.Generation, f.ControlPlane.Status.ObservedGeneration = 4, 3
	for _, failed := range []bool{false, true} {
		status, _ := Report(f, Outcome{Failed: failed})
		if *status.Replicas != 4 || *status.UpToDateReplicas != 2 || *status.ReadyReplicas != 0 {
			t.Errorf("%d replicas, %d up to date, %d ready; want 4, 2, 0", *status.Replicas, *status.UpToDateReplicas, *status.ReadyReplicas)
		}
		if got := status.ObservedGeneration; got == 4 == failed {
			t.Errorf("failed %t: observed generation %d", failed, got)
		}
		if c := conditions.Get(conditions.List(status.Conditions), controlplanev1.KubeadmControlPlaneAvailableCondition); c.ObservedGeneration != 4 {
			t.Errorf("a condition of generation %d", c.ObservedGeneration)
		}
	}
	if len(f.ControlPlane.Status.Conditions) != 0 {
		t.Errorf("the control plane itself changed: %v", f.ControlPlane.Status.Conditions)
	}
}
