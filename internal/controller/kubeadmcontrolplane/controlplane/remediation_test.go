// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

func TestRemediate(t *testing.T) {
	t.Parallel()
	type change = func(*Facts)
	record := func(ago time.Duration, count int32) change {
		return func(f *Facts) {
			f.Machines[0].Annotations[controlplanev1.RemediationForAnnotation] = Record{"z", metav1.NewTime(now.Add(-ago)), count}.String()
		}
	}
	spec := func(f *Facts) *controlplanev1.KubeadmControlPlaneRemediationSpec {
		return &f.ControlPlane.Spec.Remediation
	}
	both := func(all ...change) change {
		return func(f *Facts) {
			for _, c := range all {
				c(f)
			}
		}
	}
	tests := map[string]struct {
		machines string
		change   change
		want     string // machine, then reason and message, or "delete"
		retries  int32
	}{
		"no unhealthy machine":               {"a,b,c", nil, "", 0},
		"one of three":                       {"a unhealthy nomember,b,c", nil, "a delete", 0},
		"the one with the worst trouble":     {"a unhealthy,b unhealthy nomember,c,d,e", nil, "b delete", 0},
		"the one a user chose":               {"a unhealthy nomember,b unhealthy chosen,c,d,e", nil, "b delete", 0},
		"one without a Node before others":   {"a unhealthy failing,b unhealthy bare,c,d", nil, "b delete", 0},
		"not one whose order does not stand": {"a unhealthy nomember,b unhealthy,c,d,e", func(f *Facts) { f.OrdersHeld = []string{"a"} }, "b delete", 0},
		"one is being replaced": {"a unhealthy,b,c", func(f *Facts) {
			f.ControlPlane.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: "{}"}
		}, "", 0},
		"it is going already":      {"a unhealthy going,b,c", nil, "", 0},
		"another goes":             {"a unhealthy,b going,c", nil, "a RemediationDeferred KubeadmControlPlane waiting for control plane Machine b deletion to complete before triggering remediation", 0},
		"another comes up":         {"a unhealthy,b,c bare", nil, "a RemediationDeferred KubeadmControlPlane waiting for control plane Machine c to have a Node before triggering remediation", 0},
		"the only one":             {"a unhealthy", nil, "a CannotBeRemediated KubeadmControlPlane can't remediate if current replicas are less or equal to 1", 0},
		"the only one before init": {"a unhealthy bare", func(f *Facts) { f.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil }, "a delete", 0},
		"no other works":           {"a unhealthy,b failing,c failing", nil, "a RemediationDeferred KubeadmControlPlane can't remediate this machine because no other machine would be left with healthy control plane components", 0},
		"etcd not known":           {"a unhealthy,b,c", func(f *Facts) { f.Etcd.Err = errors.New("timeout") }, "a RemediationDeferred KubeadmControlPlane can't remediate while etcd members are not known: timeout", 0},
		"etcd would lose":          {"a unhealthy,b,c", func(f *Facts) { f.Etcd.Members[1].Healthy = false }, "a RemediationDeferred KubeadmControlPlane can't remediate this machine because this could result in etcd losing quorum: etcd would have 1 healthy of 3 members and needs 2", 0},
		"the member of another is dead and has no Machine": {"a unhealthy nomember,b,c", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members, members("x!")...) },
			"a RemediationDeferred KubeadmControlPlane can't remediate this machine because this could result in etcd losing quorum: etcd would have 2 healthy of 4 members and needs 3", 0},
		"a member has never run": {"a unhealthy nomember,b,c", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members[:2], members("?")...) },
			"a RemediationDeferred KubeadmControlPlane can't remediate this machine because this could result in etcd losing quorum: etcd member 3f is a learner that has not caught up yet", 0},
		"its own has never run": {"a unhealthy bare,b,c", func(f *Facts) { f.Etcd.Members = append(f.Etcd.Members[1:], members("?")...) }, "a delete", 0},
		"external etcd is not asked": {"a unhealthy,b,c", func(f *Facts) {
			f.Etcd.Err = errors.New("none")
			f.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"x"}
		}, "a delete", 0},
		"not connected": {"a unhealthy,b,c", func(f *Facts) { f.Workload.Connected = false }, "a RemediationDeferred KubeadmControlPlane can't remediate while the workload cluster is not connected", 0},
		"a step of an upgrade has come": {"a unhealthy,b,c", func(f *Facts) {
			f.Cluster.Spec.Topology.Version, f.ControlPlane.Spec.Version = "v9", "v8"
			f.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: "v8"}
		}, "a delete", 0},
		"a version is on its way":       {"a unhealthy,b,c", func(f *Facts) { f.Cluster.Spec.Topology.Version = "v9" }, "a RemediationDeferred Waiting for a version upgrade to v9 to be propagated from Cluster.spec.topology", 0},
		"a replacement that failed too": {"a unhealthy,b,c", record(time.Minute, 2), "a delete", 3},
		"one that was healthy for long": {"a unhealthy,b,c", record(2*time.Hour, 2), "a delete", 0},
		"too soon after the last":       {"a unhealthy,b,c", both(record(time.Minute, 0), func(f *Facts) { spec(f).RetryPeriodSeconds = new(int32(300)) }), "a RemediationDeferred KubeadmControlPlane can't remediate this machine because the operation already failed in the latest 5m0s (spec.remediation.retryPeriodSeconds)", 0},
		"too often":                     {"a unhealthy,b,c", both(record(time.Minute, 2), func(f *Facts) { spec(f).MaxRetry = new(int32(2)) }), "a CannotBeRemediated KubeadmControlPlane can't remediate this machine because the operation already failed 2 times (spec.remediation.maxRetry)", 0},
		"rubbish in the annotation":     {"a unhealthy,b,c", func(f *Facts) { f.Machines[0].Annotations[controlplanev1.RemediationForAnnotation] = "x" }, "a CannotBeRemediated Annotation controlplane.cluster.x-k8s.io/remediation-for: it is not the JSON of a remediation", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{ControlPlane: controlPlane(3), Cluster: &clusterv1.Cluster{}, Machines: machines(tc.machines), Workload: Workload{Connected: true}, Now: now}
			for i, m := range f.Machines {
				f.Etcd.Members = append(f.Etcd.Members, quorum.Member{ID: uint64(i), Name: m.Name, Healthy: !contains(tc.machines, m.Name+" unhealthy")})
			}
			if tc.change != nil {
				tc.change(&f)
			}
			got := ""
			c := Remediate(f)
			switch {
			case c != nil && c.Reason == "":
				got = c.Machine.Name + " delete"
			case c != nil:
				got = c.Machine.Name + " " + c.Reason + " " + c.Message
			}
			if got != tc.want && !(tc.want != "" && contains(got, tc.want)) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if c != nil && c.Reason == "" && c.Record.RetryCount != tc.retries {
				t.Errorf("retry %d, want %d", c.Record.RetryCount, tc.retries)
			}
		})
	}
}

func TestPendingOrderIsCheckedAgain(t *testing.T) {
	t.Parallel()
	f := facts(3, "a unhealthy nomember,b,c")
	f.OrdersHeld, f.OrdersHeldUntil = []string{"a"}, now.Add(10*time.Second)
	if r := Remediate(f); r != nil {
		t.Errorf("remediation %+v", r)
	}
	if _, due := Report(f, Outcome{}); !due.Equal(f.OrdersHeldUntil) {
		t.Errorf("due at %s, want %s", due, f.OrdersHeldUntil)
	}
}

func TestTimeAloneMayAllowARemediation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		period, healthy, most int32 // spec.remediation, in seconds; -1 for none
		ago                   time.Duration
		count                 int32
		reason                string // empty: the remediation starts
		wait                  time.Duration
		retries               int32
	}{
		"too soon":                               {300, 3600, -1, time.Minute, 0, "RemediationDeferred", 4 * time.Minute, 0},
		"soon enough":                            {300, 3600, -1, 5 * time.Minute, 0, "", 0, 1},
		"too soon, but healthy for long":         {300, 120, -1, time.Minute, 0, "RemediationDeferred", time.Minute, 0},
		"too often":                              {-1, 3600, 2, time.Minute, 2, "CannotBeRemediated", 59 * time.Minute, 0},
		"too often, by default for an hour":      {-1, -1, 2, time.Minute, 2, "CannotBeRemediated", 59 * time.Minute, 0},
		"too often, and too soon":                {300, 3600, 2, time.Minute, 2, "RemediationDeferred", 4 * time.Minute, 0},
		"not even once":                          {-1, 3600, 0, time.Minute, 0, "CannotBeRemediated", 59 * time.Minute, 0},
		"often, and healthy just long enough":    {300, 3600, 2, time.Hour, 2, "", 0, 0},
		"often, and healthy for long in between": {300, 3600, 2, 2 * time.Hour, 2, "", 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(3, "a unhealthy nomember,b,c")
			optional := func(v int32) *int32 {
				if v < 0 {
					return nil
				}
				return &v
			}
			f.ControlPlane.Spec.Remediation = controlplanev1.KubeadmControlPlaneRemediationSpec{
				RetryPeriodSeconds: optional(tc.period), MinHealthyPeriodSeconds: optional(tc.healthy), MaxRetry: optional(tc.most),
			}
			f.Machines[0].Annotations[controlplanev1.RemediationForAnnotation] = Record{"z", metav1.NewTime(now.Add(-tc.ago)), tc.count}.String()
			r := Remediate(f)
			wait := time.Duration(0)
			if !r.Retry.IsZero() {
				wait = r.Retry.Sub(now)
			}
			if r.Reason != tc.reason || wait != tc.wait || r.Reason == "" && r.Record.RetryCount != tc.retries {
				t.Errorf("got %q, again after %s, retry %d; want %q, %s, %d", r.Reason, wait, r.Record.RetryCount, tc.reason, tc.wait, tc.retries)
			}
		})
	}
}

func TestUnderWay(t *testing.T) {
	t.Parallel()
	record := func(at time.Time) string { return Record{"z", metav1.NewTime(at), 0}.String() }
	made := machine("a").CreationTimestamp.Time
	tests := map[string]struct {
		replicas   int32
		machines   string
		annotation string
		want       bool
		wantErr    string
	}{
		"a machine is missing":                        {3, "a,b", record(made.Add(time.Hour)), true, ""},
		"a machine is missing in a rollout":           {3, "a old,b old,c", record(made.Add(time.Hour)), true, ""},
		"a newer machine is there":                    {3, "a,b", record(made.Add(-time.Second)), false, ""},
		"a machine of the same age is another":        {3, "a", record(made), true, ""},
		"it is not gone yet":                          {1, "a,z going", record(made.Add(time.Hour)), true, ""},
		"no machine is missing any more":              {1, "a", record(made.Add(time.Hour)), false, ""},
		"there are more than are wanted":              {1, "a,b", record(made.Add(time.Hour)), false, ""},
		"the first, of which none is there":           {1, "", record(made), true, ""},
		"no replacement":                              {3, "a", "", false, ""},
		"the record of the remediation is unreadable": {3, "a", "x", true, "annotation controlplane.cluster.x-k8s.io/remediation-in-progress: it is not the JSON of a remediation"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(tc.replicas, tc.machines)
			if tc.annotation != "" {
				f.ControlPlane.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: tc.annotation}
			}
			got, err := UnderWay(f)
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !contains(err.Error(), tc.wantErr) {
				t.Errorf("got %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}

func TestRecordSurvivesItsAnnotation(t *testing.T) {
	t.Parallel()
	r := Record{"m", metav1.NewTime(now), 2}
	if got := r.String(); got != `{"machine":"m","timestamp":"2026-01-10T00:00:00Z","retryCount":2}` {
		t.Errorf("got %s", got)
	}
	back, err := ParseRecord(r.String())
	if err != nil || back.Machine != r.Machine || back.RetryCount != 2 || !back.Timestamp.Equal(&r.Timestamp) {
		t.Errorf("got %+v, %v", back, err)
	}
}
