// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// createPool adds a MachinePool of the local provider to a cluster.
func createPool(t *testing.T, w *story, cluster, name string, replicas int32) {
	t.Helper()
	w.Record("# add pool %s with %d machines", name, replicas)
	meta := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}
	local := &infrav1.LocalMachinePool{ObjectMeta: meta}
	local.Spec.Template.Simulated = &infrav1.LocalMachineSimulated{}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: meta}
	pool := &clusterv1.MachinePool{ObjectMeta: meta}
	pool.Spec = clusterv1.MachinePoolSpec{ClusterName: cluster, Replicas: &replicas}
	pool.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: cluster, Version: "v1.36.3",
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion().Group, Kind: "KubeadmConfig", Name: name}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachinePool", Name: name},
	}
	w.must(w.Mgmt.Create(t.Context(), local))
	w.must(w.Mgmt.Create(t.Context(), config))
	w.must(w.Mgmt.Create(t.Context(), pool))
	w.Run()
}

// endPool writes the final state of a pool.
func endPool(t *testing.T, w *story, name string) {
	t.Helper()
	p := get(t, w, name, &clusterv1.MachinePool{})
	w.Record("MachinePool %s: %s, %d replicas, %d ready, %d up to date, %d provider IDs, %d Nodes", name, p.Status.Phase,
		*p.Status.Replicas, *p.Status.ReadyReplicas, *p.Status.UpToDateReplicas, len(p.Spec.ProviderIDList), len(p.Status.NodeRefs))
	for _, c := range p.Status.Conditions {
		w.Record("  %s", strings.TrimSpace(c.Type+" "+string(c.Status)+" "+c.Reason+" "+c.Message))
	}
}

func TestAPoolComesUpIsScaledAndGoes(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	createPool(t, w, "demo", "pool", 2)
	end(t, w)
	endPool(t, w, "pool")
	change(t, w, "pool", &clusterv1.MachinePool{}, "scale to 4", func(p *clusterv1.MachinePool) { p.Spec.Replicas = new(int32(4)) })
	change(t, w, "pool", &clusterv1.MachinePool{}, "scale to 1", func(p *clusterv1.MachinePool) { p.Spec.Replicas = new(int32(1)) })
	end(t, w)
	endPool(t, w, "pool")
	c := get(t, w, "demo", &clusterv1.Cluster{})
	w.Record("workers of demo: %d desired, %d ready; %s", *c.Status.Workers.DesiredReplicas, *c.Status.Workers.ReadyReplicas, conditions.Reason(c, clusterv1.ClusterWorkersAvailableCondition))
	w.Record("# delete pool")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "pool", &clusterv1.MachinePool{})))
	w.Run()
	end(t, w)
	w.Golden("a-pool-comes-up-is-scaled-and-goes.txt")
}

func TestAClusterTakesItsPoolsAlong(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	createPool(t, w, "demo", "pool", 2)
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	for _, kind := range []string{"Cluster", "MachinePool", "Machine", "LocalMachinePool", "LocalMachine", "KubeadmConfig"} {
		if left := w.objects(kind); len(left) > 0 {
			t.Errorf("%d of %s are left", len(left), kind)
		}
	}
}

// TestRequestsOfAPool holds what the machines of a pool cost the management API
// server; of 200 machines each cost a little less (1657 requests in all).
func TestRequestsOfAPool(t *testing.T) {
	const replicas, limit = 50, 9
	w := newDebounced(t, time.Second)
	create(t, w, "demo", 1, 0)
	w.must(w.World.RunFor(t.Context(), time.Minute))
	before := 0
	for _, n := range w.Requests() {
		before += n
	}
	createPool(t, w, "demo", "pool", replicas)
	w.must(w.World.RunFor(t.Context(), time.Minute))
	all := -before
	for what, n := range w.Requests() {
		all += n
		if n > replicas/10 {
			t.Logf("%d %s", n, what)
		}
	}
	p := get(t, w, "pool", &clusterv1.MachinePool{})
	if *p.Status.ReadyReplicas != replicas || len(p.Status.NodeRefs) != replicas {
		t.Fatalf("%d ready, %d Nodes", *p.Status.ReadyReplicas, len(p.Status.NodeRefs))
	}
	if all > limit*replicas {
		t.Errorf("%d requests for %d machines, at most %d each are promised", all, replicas, limit)
	}
	t.Logf("%d requests for %d machines", all, replicas)
	rest := w.store.writes
	w.Run()
	if w.store.writes != rest {
		t.Errorf("%d writes in steady state", w.store.writes-rest)
	}
	before = w.Requests()["delete Machine"]
	w.must(w.Mgmt.Delete(t.Context(), p))
	w.must(w.World.RunFor(t.Context(), time.Minute))
	if n := w.Requests()["delete Machine"] - before; n != replicas {
		t.Errorf("%d Machines are deleted by %d requests", replicas, n)
	}
}
