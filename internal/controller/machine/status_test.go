// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestUpToDate(t *testing.T) {
	t.Parallel()
	template := func(change ...func(*clusterv1.MachineSpec)) clusterv1.MachineTemplateSpec {
		spec := machine().Spec
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
			want: "False NotUpToDate: * Failure domain none, b required\n* Bootstrap config Config m0, Config new required\n* Bootstrap data Secret none, s required\n* Infrastructure Host m0, Host big required",
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
			s := &state{machine: machine(), now: now}
			if tc.machine != nil {
				tc.machine(s.machine)
			}
			s.set = &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: clusterv1.MachineSetSpec{Template: tc.set}}
			s.deployment = &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{Template: tc.deployment}}
			if !tc.after.IsZero() {
				s.deployment.Spec.Rollout.After = metav1.NewTime(tc.after)
			}
			c, ok := upToDate(s)
			if !ok {
				t.Fatal("no condition")
			}
			if diff := cmp.Diff(tc.want, string(c.Status)+" "+c.Reason+": "+c.Message); diff != "" {
				t.Errorf("UpToDate (-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := upToDate(&state{machine: machine(), set: &clusterv1.MachineSet{}}); ok {
		t.Error("a Machine without MachineDeployment got the condition")
	}
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	revised := func(r string) map[string]string { return map[string]string{clusterv1.RevisionAnnotation: r} }
	for name, tc := range map[string]struct {
		set, deployment map[string]string
		want            *bool
		wantErr         string
	}{
		"an older revision":  {set: revised("1"), deployment: revised("2"), want: new(true)},
		"the newest":         {set: revised("10"), deployment: revised("10"), want: new(false)},
		"no revision yet":    {deployment: revised("1")},
		"a broken revision":  {set: revised("one"), deployment: revised("1"), wantErr: `annotation machinedeployment.clusters.x-k8s.io/revision of ns/set must be a number: strconv.ParseInt: parsing "one": invalid syntax`},
		"a broken one above": {set: revised("1"), deployment: revised("x"), wantErr: `annotation machinedeployment.clusters.x-k8s.io/revision of ns/md must be a number: strconv.ParseInt: parsing "x": invalid syntax`},
	} {
		got, err := outdated(&state{
			set:        &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", Annotations: tc.set}},
			deployment: &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md", Annotations: tc.deployment}},
		})
		if errText(err) != tc.wantErr {
			t.Errorf("%s: error %v, want %s", name, err, tc.wantErr)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: outdated (-want +got):\n%s", name, diff)
		}
	}
	if got, err := outdated(&state{}); got != nil || err != nil {
		t.Errorf("without MachineDeployment: %v, %v", got, err)
	}
}

func TestNodeConditions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node                   func(*corev1.Node)
		wantReady, wantHealthy string
	}{
		"all good": {func(*corev1.Node) {}, "True NodeReady: ", "True NodeHealthy: "},
		"not ready": {
			func(n *corev1.Node) {
				n.Status.Conditions[0].Status, n.Status.Conditions[0].Message = "False", "no network"
			},
			"False NodeNotReady: * Node.Ready: no network", "False NodeNotHealthy: * Node.Ready: no network",
		},
		"a silent kubelet, and a full disk": {
			func(n *corev1.Node) { n.Status.Conditions[0].Status, n.Status.Conditions[2].Status = "Unknown", "True" },
			"Unknown NodeReadyUnknown: * Node.Ready: Condition is Unknown", "False NodeNotHealthy: * Node.DiskPressure: Condition is True\n* Node.Ready: Condition is Unknown",
		},
		"a Node that has just joined": {
			func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:1] },
			"True NodeReady: ",
			"Unknown NodeHealthyUnknown: * Node.MemoryPressure: Condition not yet reported\n* Node.DiskPressure: Condition not yet reported\n* Node.PIDPressure: Condition not yet reported",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := nodeConditions(&state{machine: machine(), nodeState: nodeState{node: node(tc.node)}})
			var texts []string
			for _, c := range got {
				texts = append(texts, string(c.Status)+" "+c.Reason+": "+c.Message)
			}
			if diff := cmp.Diff([]string{tc.wantReady, tc.wantHealthy}, texts); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyJoinsTheControlPlane(t *testing.T) {
	t.Parallel()
	m := machine()
	for _, c := range []string{"APIServerPodHealthy", "SchedulerPodHealthy", "EtcdMemberHealthy", "AgentReady", "Draining"} {
		m.Spec.ReadinessGates = append(m.Spec.ReadinessGates, clusterv1.MachineReadinessGate{ConditionType: c})
	}
	m.Spec.ReadinessGates[4].Polarity = clusterv1.NegativePolarityCondition
	set := func(conditionType string, status metav1.ConditionStatus, message string) {
		conditions.Set(m, now, metav1.Condition{Type: conditionType, Status: status, Reason: "R", Message: message})
	}
	for _, good := range []string{"BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"} {
		set(good, "True", "")
	}
	for _, good := range []string{"Deleting", "Updating", "Draining"} {
		set(good, "False", "")
	}
	set("APIServerPodHealthy", "Unknown", "Waiting for a Node")
	set("SchedulerPodHealthy", "Unknown", "Waiting for a Node")
	set("EtcdMemberHealthy", "False", "Member is broken")
	want := "* Control plane components: Waiting for a Node\n* EtcdMemberHealthy: Member is broken\n* AgentReady: Condition AgentReady not yet reported"
	if diff := cmp.Diff(want, ready(&state{machine: m, now: now}).Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	for want, change := range map[clusterv1.MachinePhase]func(*clusterv1.Machine){
		clusterv1.MachinePhasePending: func(*clusterv1.Machine) {},
		clusterv1.MachinePhaseProvisioning: func(m *clusterv1.Machine) {
			m.Status.Initialization.BootstrapDataSecretCreated = new(true)
		},
		clusterv1.MachinePhaseProvisioned: func(m *clusterv1.Machine) { running(m); m.Status.NodeRef.Name = "" },
		clusterv1.MachinePhaseRunning:     running,
		clusterv1.MachinePhaseUpdating: func(m *clusterv1.Machine) {
			running(m)
			conditions.Set(m, now, metav1.Condition{Type: "Updating", Status: "True", Reason: "x"})
		},
		clusterv1.MachinePhaseDeleting: func(m *clusterv1.Machine) { running(m); deletedSince(0)(m) },
	} {
		if got := phaseOf(&state{machine: machine(change)}); got != want {
			t.Errorf("phase %s, want %s", got, want)
		}
	}
}
