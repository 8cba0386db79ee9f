// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestWhoIsOfNoDeploymentIsNotJudged(t *testing.T) {
	t.Parallel()
	s := &state{machine: machine(), set: &clusterv1.MachineSet{}, now: now}
	if report(s, nil); conditions.Has(s.machine, clusterv1.MachineUpToDateCondition) {
		t.Error("a Machine without MachineDeployment got the condition")
	}
	if got, err := outdated(s); got != nil || err != nil {
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
