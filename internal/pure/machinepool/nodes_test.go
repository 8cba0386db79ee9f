// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"fmt"
	"slices"
	"strings"
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

// node returns a Node with the UID of its name.
func node(name, id string, isReady bool, annotations ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}}}
	n.Spec.ProviderID = id
	for i := 0; i < len(annotations); i += 2 {
		n.Annotations[annotations[i]] = annotations[i+1]
	}
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: pressure, Status: corev1.ConditionFalse})
	}
	return n
}

func pool(ids []string, noted ...string) *clusterv1.MachinePool {
	p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
	p.Spec.ClusterName, p.Spec.ProviderIDList = "c", ids
	for _, name := range noted {
		p.Status.NodeRefs = append(p.Status.NodeRefs, corev1.ObjectReference{Name: name, UID: types.UID(name)})
	}
	return p
}

func names(nodes []*corev1.Node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return strings.Join(all, " ")
}

func TestPlanNodesRetiresOnlyLostNodes(t *testing.T) {
	t.Parallel()
	other := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	other.Spec.ProviderID, other.Status.NodeRef.Name = "x://taken", "by-name"
	mine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "own", OwnerReferences: []metav1.OwnerReference{{UID: "p", Controller: new(true)}}}}
	mine.Spec.ProviderID = "x://1"
	tests := map[string]struct {
		pool                        *clusterv1.MachinePool
		whole                       bool
		found                       map[string][]*corev1.Node
		noted                       []*corev1.Node
		mine, retired, refs, report string
	}{
		"nothing yet":               {pool: pool(nil), whole: true},
		"IDs without Nodes":         {pool: pool([]string{"x://1"}), whole: true},
		"one is found":              {pool: pool([]string{"x://1"}), whole: true, found: map[string][]*corev1.Node{"x://1": {node("a", "x://1", true)}}, mine: "a", refs: "a"},
		"two Nodes of one ID":       {pool: pool([]string{"x://1"}), whole: true, found: map[string][]*corev1.Node{"x://1": {node("a", "x://1", true), node("b", "x://1", false)}}, report: "provider ID x://1 is that of Nodes a and b: delete the one that does not exist"},
		"one of a Machine":          {pool: pool([]string{"x://taken"}), whole: true, found: map[string][]*corev1.Node{"x://taken": {node("a", "x://taken", true)}}, report: "Node a of provider ID x://taken belongs to Machine m"},
		"one of a Machine, by name": {pool: pool([]string{"x://1"}), whole: true, found: map[string][]*corev1.Node{"x://1": {node("by-name", "x://1", true)}}, report: "Node by-name of provider ID x://1 belongs to Machine m"},
		"one of an owner that cannot be read": {
			pool: pool([]string{"x://1"}), whole: true, found: map[string][]*corev1.Node{"x://1": {node("a", "x://1", true, clusterv1.OwnerKindAnnotation, "MachinePool", clusterv1.OwnerNameAnnotation, "other\n\x1b")}},
			report: "Node a of provider ID x://1 belongs to MachinePool other",
		},
		"one that the pool has annotated": {
			pool: pool([]string{"x://1"}), whole: true, found: map[string][]*corev1.Node{"x://1": {node("a", "x://1", true, clusterv1.OwnerKindAnnotation, "MachinePool", clusterv1.OwnerNameAnnotation, "p")}}, mine: "a", refs: "a",
		},
		"one whose ID is no longer listed":           {pool: pool([]string{"x://1"}, "a"), whole: true, noted: []*corev1.Node{node("a", "x://0", true)}, retired: "a"},
		"but not by an incomplete list":              {pool: pool([]string{"x://1"}, "a"), noted: []*corev1.Node{node("a", "x://0", true)}, refs: "a", report: "Node a is ready, and its provider ID x://0 is not listed any more"},
		"though one that is not ready":               {pool: pool([]string{"x://1"}, "a"), noted: []*corev1.Node{node("a", "x://0", false)}, retired: "a"},
		"one with another UID is another Node":       {pool: pool(nil, "b"), whole: true, noted: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "new"}}}},
		"one that a Machine has now":                 {pool: pool(nil, "a"), whole: true, noted: []*corev1.Node{node("a", "x://taken", true)}},
		"one with a listed ID that was not found":    {pool: pool([]string{"x://1"}, "a"), whole: true, noted: []*corev1.Node{node("a", "x://1", true)}},
		"one that was recorded without UID stays so": {pool: pool(nil), whole: true, noted: []*corev1.Node{node("a", "x://0", true)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := NewOthers(tc.pool, []*clusterv1.Machine{other, mine}, nil)
			n := PlanNodes(o, tc.whole, tc.found, tc.noted)
			var refs []string
			for _, ref := range n.Refs {
				if !Own(ref) || ref.Kind != "Node" || ref.APIVersion != "v1" {
					t.Errorf("reference %+v", ref)
				}
				refs = append(refs, ref.Name)
			}
			if names(n.Mine) != tc.mine || names(n.Retired) != tc.retired || strings.Join(refs, " ") != tc.refs {
				t.Errorf("mine %q, retired %q, refs %q, want %q, %q, %q", names(n.Mine), names(n.Retired), refs, tc.mine, tc.retired, tc.refs)
			}
			if got := strings.Join(n.Problems, "; "); !strings.HasPrefix(got, tc.report) || (got == "") != (tc.report == "") || strings.ContainsAny(got, "\n\x1b") {
				t.Errorf("problems %q, want %q", got, tc.report)
			}
		})
	}
}

func TestLeavingSparesNodesOfOthers(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	m.Status.NodeRef.Name = "taken"
	o := NewOthers(pool(nil, "a", "taken", "again"), []*clusterv1.Machine{m}, nil)
	again := node("again", "x://1", true)
	again.UID = "another"
	noted := []*corev1.Node{node("a", "x://1", true), node("taken", "x://2", true), again, node("unknown", "x://3", true)}
	if got := names(Leaving(o, noted)); got != "a" || len(noted) != 4 || noted[1].Name != "taken" {
		t.Errorf("leaving %q, of %s", got, names(noted))
	}
}

// TestReportIsNotWholeIfCut: Nodes of IDs beyond the limit must not be retired.
func TestReportIsNotWholeIfCut(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxProviderIDs: true, maxProviderIDs + 1: false} {
		var ids []any
		for i := range n {
			ids = append(ids, fmt.Sprint("x://", i))
		}
		p := pool(nil)
		obj := &unstructured.Unstructured{Object: map[string]any{
			"kind": "Pool", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{"providerIDList": ids}, "status": map[string]any{"ready": true},
		}}
		r, err := TakeInfrastructure(p, obj, contract.V1Beta2)
		if err != nil || r.Whole != want || len(p.Spec.ProviderIDList) != maxProviderIDs || (len(r.Problems) == 0) != want {
			t.Errorf("%d IDs: whole %t with %d, problems %q, %v", n, r.Whole, len(p.Spec.ProviderIDList), r.Problems, err)
		}
	}
}

func TestReportNamesInvalidProviderIDs(t *testing.T) {
	t.Parallel()
	p := pool(nil)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Pool", "metadata": map[string]any{"name": "p"}, "status": map[string]any{"ready": true, "replicas": int64(2)},
		"spec": map[string]any{"providerIDList": []any{"x://1", "", "x://2", "x://1", strings.Repeat("x", 513)}},
	}}
	r, err := TakeInfrastructure(p, obj, contract.V1Beta2)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Pool p lists an empty provider ID", "Pool p lists provider ID x://1 2 times",
		"Pool p lists a provider ID of more than 512 bytes: " + strings.Repeat("x", 60),
	}
	for i := range want {
		if len(r.Problems) != len(want) || !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, want[i]) }) {
			t.Errorf("no %q in %q", want[i], r.Problems)
		}
	}
	if diff := cmp.Diff([]string{"x://1", "x://2"}, p.Spec.ProviderIDList); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
}

func TestMachineTemplateKeepsLabelsOfController(t *testing.T) {
	t.Parallel()
	p := pool(nil)
	p.Name = strings.Repeat("long-", 20)
	p.Spec.Template.Labels = map[string]string{"a": "b", clusterv1.ClusterNameLabel: "another", clusterv1.MachinePoolNameLabel: "another"}
	p.Spec.Template.Spec.Version = "v1.36.0"
	got := MachineTemplate(p)
	if len(NameLabel(p)) > 63 || NameLabel(p) == "" {
		t.Errorf("the value of the label is %q", NameLabel(p))
	}
	if diff := cmp.Diff(map[string]string{"a": "b", clusterv1.ClusterNameLabel: "c", clusterv1.MachinePoolNameLabel: NameLabel(p)}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if len(p.Spec.Template.Labels) != 3 || got.Spec.ClusterName != "c" || got.Spec.Version != "v1.36.0" || *got.Spec.Bootstrap.DataSecretName != "" {
		t.Errorf("spec %+v", got.Spec)
	}
}

func TestFollowKubeletRecordsValidVersions(t *testing.T) {
	t.Parallel()
	for kubelet, want := range map[string]string{"v1.36.1": "v1.36.1", "v1.36.1+vendor.1": "v1.36.1+vendor.1", "": "v1.35.0", "latest": "v1.35.0", "1.36": "v1.35.0"} {
		m := &clusterv1.Machine{}
		m.Spec.Version, m.Status.NodeInfo = "v1.35.0", &corev1.NodeSystemInfo{KubeletVersion: kubelet}
		if FollowKubelet(m); m.Spec.Version != want {
			t.Errorf("kubelet %q: version %q, want %q", kubelet, m.Spec.Version, want)
		}
	}
}

func TestPlaceholdersReportTheirNodes(t *testing.T) {
	t.Parallel()
	p := pool([]string{"x://1", "x://2", "x://3"})
	p.Spec.Template.Spec.MinReadySeconds = new(int32(60))
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 30, 0, time.UTC))
	all := StandIns(p, []*corev1.Node{node("a", "x://1", true), node("b", "x://2", false)}, now)
	var got []string
	for _, m := range all {
		got = append(got, fmt.Sprintf("%s ready=%t nodeReady=%t available=%t", m.Name, conditions.IsTrue(m, clusterv1.MachineReadyCondition),
			conditions.IsTrue(m, clusterv1.MachineNodeReadyCondition), conditions.IsTrue(m, clusterv1.MachineAvailableCondition)))
	}
	want := []string{"a ready=true nodeReady=true available=false", "b ready=false nodeReady=false available=false", "x://3 ready=false nodeReady=false available=false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if at := Deadline(Facts{Pool: p, Now: now.Time, Machines: all, StandIns: true}); !at.Equal(now.Add(30 * time.Second)) {
		t.Errorf("the status changes at %s, want in 30 s", at)
	}
	if at := Deadline(Facts{Pool: p, Now: now.Time, Machines: all}); !at.IsZero() {
		t.Errorf("Machines report it themselves, and yet: %s", at)
	}
	if at := Deadline(Facts{Pool: p, Now: now.Time, Unseen: "x", Until: now.Add(time.Second)}); !at.Equal(now.Add(time.Second)) {
		t.Errorf("an unseen pool changes at %s", at)
	}
}

func TestNodesOfMachinesAreSorted(t *testing.T) {
	t.Parallel()
	var machines []*clusterv1.Machine
	for _, name := range []string{"b", "", "a"} {
		m := &clusterv1.Machine{}
		m.Status.NodeRef.Name = name
		machines = append(machines, m)
	}
	refs := OfMachines(machines)
	if len(refs) != 2 || refs[0].Name != "a" || refs[1].Name != "b" || Own(refs[0]) {
		t.Errorf("got %+v", refs)
	}
}

func TestPhaseFollowsReplicas(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*clusterv1.MachinePool)
		want   clusterv1.MachinePoolPhase
	}{
		"nothing yet": {func(p *clusterv1.MachinePool) { p.Status.Initialization.InfrastructureProvisioned = nil }, clusterv1.MachinePoolPhasePending},
		"with data": {func(p *clusterv1.MachinePool) {
			p.Status.Initialization = clusterv1.MachinePoolInitializationStatus{BootstrapDataSecretCreated: new(true)}
		}, clusterv1.MachinePoolPhaseProvisioning},
		"without a Node":    {func(p *clusterv1.MachinePool) { p.Status.NodeRefs = p.Status.NodeRefs[:1] }, clusterv1.MachinePoolPhaseProvisioned},
		"all is well":       {func(*clusterv1.MachinePool) {}, clusterv1.MachinePoolPhaseRunning},
		"more are desired":  {func(p *clusterv1.MachinePool) { p.Spec.Replicas = new(int32(3)) }, clusterv1.MachinePoolPhaseScalingUp},
		"fewer are desired": {func(p *clusterv1.MachinePool) { p.Spec.Replicas = new(int32(0)) }, clusterv1.MachinePoolPhaseScalingDown},
		"an autoscaler scales": {func(p *clusterv1.MachinePool) {
			p.Spec.Replicas = new(int32(9))
			p.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: ""}
		}, clusterv1.MachinePoolPhaseScaling},
		"an autoscaler of none": {func(p *clusterv1.MachinePool) {
			p.Spec.Replicas = new(int32(9))
			p.Annotations = map[string]string{clusterv1.ReplicasManagedByAnnotation: "false"}
		}, clusterv1.MachinePoolPhaseScalingUp},
		"it is being deleted": {func(p *clusterv1.MachinePool) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }, clusterv1.MachinePoolPhaseDeleting},
	}
	for name, tc := range tests {
		p := pool([]string{"x://1", "x://2"}, "a", "b")
		p.Spec.Replicas, p.Status.Replicas, p.Status.Initialization.InfrastructureProvisioned = new(int32(2)), new(int32(2)), new(true)
		tc.change(p)
		if got := phaseOf(Facts{Pool: p}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
