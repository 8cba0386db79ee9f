// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestUpToDate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	ref := func(kind, name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: name}
	}
	template := func(change ...func(*clusterv1.MachineSpec)) clusterv1.MachineTemplateSpec {
		spec := clusterv1.MachineSpec{
			Version: "v1.36.0", InfrastructureRef: ref("Host", "m0"), Bootstrap: clusterv1.Bootstrap{ConfigRef: ref("Config", "m0")},
		}
		for _, f := range change {
			f(&spec)
		}
		return clusterv1.MachineTemplateSpec{Spec: spec}
	}
	tests := map[string]struct {
		set, deployment clusterv1.MachineTemplateSpec
		after           time.Time
		machine         func(*clusterv1.Machine)
		want            string
	}{
		"same as the MachineDeployment": {set: template(), deployment: template(), want: "True UpToDate: "},
		"what changes in place does not count": {
			set: template(), deployment: template(func(s *clusterv1.MachineSpec) {
				s.MinReadySeconds, s.Taints = new(int32(5)), []clusterv1.MachineTaint{{Key: "a"}}
			}), want: "True UpToDate: ",
		},
		"another version": {
			set: template(func(s *clusterv1.MachineSpec) { s.Version = "v1.35.0" }), deployment: template(), want: "False NotUpToDate: * Version v1.35.0, v1.36.0 required",
		},
		"other templates, failure domain and data": {
			set: template(), deployment: template(func(s *clusterv1.MachineSpec) {
				s.InfrastructureRef.Name, s.Bootstrap.ConfigRef.Name, s.FailureDomain, s.Bootstrap.DataSecretName = "big", "new", "b", new("s")
			}),
			want: "False NotUpToDate: * Failure domain none, b required\n* Bootstrap config Config m0, Config new required\n* Infrastructure Host m0, Host big required",
		},
		"a Secret in place of a bootstrap config": {
			set: template(), deployment: template(func(s *clusterv1.MachineSpec) { s.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("s")} }),
			want: "False NotUpToDate: * Bootstrap config Config m0, none required\n* Bootstrap data Secret none, s required",
		},
		"a Secret next to a bootstrap config does not count": {
			set: template(), deployment: template(func(s *clusterv1.MachineSpec) { s.Bootstrap.DataSecretName = new("s") }), want: "True UpToDate: ",
		},
		"infrastructure of another group": {
			set: template(), deployment: template(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.APIGroup = "y.io" }),
			want: "False NotUpToDate: * Infrastructure Host m0 of x.io, Host m0 of y.io required",
		},
		"a rollout that is due":     {set: template(), deployment: template(), after: now.Add(-time.Minute), want: "False NotUpToDate: * Rollout wanted after 2026-03-02T07:59:00Z"},
		"a rollout that is not due": {set: template(), deployment: template(), after: now.Add(time.Minute), want: "True UpToDate: "},
		"a rollout that is done":    {set: template(), deployment: template(), after: now.Add(-2 * time.Hour), want: "True UpToDate: "},
		"a kubelet of another version": {
			set: template(), deployment: template(), machine: func(m *clusterv1.Machine) { m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: "v1.35.9"} },
			want: "False NotUpToDate: * Kubelet version v1.35.9, v1.36.0 required",
		},
		"an update in place": {
			set: template(), deployment: template(), machine: func(m *clusterv1.Machine) {
				m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			},
			want: "False Updating: * Update in place is in progress",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{Spec: template().Spec}
			if tc.machine != nil {
				tc.machine(m)
			}
			set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: clusterv1.MachineSetSpec{Template: tc.set}}
			md := &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{Template: tc.deployment}}
			if !tc.after.IsZero() {
				md.Spec.Rollout.After = metav1.NewTime(tc.after)
			}
			c := UpToDate(md, set, m, now)
			if diff := cmp.Diff(tc.want, string(c.Status)+" "+c.Reason+": "+c.Message); diff != "" {
				t.Errorf("UpToDate (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhoIsNotUpToDateIsReplaced shows that Machines are reported up to date by the same
// rule by which a rollout replaces them.
func TestWhoIsNotUpToDateIsReplaced(t *testing.T) {
	t.Parallel()
	md := deployment(1)
	md.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Config", Name: "a"}
	for name, change := range map[string]func(*clusterv1.MachineDeployment){
		"nothing":                 func(*clusterv1.MachineDeployment) {},
		"version":                 func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = "v3" },
		"group of a reference":    func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup = "y.io" },
		"Secret next to a config": func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Bootstrap.DataSecretName = new("s") },
		"a rollout that is due":   after(90 * time.Minute),
		"one that is not":         after(3 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, wanted := epoch.Add(2*time.Hour), md.DeepCopy()
			change(wanted)
			f := Facts{Deployment: wanted, Sets: []Set{set(md, "new", "v2", 1, 1, 1)}, Now: now}
			c := UpToDate(wanted, f.Sets[0].MachineSet, &clusterv1.Machine{}, now)
			if upToDate := c.Status == metav1.ConditionTrue; upToDate == f.Lacking() {
				t.Errorf("up to date %v (%s), replaced %v", upToDate, c.Message, f.Lacking())
			}
		})
	}
}

func TestSuperseded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set, deployment string
		want            bool
		wantErr         string
	}{
		"an older revision":             {set: "1", deployment: "2", want: true},
		"the newest":                    {set: "10", deployment: "10"},
		"one that is not noted yet":     {set: "2", deployment: "1"},
		"no revision yet":               {deployment: "1"},
		"none of the MachineDeployment": {set: "1"},
		"a broken revision":             {set: "one", deployment: "1", wantErr: `annotation machinedeployment.clusters.x-k8s.io/revision of ns/set must be a number: strconv.ParseInt: parsing "one": invalid syntax`},
		"a broken one above":            {set: "1", deployment: "x", wantErr: `annotation machinedeployment.clusters.x-k8s.io/revision of ns/md must be a number: strconv.ParseInt: parsing "x": invalid syntax`},
	} {
		revised := func(name, r string) metav1.ObjectMeta {
			m := metav1.ObjectMeta{Namespace: "ns", Name: name}
			if r != "" {
				m.Annotations = map[string]string{clusterv1.RevisionAnnotation: r}
			}
			return m
		}
		got, err := Superseded(
			&clusterv1.MachineDeployment{ObjectMeta: revised("md", tc.deployment)},
			&clusterv1.MachineSet{ObjectMeta: revised("set", tc.set)})
		if (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
			t.Errorf("%s: error %v, want %s", name, err, tc.wantErr)
		}
		if got != tc.want {
			t.Errorf("%s: superseded %v, want %v", name, got, tc.want)
		}
	}
	if got, err := Superseded(nil, &clusterv1.MachineSet{}); got || err != nil {
		t.Errorf("without MachineDeployment: %v, %v", got, err)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	base := deployment(1).Spec.Template
	with := func(f func(*clusterv1.MachineSpec)) clusterv1.MachineTemplateSpec {
		t := *base.DeepCopy()
		f(&t.Spec)
		return t
	}
	host := clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "HostTemplate", Name: "a"}
	base.Spec.InfrastructureRef = host
	base.Spec.InfrastructureRef.Name = "b"
	tests := map[string]struct {
		want clusterv1.MachineTemplateSpec
		text []string
	}{
		"none":                       {want: base},
		"what changes in place":      {want: with(func(s *clusterv1.MachineSpec) { s.MinReadySeconds = new(int32(3)) })},
		"version":                    {want: with(func(s *clusterv1.MachineSpec) { s.Version = "v3" }), text: []string{"Version v2, v3 required"}},
		"failure domain":             {want: with(func(s *clusterv1.MachineSpec) { s.FailureDomain = "b" }), text: []string{"Failure domain none, b required"}},
		"infrastructure":             {want: with(func(s *clusterv1.MachineSpec) { s.InfrastructureRef = host }), text: []string{"Infrastructure HostTemplate b, HostTemplate a required"}},
		"the kind of another group":  {want: with(func(s *clusterv1.MachineSpec) { s.InfrastructureRef.APIGroup = "y.io" }), text: []string{"Infrastructure HostTemplate b of x.io, HostTemplate b of y.io required"}},
		"bootstrap config":           {want: with(func(s *clusterv1.MachineSpec) { s.Bootstrap.ConfigRef = host }), text: []string{"Bootstrap config none, HostTemplate a required"}},
		"secret":                     {want: with(func(s *clusterv1.MachineSpec) { s.Bootstrap.DataSecretName = new("s") }), text: []string{"Bootstrap data Secret none, s required"}},
		"a secret made for a config": {want: with(func(s *clusterv1.MachineSpec) { s.Bootstrap.DataSecretName = new("s"); s.Bootstrap.ConfigRef = host }), text: []string{"Bootstrap config none, HostTemplate a required"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.text, Differences(base, tc.want)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
