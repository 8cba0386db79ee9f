// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestAPoolFollowsItsProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(2), boot(), hostPool("x://1", "x://2"), node("n1", "x://1", true), node("n2", "x://2", true))
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Node n1", "patch Node n2", "patch MachinePool p", "patch status of MachinePool p"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x://1", "x://2"}, p.Spec.ProviderIDList); diff != "" {
		t.Errorf("spec.providerIDList (-want +got):\n%s", diff)
	}
	if got := p.Spec.Template.Spec.Bootstrap.DataSecretName; got == nil || *got != "data" {
		t.Errorf("dataSecretName %v", got)
	}
	for what, got := range map[string]*int32{"replicas": p.Status.Replicas, "ready": p.Status.ReadyReplicas, "available": p.Status.AvailableReplicas, "up to date": p.Status.UpToDateReplicas} {
		if got == nil || *got != 2 {
			t.Errorf("%s = %v, want 2", what, got)
		}
	}
	wantRefs := []corev1.ObjectReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "uid-n1"}, {APIVersion: "v1", Kind: "Node", Name: "n2", UID: "uid-n2"}}
	if diff := cmp.Diff(wantRefs, p.Status.NodeRefs); diff != "" {
		t.Errorf("nodeRefs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 2}}, p.Status.Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	for conditionType, want := range map[string]string{
		clusterv1.AvailableCondition: "True Available", clusterv1.BootstrapConfigReadyCondition: "True Ready", clusterv1.InfrastructureReadyCondition: "True Ready",
		clusterv1.MachinesReadyCondition: "True Ready", clusterv1.MachinesUpToDateCondition: "True UpToDate", clusterv1.RollingOutCondition: "False NotRollingOut",
		clusterv1.ScalingUpCondition: "False NotScalingUp", clusterv1.ScalingDownCondition: "False NotScalingDown", clusterv1.RemediatingCondition: "False NotRemediating",
		clusterv1.DeletingCondition: "False NotDeleting", clusterv1.PausedCondition: "False NotPaused",
	} {
		if got := cond(p, conditionType); got != want {
			t.Errorf("%s = %s, want %s", conditionType, got, want)
		}
	}
	if p.Status.Phase != "Running" {
		t.Errorf("phase %s", p.Status.Phase)
	}
	n := w.node("n1")
	if _, worker := n.Labels["node-role.kubernetes.io/worker"]; !worker || n.Labels["app"] != "" || len(n.Spec.Taints) != 0 {
		t.Errorf("Node has labels %v and taints %v", n.Labels, n.Spec.Taints)
	}
	if n.Annotations[clusterv1.OwnerKindAnnotation] != "MachinePool" || n.Annotations[clusterv1.OwnerNameAnnotation] != "p" || n.Annotations[clusterv1.ClusterNameAnnotation] != "demo" {
		t.Errorf("Node has annotations %v", n.Annotations)
	}
	w.settle() // this API server does not set the predicted generation
	if _, res, err := w.reconcile(); err != nil || len(w.writes) != 0 || res.RequeueAfter != 0 {
		t.Errorf("in steady state: error %v, writes %v, again in %v", err, w.writes, res.RequeueAfter)
	}
}

func TestTheNodeOfAHostThatHasGoneIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(2), boot(), hostPool("x://1", "x://2"), node("n1", "x://1", true), node("n2", "x://2", true))
	w.settle()
	u := hostPool()
	w.change(u, "p", func() {
		u.Object["spec"] = fields{"providerIDList": []any{"x://2"}}
		u.Object["status"] = fields{"replicas": int64(1), "ready": true}
	})
	p := w.settle()
	if w.node("n1") != nil || w.node("n2") == nil {
		t.Error("want n1 deleted, and n2 kept")
	}
	if len(p.Status.NodeRefs) != 1 || p.Status.NodeRefs[0].Name != "n2" || cond(p, clusterv1.ScalingUpCondition) != "True ScalingUp: Scaling up from 1 to 2 replicas" {
		t.Errorf("nodeRefs %v, ScalingUp %s", p.Status.NodeRefs, cond(p, clusterv1.ScalingUpCondition))
	}
}

// TestNodesStay covers the cases in which no Node is deleted, and the status in
// each.
func TestNodesStay(t *testing.T) {
	t.Parallel()
	noted := func(names ...string) func(*clusterv1.MachinePool) {
		return func(p *clusterv1.MachinePool) {
			for _, name := range names {
				p.Status.NodeRefs = append(p.Status.NodeRefs, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID("uid-" + name)})
			}
		}
	}
	short := func(replicas int64, ids ...any) *unstructured.Unstructured {
		u := hostPool(ids...)
		u.Object["status"] = fields{"replicas": replicas, "initialization": fields{"provisioned": true}}
		return u
	}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "m"}}
	machine.Spec.ClusterName, machine.Spec.ProviderID, machine.Status.NodeRef.Name = "demo", "x://1", "n1"
	other := machinePool(1, noted("n1"))
	other.Name, other.UID = "o", "uid-o"
	annotated := node("n1", "x://1", false)
	annotated.Annotations = map[string]string{clusterv1.OwnerKindAnnotation: "MachineSet", clusterv1.OwnerNameAnnotation: "ms"}
	tests := map[string]struct {
		pool     *clusterv1.MachinePool
		infra    *unstructured.Unstructured
		others   []*clusterv1.MachinePool
		machines []*clusterv1.Machine
		node     *corev1.Node
		want     string // MachinesReady
	}{
		"the provider lists fewer provider IDs than it has replicas": {
			pool: machinePool(2, noted("n1")), infra: short(2, "x://2"), node: node("n1", "x://1", true),
			want: "False NotReady: * HostPool p lists the provider IDs of 1 of its 2 replicas\n* Node n1 is ready, and its provider ID x://1 is not listed any more\n* Node x://2: Waiting for a Node with this provider ID",
		},
		"the provider does not say that it is provisioned": {
			pool: machinePool(2, noted("n1")), infra: ours(thing("HostPool", "p", fields{"spec": fields{"providerIDList": []any{}}})), node: node("n1", "x://1", true),
			want: "False NotReady: * Node n1 is ready, and its provider ID x://1 is not listed any more",
		},
		"a Machine has it, listed": {
			pool: machinePool(1), infra: hostPool("x://1"), machines: []*clusterv1.Machine{machine}, node: node("n1", "x://1", false),
			want: "False NotReady: * Node n1 of provider ID x://1 belongs to Machine m\n* Node x://1: Waiting for a Node with this provider ID",
		},
		"a Machine has it, noted": {
			pool: machinePool(0, noted("n1")), infra: hostPool(), machines: []*clusterv1.Machine{machine}, node: node("n1", "x://1", false), want: "True NoReplicas",
		},
		"another pool has it": {
			pool: machinePool(0, noted("n1")), infra: hostPool(), others: []*clusterv1.MachinePool{other}, node: node("n1", "x://1", false), want: "True NoReplicas",
		},
		"it says that it is another's": {pool: machinePool(0, noted("n1")), infra: hostPool(), node: annotated, want: "True NoReplicas"},
		"it took the name of one that has gone": {
			pool: machinePool(0, func(p *clusterv1.MachinePool) {
				p.Status.NodeRefs = []corev1.ObjectReference{{Kind: "Node", Name: "n1", UID: "before"}}
			}),
			infra: hostPool(), node: node("n1", "x://9", false), want: "True NoReplicas",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), tc.pool, boot(), tc.infra, tc.node)
			for _, m := range tc.machines {
				w.must(w.mgmt.Create(t.Context(), m.DeepCopy()))
				stored := &clusterv1.Machine{}
				w.change(stored, m.Name, func() { stored.Status = m.Status })
			}
			for _, p := range tc.others {
				p = p.DeepCopy()
				status := p.Status
				w.must(w.mgmt.Create(t.Context(), p))
				p.Status = status
				w.must(w.mgmt.Status().Update(t.Context(), p))
			}
			p := w.settle()
			if w.node("n1") == nil {
				t.Error("the Node was deleted")
			}
			if got := cond(p, clusterv1.MachinesReadyCondition); got != tc.want {
				t.Errorf("MachinesReady = %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestInvalidProviderIDsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(3), boot(), hostPool("x://1", "x://1", ""), node("n1", "x://1", true), node("n2", "x://1", true))
	p := w.settle()
	const want = "False NotReady: * HostPool p lists an empty provider ID\n* HostPool p lists provider ID x://1 2 times\n" +
		"* HostPool p lists the provider IDs of 1 of its 3 replicas\n* provider ID x://1 is that of Nodes n1 and n2: delete the one that does not exist\n* Node x://1: Waiting for a Node with this provider ID"
	if got := cond(p, clusterv1.MachinesReadyCondition); got != want {
		t.Errorf("MachinesReady = %s\nwant %s", got, want)
	}
	if diff := cmp.Diff([]string{"x://1"}, p.Spec.ProviderIDList); diff != "" {
		t.Errorf("spec.providerIDList (-want +got):\n%s", diff)
	}
}

func TestALostConnectionIsForgivenForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(1), boot(), hostPool("x://1"), node("n1", "x://1", true))
	w.settle()
	w.workload.health.Connected = false
	if _, res, err := w.reconcile(); err != nil || len(w.writes) != 0 || res.RequeueAfter != remoteGrace {
		t.Fatalf("error %v, writes %v, again in %v", err, w.writes, res.RequeueAfter)
	}
	w.clock.SetTime(now.Add(remoteGrace))
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if got := cond(p, clusterv1.MachinesReadyCondition); !strings.HasPrefix(got, "Unknown ConnectionDown: Waiting for a connection") || *p.Status.ReadyReplicas != 1 {
		t.Errorf("MachinesReady = %s with %d ready replicas", got, *p.Status.ReadyReplicas)
	}
}

func TestAMachineIsAvailableAfterMinReadySeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(1, func(p *clusterv1.MachinePool) { p.Spec.Template.Spec.MinReadySeconds = new(int32(90)) }),
		boot(), hostPool("x://1"), node("n1", "x://1", true))
	p, res, err := w.reconcile()
	if err != nil || *p.Status.AvailableReplicas != 0 || *p.Status.ReadyReplicas != 1 || res.RequeueAfter != 30*time.Second {
		t.Fatalf("error %v, status %+v, again in %v", err, p.Status, res.RequeueAfter)
	}
	w.clock.SetTime(now.Add(30 * time.Second))
	if p, _, err = w.reconcile(); err != nil || *p.Status.AvailableReplicas != 1 {
		t.Errorf("error %v, %d available", err, *p.Status.AvailableReplicas)
	}
}
