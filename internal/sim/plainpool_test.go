// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// plainPool is a MachinePool of a provider that has no infrastructure machines:
// the test is that provider, and the Nodes too.
type plainPool struct {
	*story
	t     *testing.T
	nodes client.Client // of the workload cluster
}

// createPlainPool adds such a pool to a cluster.
func createPlainPool(t *testing.T, w *story, replicas int32, with ...func(*clusterv1.MachinePool)) plainPool {
	t.Helper()
	nodes, err := w.clusters.Client(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"})
	w.must(err)
	w.must(w.Mgmt.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "fleets.x.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}},
	}))
	fleet := &unstructured.Unstructured{}
	fleet.SetAPIVersion("x.io/v1")
	fleet.SetKind("Fleet")
	fleet.SetNamespace("default")
	fleet.SetName("pool")
	w.must(w.Mgmt.Create(t.Context(), fleet))
	pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pool"}}
	pool.Spec = clusterv1.MachinePoolSpec{ClusterName: "demo", Replicas: &replicas}
	pool.Spec.Template.Labels = map[string]string{"node-role.kubernetes.io/cheap": ""}
	pool.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Fleet", Name: "pool"},
	}
	for _, f := range with {
		f(pool)
	}
	w.must(w.Mgmt.Create(t.Context(), pool))
	w.Run()
	return plainPool{w, t, nodes}
}

// reports sets the machines that the provider reports.
func (p plainPool) reports(replicas int, ids ...string) {
	p.t.Helper()
	fleet := &unstructured.Unstructured{}
	fleet.SetAPIVersion("x.io/v1")
	fleet.SetKind("Fleet")
	text := strings.Join(ids, " ")
	if len(ids) > 10 {
		text = fmt.Sprintf("%d provider IDs", len(ids))
	}
	change(p.t, p.story, "pool", fleet, fmt.Sprintf("the provider has %d machines, and lists %s", replicas, text), func(f *unstructured.Unstructured) {
		list := make([]any, len(ids))
		for i, id := range ids {
			list[i] = id
		}
		f.Object["spec"] = map[string]any{"providerIDList": list}
		f.Object["status"] = map[string]any{"ready": true, "replicas": int64(replicas), "initialization": map[string]any{"provisioned": true}}
	})
}

// joins creates the Node of a machine, or changes whether it is ready.
func (p plainPool) joins(id string, ready corev1.ConditionStatus) {
	p.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-" + id}}
	if err := p.nodes.Get(p.t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		node.Spec = corev1.NodeSpec{ProviderID: "x://" + id, Taints: []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}}
		p.must(p.nodes.Create(p.t.Context(), node))
	}
	before := node.DeepCopy() // to which the cluster's controllers may add
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(p.Clock.Now())}}
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse})
	}
	p.must(p.nodes.Status().Patch(p.t.Context(), node, client.MergeFrom(before)))
}

// record writes the status of the pool and its Nodes.
func (p plainPool) record() {
	p.t.Helper()
	mp := get(p.t, p.story, "pool", &clusterv1.MachinePool{})
	p.Record("MachinePool pool: %s, %d replicas, %d ready, %d provider IDs, %d Nodes", mp.Status.Phase, *mp.Status.Replicas, *mp.Status.ReadyReplicas, len(mp.Spec.ProviderIDList), len(mp.Status.NodeRefs))
	for _, c := range []string{clusterv1.AvailableCondition, clusterv1.MachinesReadyCondition} {
		is := conditions.Get(mp, c)
		p.Record("  %s %s %s", c, is.Status, is.Message)
	}
	var nodes corev1.NodeList
	p.must(p.nodes.List(p.t.Context(), &nodes))
	for _, n := range nodes.Items {
		if strings.HasPrefix(n.Name, "n-") {
			_, cheap := n.Labels["node-role.kubernetes.io/cheap"]
			p.Record("Node %s: of %s %s, label %v, %d taints", n.Name, n.Annotations[clusterv1.OwnerKindAnnotation], n.Annotations[clusterv1.OwnerNameAnnotation], cheap, len(n.Spec.Taints))
		}
	}
}

func TestAPoolWithoutMachinesFollowsItsProvider(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	p := createPlainPool(t, w, 3)
	for _, id := range []string{"a", "b", "c"} {
		p.joins(id, corev1.ConditionTrue)
	}
	p.reports(3, "x://a", "x://b", "x://c")
	p.record()
	p.reports(3, "x://a")
	p.record()
	w.Record("# Node n-c is not ready")
	p.joins("c", corev1.ConditionUnknown)
	w.Run()
	p.record()
	p.reports(2, "x://a", "x://a", "x://b", "")
	p.record()
	foreign := get(t, w, "demo-control-plane-1", &clusterv1.Machine{}).Spec.ProviderID
	p.reports(3, "x://a", "x://b", foreign)
	p.record()
	change(t, w, "pool", &clusterv1.MachinePool{}, "scale to 1", func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = new(int32(1)) })
	p.reports(1, "x://a")
	p.record()
	end(t, w)
	w.Golden("a-pool-without-machines-follows-its-provider.txt")
}

// TestRequestsOfAPoolWithoutMachines holds that changes of the list cost writes of
// the pool, and none for each machine.
func TestRequestsOfAPoolWithoutMachines(t *testing.T) {
	t.Parallel()
	const replicas = 50
	w := New(t)
	create(t, w, "demo", 1, 0)
	p := createPlainPool(t, w, replicas)
	var ids []string
	for i := range replicas {
		id := fmt.Sprintf("%02d", i)
		p.joins(id, corev1.ConditionTrue)
		ids = append(ids, "x://"+id)
	}
	before := w.Requests()
	p.reports(replicas, ids...)
	sent := w.Requests()
	if spec, status := sent["patch MachinePool"]-before["patch MachinePool"], sent["patch status of MachinePool"]-before["patch status of MachinePool"]; spec != 1 || status > 2 {
		t.Errorf("a list of %d provider IDs costs %d and %d writes of the pool and its status", replicas, spec, status)
	}
	if mp := get(t, w, "pool", &clusterv1.MachinePool{}); *mp.Status.ReadyReplicas != replicas || len(mp.Status.NodeRefs) != replicas {
		t.Errorf("%d ready, %d Nodes", *mp.Status.ReadyReplicas, len(mp.Status.NodeRefs))
	}
	slices.Reverse(ids)
	before = w.Requests()
	p.reports(replicas, ids...)
	if n := w.Requests()["patch MachinePool"] - before["patch MachinePool"]; n != 0 {
		t.Errorf("another order of the list costs %d writes", n)
	}
}

func TestAPoolWithoutMachinesTakesItsNodesAlong(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"a-pool-without-machines-goes": false, "a-pool-without-machines-goes-unheard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := New(t)
			create(t, w, "demo", 1, 0)
			p := createPlainPool(t, w, 2, func(mp *clusterv1.MachinePool) {
				mp.Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(60))
			})
			p.joins("a", corev1.ConditionTrue)
			p.joins("b", corev1.ConditionTrue)
			p.reports(2, "x://a", "x://b")
			w.clusters.cut = cut
			w.Record("# delete the pool; demo is cut off: %v", cut)
			w.must(w.Mgmt.Delete(t.Context(), get(t, w, "pool", &clusterv1.MachinePool{})))
			w.RunFor(59 * time.Second)
			for _, mp := range w.objects("MachinePool") {
				w.Record("MachinePool pool: %s", conditions.Message(mp.(conditions.Getter), clusterv1.DeletingCondition))
			}
			w.RunFor(2 * time.Second)
			w.clusters.cut = false
			var nodes corev1.NodeList
			w.must(p.nodes.List(t.Context(), &nodes))
			w.Record("%d pools, %d Nodes in addition to that of the control plane", len(w.objects("MachinePool")), len(nodes.Items)-1)
			w.Golden(name + ".txt")
		})
	}
}
