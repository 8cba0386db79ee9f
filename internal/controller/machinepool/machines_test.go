// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func (w *world) machine(name string) *clusterv1.Machine {
	w.t.Helper()
	m := &clusterv1.Machine{}
	err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, m)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return m
}

func TestEachInfrastructureMachineGetsAMachine(t *testing.T) {
	t.Parallel()
	foreign := host("b")
	foreign.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "other", UID: "o", Controller: new(true)}})
	controlled := host("c")
	controlled.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: "HostPool", Name: "p", UID: "uid-HostPool-p", Controller: new(true)}})
	elsewhere := host("e")
	elsewhere.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "prod", clusterv1.MachinePoolNameLabel: "p"})
	taken := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "d"}}
	taken.Spec.ClusterName = "demo"
	w := newWorld(t, cluster(), machinePool(2), boot(), machineKind(hostPool("x://a", "x://c")), host("a"), foreign, controlled, host("d"), elsewhere, taken)
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"create Machine a", "create Machine c", "patch MachinePool p", "patch status of MachinePool p"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	m := w.machine("a")
	want := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "uid-a", ResourceVersion: m.ResourceVersion, ManagedFields: m.ManagedFields, Finalizers: []string{clusterv1.MachineFinalizer},
			Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p", "app": "x", "node-role.kubernetes.io/worker": ""},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "p", UID: "uid-p", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.36.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Host", Name: "a"},
			Deletion:          clusterv1.MachineDeletionSpec{NodeDeletionTimeoutSeconds: new(int32(10))},
		},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("Machine (-want +got):\n%s", diff)
	}
	const problems = "* Host b has the label of the pool, and belongs to Machine other: remove the label, or that owner\n" +
		"* Host d has the label of the pool, and belongs to a Machine of the same name, which is not of the pool: remove the label, or that owner"
	if got := cond(p, clusterv1.MachinesReadyCondition); len(got) < len(problems) || got[len("False NotReady: "):][:len(problems)] != problems {
		t.Errorf("MachinesReady = %s\nwant it to begin with %s", got, problems)
	}
	w.settle()
	if _, _, err := w.reconcile(); err != nil || len(w.writes) != 0 {
		t.Errorf("in steady state: error %v, writes %v", err, w.writes)
	}
}

// withMachines is a world in which the pool has Machines a and b, provisioned and
// with Nodes.
func withMachines(t *testing.T, more ...client.Object) *world {
	t.Helper()
	w := newWorld(t, append([]client.Object{cluster(), machinePool(2), boot(), machineKind(hostPool("x://a", "x://b")), host("a"), host("b")}, more...)...)
	w.settle()
	for _, name := range []string{"a", "b"} {
		m := &clusterv1.Machine{}
		w.change(m, name, func() {
			m.Spec.ProviderID, m.Status.NodeRef.Name = "x://"+name, "n-"+name
			m.Status.Initialization.InfrastructureProvisioned = new(true)
			m.Status.Conditions = []metav1.Condition{
				{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(now)},
				{Type: clusterv1.MachineAvailableCondition, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.NewTime(now)},
			}
		})
	}
	w.settle()
	return w
}

func TestAKindOfMachinesThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	infra := machineKind(hostPool())
	if err := unstructured.SetNestedField(infra.Object, "Nothing", "status", "infrastructureMachineKind"); err != nil {
		t.Fatal(err)
	}
	p, _, err := newWorld(t, cluster(), machinePool(0), boot(), infra).reconcile()
	const want = "status.infrastructureMachineKind of HostPool p: kind Nothing.x.io: there is no CRD nothings.x.io: install the provider that brings it, or correct apiGroup and kind"
	if errText(err) != "machines: "+want || cond(p, clusterv1.MachinesReadyCondition) != "False NotReady: * "+want {
		t.Errorf("error %v, MachinesReady %s", err, cond(p, clusterv1.MachinesReadyCondition))
	}
}

// TestMapperTriggersMachinePool covers events of infrastructure machines and Nodes.
func TestMapperTriggersMachinePool(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	w.must(w.mgmt.Create(t.Context(), host("new")))
	for name, tc := range map[string]struct {
		obj  client.Object
		want int
	}{
		"one without a Machine":                {host("new"), 1},
		"not one that has its Machine":         {host("a"), 0},
		"one that has gone before its Machine": {host("b"), 1},
		"not one of no pool":                   {thing("Host", "x", nil), 0},
	} {
		if name == "one that has gone before its Machine" {
			w.must(w.mgmt.Delete(t.Context(), host("b")))
		}
		if got := w.r.ofHost(t.Context(), tc.obj); len(got) != tc.want {
			t.Errorf("%s: reconciled %v, want %d", name, got, tc.want)
		}
	}
	p := machinePool(1)
	p.Status.NodeRefs = []corev1.ObjectReference{{Name: "n"}}
	if looksAfterNodes(p) {
		t.Error("Nodes trigger a pool of Machines")
	}
	p.Status.NodeRefs[0].UID = "u"
	if !looksAfterNodes(p) || !looksAfterNodes(machinePool(1)) {
		t.Error("Nodes do not trigger a pool without Machines")
	}
}

func TestAPoolCountsItsMachines(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if *p.Status.ReadyReplicas != 2 || *p.Status.AvailableReplicas != 2 || p.Status.Phase != "Running" {
		t.Errorf("status %+v", p.Status)
	}
	want := []corev1.ObjectReference{{APIVersion: "v1", Kind: "Node", Name: "n-a"}, {APIVersion: "v1", Kind: "Node", Name: "n-b"}}
	if diff := cmp.Diff(want, p.Status.NodeRefs); diff != "" {
		t.Errorf("nodeRefs (-want +got):\n%s", diff)
	}
}

func TestAMachineGoesWithItsHost(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	if err := w.mgmt.Delete(t.Context(), host("a")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if m := w.machine("a"); m.DeletionTimestamp.IsZero() {
		t.Error("Machine a is not being deleted")
	}
	if m := w.machine("b"); !m.DeletionTimestamp.IsZero() {
		t.Error("Machine b is being deleted")
	}
}

func TestMachinesThatLostTheirOwnerAreAdopted(t *testing.T) {
	t.Parallel()
	labels := map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p"}
	unrelated := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", Labels: labels}}
	unrelated.Spec.ClusterName, unrelated.Spec.InfrastructureRef = "demo", clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Host", Name: "d"}
	w := withMachines(t, host("c"), unrelated)
	m := &clusterv1.Machine{}
	w.change(m, "a", func() { m.OwnerReferences = nil })
	w.settle()
	for name, want := range map[string]bool{"a": true, "b": true, "c": false} {
		m := w.machine(name)
		if m == nil || !m.DeletionTimestamp.IsZero() || metav1.IsControlledBy(m, machinePool(2)) != want {
			t.Errorf("Machine %s: got %v, want it of the pool: %v", name, m, want)
		}
	}
}

// TestMachinesStay covers the cases in which no Machine is deleted.
func TestMachinesStay(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*world) error{
		"the pool's infrastructure has gone": func(w *world) error {
			return w.mgmt.Delete(w.t.Context(), hostPool())
		},
		"the provider has no machines any longer": func(w *world) error {
			u := hostPool("x://a")
			u.SetResourceVersion("")
			w.change(u, "p", func() { u.Object["status"] = fields{"replicas": int64(0), "ready": true} })
			return w.mgmt.Delete(w.t.Context(), host("a"))
		},
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := withMachines(t)
			w.must(do(w))
			for range 3 {
				if _, _, err := w.reconcile(); err != nil {
					t.Log(err)
				}
			}
			for _, name := range []string{"a", "b"} {
				if m := w.machine(name); m == nil || !m.DeletionTimestamp.IsZero() {
					t.Errorf("Machine %s was deleted", name)
				}
			}
		})
	}
}

func TestAnUnhealthyMachineIsDeletedForItsProviderToReplace(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	m := &clusterv1.Machine{}
	w.change(m, "a", func() {
		for _, c := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition} {
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionFalse, Reason: "R", Message: "unhealthy", LastTransitionTime: metav1.NewTime(now)})
		}
	})
	p := w.settle()
	m = w.machine("a")
	if m.DeletionTimestamp.IsZero() || conditions.Message(m, clusterv1.MachineOwnerRemediatedCondition) != "Machine is being deleted and the provider of its MachinePool will replace it; unhealthy" {
		t.Errorf("Machine %+v", m)
	}
	if got := cond(p, clusterv1.RemediatingCondition); got != "True Remediating: * Machine a: Machine is being deleted and the provider of its MachinePool will replace it; unhealthy" {
		t.Errorf("Remediating = %s", got)
	}
}

func TestMachinesFollowTheTemplate(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	p := &clusterv1.MachinePool{}
	w.change(p, "p", func() {
		p.Spec.Template.Labels = map[string]string{"app": "y"}
		p.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
	})
	w.settle()
	m := w.machine("a")
	want := map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p", "app": "y"}
	if diff := cmp.Diff(want, m.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if *m.Spec.Deletion.NodeDrainTimeoutSeconds != 60 || m.Spec.InfrastructureRef.Name != "a" {
		t.Errorf("spec %+v", m.Spec)
	}
}
