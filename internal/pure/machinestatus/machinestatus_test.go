// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func object(kind string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	if fields == nil {
		u.Object = map[string]any{}
	}
	u.SetKind(kind)
	u.SetName("m0")
	return u
}

func refers(kind string) reference.Object {
	return reference.Object{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "m0"}, Obj: object(kind, nil)}
}

func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m0", Annotations: map[string]string{}, Labels: map[string]string{}}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	for _, c := range change {
		c(m)
	}
	return m
}

// running builds a Machine that has its Node n0.
func running(m *clusterv1.Machine) {
	m.Spec.Bootstrap.DataSecretName = new("m0-data")
	m.Status.NodeRef.Name = "n0"
	m.Status.Initialization = clusterv1.MachineInitializationStatus{InfrastructureProvisioned: new(true), BootstrapDataSecretCreated: new(true)}
}

func deleted(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now} }

func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// facts are those of a Machine on its way, with both its objects.
func facts(change ...func(*Facts)) Facts {
	f := Facts{Machine: machine(), Generation: 3, Now: now, BootstrapConfig: refers("Config"), Infrastructure: refers("Host")}
	for _, c := range change {
		c(&f)
	}
	return f
}

// Changes of facts.
func up(f *Facts) { running(f.Machine); f.Node.Node, f.Node.Connected = node(), true }
func going(f *Facts) {
	deleted(f.Machine)
	f.Deletion = Stage{"DrainingNode", "Drain not completed yet"}
}
func missing(f *Facts) {
	f.BootstrapConfig.Obj, f.BootstrapConfig.Missing, f.Infrastructure.Obj, f.Infrastructure.Missing = nil, true, nil, true
}
func unread(f *Facts) { f.BootstrapConfig.Obj, f.Infrastructure.Obj = nil, nil }

func text(c *metav1.Condition) string {
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts           Facts
		bootstrap, host string
	}{
		"on its way": {facts(), "False NotReady: Waiting for Config m0 to create bootstrap data", "False NotReady: Waiting for Host m0 to be provisioned"},
		"done":       {facts(up), "True Ready: ", "True Ready: "},
		"provisioned, but lacks something": {facts(up, func(f *Facts) { f.DataLacks, f.HostLacks = "status.dataSecretName", "spec.providerID" }),
			"False NotReady: Waiting for Config m0 to set status.dataSecretName", "False NotReady: Waiting for Host m0 to set spec.providerID"},
		"what does not exist": {facts(missing),
			"False ObjectDoesNotExist: Config m0 does not exist: create it, or correct the reference", "False ObjectDoesNotExist: Host m0 does not exist: create it, or correct the reference"},
		"what has gone": {facts(up, missing),
			"False ObjectDeleted: Config m0 has been deleted while the Machine still exists: its bootstrap data is still there", "False ObjectDeleted: Host m0 has been deleted while the Machine still exists: delete the Machine to replace it"},
		"deleted after deletion started": {facts(up, missing, going), "Unknown ObjectDeleted: Config m0 has been deleted", "Unknown ObjectDeleted: Host m0 has been deleted"},
		"what never was, in a deletion":  {facts(missing, going), "Unknown ObjectDoesNotExist: Config m0 does not exist", "Unknown ObjectDoesNotExist: Host m0 does not exist"},
		"not looked for without Cluster": {facts(unread), "Unknown InternalError: Waiting for Cluster demo, named by spec.clusterName, to exist", "Unknown InternalError: Waiting for Cluster demo, named by spec.clusterName, to exist"},
		"data that a user brings":        {facts(up, func(f *Facts) { f.BootstrapConfig = reference.Object{} }), "True DataSecretProvided: ", "True Ready: "},
		"data without a source":          {facts(func(f *Facts) { f.BootstrapConfig = reference.Object{} }), "False NotReady: spec.bootstrap has neither configRef nor dataSecretName: set one of them", "False NotReady: Waiting for Host m0 to be provisioned"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			got := []string{text(conditions.Get(tc.facts.Machine, clusterv1.MachineBootstrapConfigReadyCondition)), text(conditions.Get(tc.facts.Machine, clusterv1.MachineInfrastructureReadyCondition))}
			if diff := cmp.Diff([]string{tc.bootstrap, tc.host}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANodeThatIsNotSeen(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	lost := func(last, graceEnds time.Time) func(*Facts) {
		return func(f *Facts) {
			f.Node.LastProbe, f.Node.GraceEnds, f.Node.Awaited = last, graceEnds, "Waiting for a connection"
		}
	}
	was := func(reason string) func(*Facts) {
		return func(f *Facts) {
			conditions.Set(f.Machine, ago(time.Hour), conditions.New(clusterv1.MachineNodeHealthyCondition, metav1.ConditionUnknown, reason, "as it was"))
		}
	}
	gone := func(f *Facts) { running(f.Machine); f.Node.Gone, f.Node.Connected = true, true }
	for name, tc := range map[string]struct {
		facts Facts
		want  string // of NodeHealthy
	}{
		"what is waited for":                         {facts(func(f *Facts) { f.Node.Awaited, f.Node.Connected = "Waiting for a Node", true }), "Unknown InspectionFailed: Waiting for a Node"},
		"why it cannot be looked for":                {facts(func(f *Facts) { f.Node.Failure = "two Nodes" }), "Unknown InternalError: two Nodes"},
		"within the grace period it stays as it was": {facts(lost(ago(time.Minute), now.Add(time.Minute)), was("Was")), "Unknown Was: as it was"},
		"unless nothing was known":                   {facts(lost(ago(time.Minute), now.Add(time.Minute))), "Unknown ConnectionDown: Last successful probe at 2026-03-02T07:59:00Z"},
		"then it is unknown":                         {facts(lost(ago(time.Hour), ago(time.Second)), was("Was")), "Unknown ConnectionDown: Last successful probe at 2026-03-02T07:00:00Z"},
		"a process that never reached it":            {facts(lost(time.Time{}, ago(time.Second)), was("Was")), "Unknown ConnectionDown: Waiting for a connection"},
		"leaves what an earlier one knew":            {facts(lost(time.Time{}, ago(time.Second)), was(clusterv1.MachineNodeConnectionDownReason)), "Unknown ConnectionDown: as it was"},
		"gone while the Machine is there":            {facts(gone), "False NodeDeleted: Node n0 has been deleted while the Machine still exists"},
		"deleted with its Machine":                   {facts(gone, going), "Unknown NodeDeleted: Node n0 has been deleted"},
		"a Machine that is deleted before it joined": {facts(going), "Unknown NodeDoesNotExist: Node does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			if diff := cmp.Diff(tc.want, text(conditions.Get(tc.facts.Machine, clusterv1.MachineNodeHealthyCondition))); diff != "" {
				t.Errorf("NodeHealthy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAvailableAndItsDeadline(t *testing.T) {
	t.Parallel()
	readySince := func(ago time.Duration, minimum int32) func(*Facts) {
		return func(f *Facts) {
			up(f)
			f.Machine.Spec.MinReadySeconds = &minimum
			conditions.Set(f.Machine, now.Add(-ago), conditions.New(clusterv1.MachineReadyCondition, metav1.ConditionTrue, clusterv1.MachineReadyReason, ""))
		}
	}
	lost := func(f *Facts) { f.Node.Node, f.Node.Connected, f.Node.GraceEnds = nil, false, now.Add(3*time.Second) }
	for name, tc := range map[string]struct {
		facts    Facts
		want     string
		wantWake time.Duration
	}{
		"not ready":                         {facts(), "False NotReady: ", 0},
		"ready for long enough":             {facts(readySince(10*time.Second, 10)), "True Available: ", 0},
		"not ready for long enough":         {facts(readySince(4*time.Second, 10)), "False WaitingForMinReadySeconds: ", 6 * time.Second},
		"a connection whose grace will end": {facts(lost), "False NotReady: ", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			if got := text(conditions.Get(tc.facts.Machine, clusterv1.MachineAvailableCondition)); got != tc.want {
				t.Errorf("Available %s, want %s", got, tc.want)
			}
			var wake time.Duration
			if at := Deadline(tc.facts); !at.IsZero() {
				wake = at.Sub(now)
			}
			if wake != tc.wantWake {
				t.Errorf("requeues after %s, want %s", wake, tc.wantWake)
			}
		})
	}
}

func TestDeletionUpdateAndGenerationAreReported(t *testing.T) {
	t.Parallel()
	f := facts(up, going, func(f *Facts) {
		f.Update = Stage{clusterv1.MachineInPlaceUpdatingReason, "the extension copies files"}
		f.UpToDate = &metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: "Updating"}
	})
	Report(f)
	for conditionType, want := range map[string]string{
		clusterv1.MachineDeletingCondition: "True DrainingNode: Drain not completed yet",
		clusterv1.MachineUpdatingCondition: "True InPlaceUpdating: the extension copies files",
		clusterv1.MachineUpToDateCondition: "False Updating: ",
	} {
		if got := conditions.Get(f.Machine, conditionType); text(got) != want || got.ObservedGeneration != 3 {
			t.Errorf("%s %s, want %s", conditionType, text(got), want)
		}
	}
	if m := conditions.Message(f.Machine, clusterv1.MachineReadyCondition); m != "* Deleting: Machine deletion in progress, stage: DrainingNode\n* Updating: the extension copies files" {
		t.Errorf("Ready says %q", m)
	}
	if f.Machine.Status.ObservedGeneration != 3 || f.Machine.Status.LastUpdated.IsZero() {
		t.Errorf("status %+v", f.Machine.Status)
	}
	failed := facts(func(f *Facts) { f.Failed = true })
	if Report(failed); failed.Machine.Status.ObservedGeneration != 0 {
		t.Error("a status that a failed reconcile reports is of the generation")
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
			got := nodeConditions(facts(func(f *Facts) { f.Node.Node = node(tc.node) }))
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
	for _, c := range []string{"APIServerPodHealthy", "SchedulerPodHealthy", "EtcdMemberHealthy", "NodeKubeadmLabelsAndTaintsSet", "AgentReady", "Draining"} {
		m.Spec.ReadinessGates = append(m.Spec.ReadinessGates, clusterv1.MachineReadinessGate{ConditionType: c})
	}
	m.Spec.ReadinessGates[5].Polarity = clusterv1.NegativePolarityCondition
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
	set("NodeKubeadmLabelsAndTaintsSet", "Unknown", "Waiting for a Node")
	set("EtcdMemberHealthy", "False", "Member is broken")
	want := "* Control plane components: Waiting for a Node\n* EtcdMemberHealthy: Member is broken\n* AgentReady: Condition AgentReady not yet reported"
	if diff := cmp.Diff(want, ready(Facts{Machine: m, Now: now}).Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestAHealthCheckThatDoesNotKnowIsNoWordOnReadiness(t *testing.T) {
	t.Parallel()
	for status, want := range map[metav1.ConditionStatus]string{
		"True": "True * HealthCheckSucceeded: said", "False": "False * HealthCheckSucceeded: said", "Unknown": "True ",
	} {
		m := machine()
		for conditionType, s := range map[string]metav1.ConditionStatus{
			"BootstrapConfigReady": "True", "InfrastructureReady": "True", "NodeHealthy": "True", "Deleting": "False", "Updating": "False",
		} {
			conditions.Set(m, now, metav1.Condition{Type: conditionType, Status: s, Reason: "R"})
		}
		conditions.Set(m, now, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: status, Reason: "R", Message: "said"})
		got := ready(Facts{Machine: m, Now: now})
		if string(got.Status)+" "+got.Message != want {
			t.Errorf("%s: Ready %s %q, want %q", status, got.Status, got.Message, want)
		}
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
		clusterv1.MachinePhaseDeleting: func(m *clusterv1.Machine) { running(m); deleted(m) },
	} {
		if got := phaseOf(Facts{Machine: machine(change)}); got != want {
			t.Errorf("phase %s, want %s", got, want)
		}
	}
}
