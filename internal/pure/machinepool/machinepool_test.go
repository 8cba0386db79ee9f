// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
)

func TestTakeInfrastructure(t *testing.T) {
	t.Parallel()
	status := func(replicas int64) map[string]any { return map[string]any{"ready": true, "replicas": replicas} }
	tests := map[string]struct {
		ids          []any
		status       map[string]any
		want         Report
		wantIDs      []string
		wantReplicas *int32
	}{
		"not provisioned: what was known stays": {
			ids: []any{"x://9"}, status: map[string]any{"replicas": int64(1), "infrastructureMachineKind": "Host"},
			want: Report{MachineKind: "Host"}, wantIDs: []string{"x://1", "x://2"},
		},
		"in another order: the list stays as it was": {
			ids: []any{"x://2", "x://1"}, status: status(2), want: Report{Believed: true, News: true, Whole: true}, wantIDs: []string{"x://1", "x://2"}, wantReplicas: new(int32(2)),
		},
		"without a number of replicas": {
			ids: []any{"x://3"}, status: map[string]any{"ready": true}, want: Report{Believed: true, News: true, Whole: true}, wantIDs: []string{"x://3"}, wantReplicas: new(int32(1)),
		},
		"more provider IDs than replicas": {
			ids: []any{"x://1", "x://2"}, status: status(1),
			want:    Report{Believed: true, News: true, Whole: true, Problems: []string{"Pool p lists 2 provider IDs and counts 1 replicas"}},
			wantIDs: []string{"x://1", "x://2"}, wantReplicas: new(int32(1)),
		},
		"fewer provider IDs than replicas": {
			ids: []any{"x://1"}, status: status(3),
			want:    Report{Believed: true, News: true, Problems: []string{"Pool p lists the provider IDs of 1 of its 3 replicas"}},
			wantIDs: []string{"x://1"}, wantReplicas: new(int32(3)),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &clusterv1.MachinePool{Spec: clusterv1.MachinePoolSpec{ProviderIDList: []string{"x://1", "x://2"}}}
			obj := &unstructured.Unstructured{Object: map[string]any{
				"kind": "Pool", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"providerIDList": tc.ids}, "status": tc.status,
			}}
			got, err := TakeInfrastructure(p, obj, contract.V1Beta2)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantIDs, p.Spec.ProviderIDList); diff != "" {
				t.Errorf("spec.providerIDList (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantReplicas, p.Status.Replicas); diff != "" {
				t.Errorf("status.replicas (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMachinesAreMadeAndDeletedInBatches(t *testing.T) {
	t.Parallel()
	var hosts []Host
	var machines []*clusterv1.Machine
	for i := range 15 {
		hosts = append(hosts, Host{Name: fmt.Sprintf("new-%02d", i)})
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("old-%02d", i)}}
		if i > 0 { // a host can go before it is provisioned
			m.Status.Initialization.InfrastructureProvisioned = new(true)
		}
		machines = append(machines, m)
	}
	machines = append(machines, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "new-00"}})
	hosts = append(hosts, Host{Name: "going", Going: true})
	a := Machines("Host", hosts, machines)
	if len(a.Create) != 10 || a.Create[0] != "new-01" || len(a.Delete) != 10 || a.Delete[0].Name != "old-00" {
		t.Errorf("creates %v, deletes %d", a.Create, len(a.Delete))
	}
}

func TestOfTwoPoolsThatNotedANodeTheOlderHasIt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pool := func(name string, age time.Duration, nodes ...string) *clusterv1.MachinePool {
		p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(at.Add(-age))}}
		for _, node := range nodes {
			p.Status.NodeRefs = append(p.Status.NodeRefs, corev1.ObjectReference{Name: node, UID: types.UID(node)})
		}
		return p
	}
	tests := map[string]struct {
		mine, other *clusterv1.MachinePool
		want        string
	}{
		"the other is older":          {pool("a", time.Hour, "n"), pool("b", 2*time.Hour, "n"), "MachinePool b"},
		"the other is younger":        {pool("a", time.Hour, "n"), pool("b", time.Minute, "n"), ""},
		"both are of one age":         {pool("b", time.Hour, "n"), pool("a", time.Hour, "n"), "MachinePool a"},
		"only the other has noted it": {pool("a", time.Hour), pool("b", time.Minute, "n"), "MachinePool b"},
		"none has":                    {pool("a", time.Hour), pool("b", time.Minute), ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOthers(tc.mine, nil, []*clusterv1.MachinePool{tc.mine, tc.other})
			if got := o.holder(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); got != tc.want {
				t.Errorf("holder %q, want %q", got, tc.want)
			}
		})
	}
}

// TestMachinesAreCountedByTheVersionThatIsWantedNow: their own conditions may be for the
// previous version.
func TestMachinesAreCountedByTheVersionThatIsWantedNow(t *testing.T) {
	t.Parallel()
	p := &clusterv1.MachinePool{}
	p.Spec.Template.Spec.Version = "v1.36.0"
	f := Facts{Pool: p, Cluster: &clusterv1.Cluster{}}
	for i, kubelet := range []string{"v1.35.0", "v1.36.0"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: kubelet}}
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		conditions.Set(m, f.Now, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue})
		f.Machines = append(f.Machines, m)
		FillStatus(f)
		if n := *p.Status.UpToDateReplicas; int(n) != i {
			t.Errorf("of %d Machines %d are up to date, want %d", i+1, n, i)
		}
	}
	if !conditions.IsTrue(p, clusterv1.RollingOutCondition) {
		t.Errorf("got %+v", conditions.Get(p, clusterv1.RollingOutCondition))
	}
	if !conditions.IsTrue(f.Machines[0], clusterv1.MachineUpToDateCondition) {
		t.Error("the Machine itself was changed, which is of the cache")
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have, want string
		older      bool
	}{
		"the same":                {"v1.36.0", "v1.36.0", false},
		"a patch behind":          {"v1.36.0", "v1.36.1", true},
		"a minor ahead":           {"v1.37.0", "v1.36.5", false},
		"what a vendor has added": {"v1.36.1-gke.100", "v1.36.1", false},
		"behind, by a vendor":     {"v1.35.1+k3s1", "v1.36.1", true},
		"nothing wanted":          {"v1.35.1", "", false},
		"what is no version":      {"latest", "v1.36.1", false},
	} {
		if got := older(tc.have, tc.want); got != tc.older {
			t.Errorf("%s: %t, want %t", name, got, tc.older)
		}
	}
}

func TestProblemsAreSummarized(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: clusterv1.MachinesReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason}
	if got := withProblems(ready, nil); got != ready {
		t.Errorf("without problems %+v", got)
	}
	got := withProblems(ready, []string{"a", "b", "c", "d", "e", "f", "g"})
	want := metav1.Condition{Type: clusterv1.MachinesReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotReadyReason, Message: "* a\n* b\n* c\n* d\n* e\n* ... (2 more)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
