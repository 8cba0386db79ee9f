// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// leaving is a pool that is being deleted, and has noted Nodes.
func leaving(timeout int32, nodes ...string) *clusterv1.MachinePool {
	return machinePool(2, deleting, func(p *clusterv1.MachinePool) {
		p.Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds = &timeout
		for _, name := range nodes {
			p.Status.NodeRefs = append(p.Status.NodeRefs, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node(name, "", true).UID})
		}
	})
}

func TestAPoolTakesItsOwnAlong(t *testing.T) {
	t.Parallel()
	infra := hostPool("x://1")
	infra.SetFinalizers([]string{"x.io/hosts"})
	w := newWorld(t, cluster(), leaving(10, "n1"), boot(), infra, node("n1", "x://1", true), node("n2", "x://2", true))
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete HostPool p", "delete Boot p", "patch status of MachinePool p"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := cond(p, clusterv1.DeletingCondition); got != "True Deleting: Waiting for HostPool p, Boot p to be deleted" || p.Status.Phase != "Deleting" {
		t.Errorf("Deleting = %s, phase %s", got, p.Status.Phase)
	}
	w.change(infra, "p", func() { infra.SetFinalizers(nil) })
	p, _, err = w.reconcile()
	if err != nil || p != nil {
		t.Fatalf("error %v, pool %v, want it gone", err, p)
	}
	if w.node("n1") != nil || w.node("n2") == nil {
		t.Error("want n1 deleted, and n2, which the pool has not noted, kept")
	}
}

func TestTheMachinesOfAPoolGoFirst(t *testing.T) {
	t.Parallel()
	w := withMachines(t)
	p := &clusterv1.MachinePool{}
	w.must(w.mgmt.Get(t.Context(), poolKey, p))
	w.must(w.mgmt.Delete(t.Context(), p))
	p, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete HostPool p", "delete Boot p", "delete Machine a", "delete Machine b", "patch status of MachinePool p"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := cond(p, clusterv1.DeletingCondition); got != "True Deleting: Waiting for HostPool p, Boot p, 2 Machines to be deleted" {
		t.Errorf("Deleting = %s", got)
	}
	for _, name := range []string{"a", "b"} {
		m := &clusterv1.Machine{}
		w.change(m, name, func() {})
		m = w.machine(name)
		m.Finalizers = nil
		w.must(w.mgmt.Update(t.Context(), m))
	}
	if p, _, err := w.reconcile(); err != nil || p != nil {
		t.Errorf("error %v, pool %v, want it gone", err, p)
	}
}

func TestHowLongNodesAreTried(t *testing.T) {
	t.Parallel()
	going := cluster()
	going.DeletionTimestamp, going.Finalizers = new(metav1.NewTime(now)), []string{clusterv1.ClusterFinalizer}
	tests := map[string]struct {
		cluster   *clusterv1.Cluster
		timeout   int32
		after     time.Duration
		wantGone  bool
		wantAgain time.Duration
	}{
		"within the timeout":         {cluster: cluster(), timeout: 10, after: 4 * time.Second, wantAgain: 6 * time.Second},
		"after the timeout":          {cluster: cluster(), timeout: 10, after: 10 * time.Second, wantGone: true},
		"without a timeout":          {cluster: cluster(), timeout: 0, after: time.Hour},
		"the Cluster is going, too":  {cluster: going, timeout: 0, wantGone: true},
		"there is no Cluster at all": {timeout: 0, wantGone: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, leaving(tc.timeout, "n1"), node("n1", "x://1", true))
			if tc.cluster != nil {
				w = newWorld(t, tc.cluster, leaving(tc.timeout, "n1"), node("n1", "x://1", true))
			}
			w.workload.health.Connected = false
			w.clock.SetTime(now.Add(tc.after))
			p, res, err := w.reconcile()
			if err != nil || (p == nil) != tc.wantGone || res.RequeueAfter != tc.wantAgain {
				t.Fatalf("error %v, gone %t, again in %v", err, p == nil, res.RequeueAfter)
			}
			const want = "True Deleting: Waiting for the Nodes to be deleted: Waiting for a connection to the workload cluster of Cluster demo"
			if p != nil && cond(p, clusterv1.DeletingCondition) != want {
				t.Errorf("Deleting = %s", cond(p, clusterv1.DeletingCondition))
			}
			if w.node("n1") == nil {
				t.Error("the Node was deleted")
			}
		})
	}
}
