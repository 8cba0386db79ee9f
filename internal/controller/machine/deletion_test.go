// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/controller/machine/machinedeletion"
)

// held adds a finalizer that prevents the removal of a deleted object.
func held(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetFinalizers([]string{"held"})
	return u
}

func release(t *testing.T, c client.Client, ref clusterv1.ContractVersionedObjectReference) {
	t.Helper()
	u := object(ref, nil)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	u.SetFinalizers(nil)
	if err := c.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, UID: "u"}, Spec: corev1.PodSpec{NodeName: "n0"}}
	for _, f := range change {
		f(p)
	}
	return p
}

func TestDeletionGoesInOrder(t *testing.T) {
	t.Parallel()
	hooked := func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{"pre-drain.delete.hook.machine.cluster.x-k8s.io/b": "", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/a": ""}
	}
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, hooked, deletedSince(time.Minute)),
		held(bootstrapped()), held(provisioned()), node(), pod("p0"))
	expect := func(step, want string, writes ...string) *clusterv1.Machine {
		t.Helper()
		m, _, err := w.reconcile()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if m == nil {
			if want != "gone" {
				t.Fatalf("%s: the Machine is gone", step)
			}
		} else if got := cond(m, "Deleting"); !strings.HasPrefix(got, want) {
			t.Fatalf("%s: Deleting = %s\nwant %s", step, got, want)
		}
		if diff := cmp.Diff(writes, w.writes); diff != "" {
			t.Fatalf("%s: writes (-want +got):\n%s", step, diff)
		}
		return m
	}
	drop := func(annotation string) {
		t.Helper()
		m := &clusterv1.Machine{}
		if err := w.mgmt.Get(t.Context(), machineKey, m); err != nil {
			t.Fatal(err)
		}
		delete(m.Annotations, annotation)
		if err := w.mgmt.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	status := "patch status of Machine"
	m := expect("a pre-drain hook holds", "True WaitingForPreDrainHook: Waiting for pre-drain hooks to complete (since 2026-03-02T08:00:00Z), that is for the removal of the annotations: pre-drain.delete.hook.machine.cluster.x-k8s.io/b", status)
	if m.Status.Phase != "Deleting" || cond(m, "Ready") != "False NotReady: * Deleting: Machine deletion in progress, stage: WaitingForPreDrainHook" {
		t.Errorf("phase %s, Ready %s", m.Status.Phase, cond(m, "Ready"))
	}
	expect("and holds", "True WaitingForPreDrainHook")
	drop("pre-drain.delete.hook.machine.cluster.x-k8s.io/b")
	expect("then the Node is drained", "True DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z):\n* Pod app/p0: eviction accepted", "patch Node", "create eviction of Pod", status)
	expect("then a pre-terminate hook holds", "True WaitingForPreTerminateHook: Waiting for pre-terminate hooks", status)
	drop("pre-terminate.delete.hook.machine.cluster.x-k8s.io/a")
	expect("then the host goes", "True WaitingForInfrastructureDeletion: Waiting for Host m0 to be deleted", "delete Host", status)
	expect("and is waited for", "True WaitingForInfrastructureDeletion")
	release(t, w.mgmt, hostRef)
	expect("then the bootstrap config", "True WaitingForBootstrapDeletion: Waiting for Config m0 to be deleted", "delete Config", status)
	release(t, w.mgmt, configRef)
	expect("then the Node and the Machine", "gone", "delete Node", "patch Machine")
	if err := w.nodes.Get(t.Context(), client.ObjectKey{Name: "n0"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("Node: %v, want gone", err)
	}
	if diff := cmp.Diff([]string{"Normal SuccessfulDrainNode drained Node n0"}, w.told()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestADeletionCanBeReplayed also covers the answers of real clients.
func TestADeletionCanBeReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, deletedSince(time.Minute)), held(provisioned()), node(), pod("p0"))
	m := &clusterv1.Machine{}
	if err := w.mgmt.Get(t.Context(), machineKey, m); err != nil {
		t.Fatal(err)
	}
	s, err := w.r.observe(t.Context(), m)
	if err == nil {
		_, err = w.r.lookAround(t.Context(), s)
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := machinedeletion.Planner.Make(deletionFacts(s), func(q machinedeletion.Question) (machinedeletion.Answer, error) { return w.r.answer(t.Context(), s, q) })
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(made)
	var read machinedeletion.Record
	if err = errors.Join(err, json.Unmarshal(stored, &read)); err != nil {
		t.Fatal(err)
	}
	again, err := machinedeletion.Planner.Again(read)
	if diff := cmp.Diff(made.Plan, again); err != nil || diff != "" || made.Plan.Reason != clusterv1.MachineDeletingDrainingNodeReason {
		t.Errorf("error %v, plan of the record (-first +again):\n%s", err, diff)
	}
}

func TestTheNodeIsSpared(t *testing.T) {
	t.Parallel()
	external := object(planeRef, map[string]any{"status": map[string]any{"externalManagedControlPlane": true}})
	tests := map[string]struct {
		objects   []client.Object
		machine   func(*clusterv1.Machine)
		wantSpare bool
	}{
		"of a Cluster that is being deleted": {objects: []client.Object{cluster(func(c *clusterv1.Cluster) {
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: now}, []string{clusterv1.ClusterFinalizer}
		}), plane(), controlPlaneMachine()}, wantSpare: true},
		"of a Cluster that is gone":                {objects: nil, wantSpare: true},
		"not when its object alone is gone":        {objects: []client.Object{cluster(), controlPlaneMachine()}},
		"when the control plane is being deleted":  {objects: []client.Object{cluster(), object(planeRef, nil, going), controlPlaneMachine()}, wantSpare: true},
		"when no control plane Machine is left":    {objects: []client.Object{cluster(), plane()}, wantSpare: true},
		"not when the control plane runs outside":  {objects: []client.Object{cluster(), external}},
		"not when a control plane Machine is left": {objects: []client.Object{cluster(), plane(), controlPlaneMachine()}},
		"not without a reference to a control plane": {
			objects: []client.Object{cluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} }), controlPlaneMachine()},
		},
		"not when it is known by provider ID only": {
			objects: []client.Object{cluster(), plane(), controlPlaneMachine()}, machine: func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := tc.machine
			if change == nil {
				change = func(*clusterv1.Machine) {}
			}
			w := newWorld(t, append(tc.objects, machine(running, change, deletedSince(0)), node())...)
			m, _, err := w.reconcile()
			if err != nil || m != nil {
				t.Fatalf("machine %v, error %v", m, err)
			}
			err = w.nodes.Get(t.Context(), client.ObjectKey{Name: "n0"}, &corev1.Node{})
			if spared := err == nil; spared != tc.wantSpare {
				t.Errorf("Node spared: %v (%v), want %v", spared, err, tc.wantSpare)
			}
		})
	}
}

func TestADrainThatIsSkipped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		machine func(*clusterv1.Machine)
		host    *unstructured.Unstructured
		node    func(*corev1.Node)
		want    bool // evicted
	}{
		"is done": {want: true},
		"when it is excluded": {machine: func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.ExcludeNodeDrainingAnnotation: ""}
		}},
		"when its time is over": {machine: func(m *clusterv1.Machine) {
			m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: metav1.NewTime(now.Add(-time.Minute))}
		}},
		"not before its time is over": {want: true, machine: func(m *clusterv1.Machine) {
			m.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: metav1.NewTime(now.Add(-59 * time.Second))}
		}},
		"when the pre-terminate hooks are under way": {machine: func(m *clusterv1.Machine) {
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{WaitForPreTerminateHookStartTime: metav1.NewTime(now)}
		}},
		"when the host is going":                   {host: object(hostRef, nil, going)},
		"is done for a Node that lost its ID":      {want: true, node: func(n *corev1.Node) { n.Spec.ProviderID = "" }},
		"when another machine has the Node's name": {node: func(n *corev1.Node) { n.Spec.ProviderID = "x://other" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := tc.machine
			if change == nil {
				change = func(*clusterv1.Machine) {}
			}
			nodeChange := tc.node
			if nodeChange == nil {
				nodeChange = func(*corev1.Node) {}
			}
			h := tc.host
			if h == nil {
				h = held(provisioned())
			}
			w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, change, deletedSince(0)), h, node(nodeChange), pod("p0"))
			if _, _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			err := w.nodes.Get(t.Context(), client.ObjectKey{Namespace: "app", Name: "p0"}, &corev1.Pod{})
			if evicted := apierrors.IsNotFound(err); evicted != tc.want {
				t.Errorf("evicted: %v (%v), want %v", evicted, err, tc.want)
			}
		})
	}
}

func TestDrainReportsBlockingPods(t *testing.T) {
	t.Parallel()
	budget := apierrors.NewTooManyRequestsError("")
	budget.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "The disruption budget web needs 2 healthy pods and has 2 currently"}}}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	refusals := map[string]error{"budget": budget, "terminating": terminating, "broken": errors.New("boom"), "gone": apierrors.NewNotFound(schema.GroupResource{}, "gone"),
		"replaced": apierrors.NewConflict(schema.GroupResource{}, "replaced", errors.New("another UID")), "busy": apierrors.NewTooManyRequestsError("try again later")}
	owned := func(kind, name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}
		}
	}
	rule := &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "last"}}
	rule.Spec.Drain = clusterv1.MachineDrainRuleDrainConfig{Behavior: clusterv1.MachineDrainRuleDrainBehaviorDrain, Order: new(int32(5))}
	rule.Spec.Pods = []clusterv1.MachineDrainRulePodSelector{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"late": "yes"}}}}
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, deletedSince(0)), held(provisioned()), node(), rule,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: map[string]string{"late": "yes"}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "ds"}},
		pod("budget"), pod("terminating"), pod("broken"), pod("gone"), pod("replaced"), pod("busy"), pod("daemon", owned("DaemonSet", "ds")),
		pod("slow", func(p *corev1.Pod) { p.Labels = map[string]string{clusterv1.PodDrainLabel: "wait-completed"} }),
		pod("late", func(p *corev1.Pod) { p.Namespace = "late" }), pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }))
	w.workload.client = interceptor.NewClient(w.nodes.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return refusals[o.GetName()]
		},
	})
	m, res, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"True DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z):",
		"* Pod app/replaced: eviction accepted, waiting for it to be removed from the Node",
		"* Pod app/budget: cannot evict pod as it would violate the pod's disruption budget. The disruption budget web needs 2 healthy pods and has 2 currently",
		"* Pod app/busy: failed to evict Pod, Too many requests: try again later",
		"* Pod app/broken: failed to evict Pod, boom",
		"* Pod app/terminating: the namespace is being deleted, waiting for it to take the pod along",
		"* Pod app/slow: waiting for completion",
		"After above Pods have been removed from the Node, the following Pods will be evicted: late/late",
	}, "\n")
	if diff := cmp.Diff(want, cond(m, "Deleting")); diff != "" {
		t.Errorf("Deleting (-want +got):\n%s", diff)
	}
	if res.RequeueAfter != time.Second {
		t.Errorf("requeue after %s", res.RequeueAfter)
	}
}

func TestLongEvictionsContinueInNextReconcile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, deletedSince(0)), held(provisioned()), node(), pod("p0"), pod("p1"), pod("p2"))
	var asked []string
	w.workload.client = interceptor.NewClient(w.nodes.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			asked = append(asked, o.GetName())
			w.clock.SetTime(w.clock.Now().Add(evictionBudget - time.Second))
			return nil
		},
	})
	m, _, err := w.reconcile()
	want := "True DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z):\n" +
		"* Pods app/p0, app/p1: eviction accepted, waiting for it to be removed from the Node\n* Pod app/p2: its turn comes next, evictions take long"
	if diff := cmp.Diff(want, cond(m, "Deleting")); err != nil || diff != "" {
		t.Errorf("error %v, Deleting (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"p0", "p1"}, asked); diff != "" {
		t.Errorf("evictions (-want +got):\n%s", diff)
	}
}

func TestADrainIsDoneWhenThePodsHaveGoneByThemselves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, deletedSince(0)), held(provisioned()), node(), pod("p0"))
	w.workload.client = interceptor.NewClient(w.nodes.(client.WithWatch), interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, o.GetName())
		},
	})
	m, _, err := w.reconcile()
	if got := cond(m, "Deleting"); err != nil || got != "True WaitingForInfrastructureDeletion: Waiting for Host m0 to be deleted" {
		t.Errorf("Deleting = %s, error %v, want the host to go", got, err)
	}
}

// TestAMachineThatIsDeletedBeforeItIsProvisioned has a Machine that joined anyway;
// only its infrastructure machine has the ID by which the Node is found.
func TestAMachineThatIsDeletedBeforeItIsProvisioned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(deletedSince(0)), held(host("x://m0", nil)), node(), pod("p0"))
	for range 2 { // the drain, and the deletion of the infrastructure machine
		if _, _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.nodes.Get(t.Context(), client.ObjectKey{Namespace: "app", Name: "p0"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("Pod: %v, want evicted", err)
	}
	release(t, w.mgmt, hostRef)
	if m := w.settle(); m != nil {
		t.Fatalf("the Machine is still there: Deleting = %s", cond(m, "Deleting"))
	}
	if err := w.nodes.Get(t.Context(), client.ObjectKey{Name: "n0"}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		t.Errorf("Node: %v, want gone", err)
	}
}

func TestDeletionReportsDuplicateProviderID(t *testing.T) {
	t.Parallel()
	const why = "spec.providerID x://m0 is that of Nodes n0 and n1: delete the one that does not exist"
	bare := func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "" }
	tests := map[string]struct {
		machine func(*clusterv1.Machine)
		host    bool
		want    string // of Deleting, an error too; "gone" if the Machine was deleted
	}{
		"before the drain":                   {func(*clusterv1.Machine) {}, true, "True DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z): " + why},
		"when the Node was not known before": {bare, true, "True DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z): " + why},
		"once the host has gone":             {func(*clusterv1.Machine) {}, false, "True DeletingNode: Deleting Node n0: " + why},
		"and gives up when time is up": {func(m *clusterv1.Machine) {
			m.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(10))
		}, false, "gone"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{cluster(), plane(), controlPlaneMachine(), machine(running, tc.machine, deletedSince(time.Minute)), node(), node(func(n *corev1.Node) { n.Name = "n1" })}
			if tc.host {
				objects = append(objects, held(provisioned()))
			}
			m, _, err := newWorld(t, objects...).reconcile()
			got := "gone"
			if m != nil {
				got = cond(m, "Deleting")
			}
			if got != tc.want || (err == nil) != (tc.want == "gone") {
				t.Errorf("Deleting = %s, error %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestVolumesAreWaitedFor(t *testing.T) {
	t.Parallel()
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	attachment.Spec.NodeName, attachment.Spec.Source.PersistentVolumeName = "n0", new("pv0")
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv0"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "app", Name: "data"}
	waits := "True WaitingForVolumeDetach: Waiting for Node volumes to be detached (started at 2026-03-02T08:00:00Z):\n* PersistentVolumeClaim app/data"
	goesOn := "True WaitingForInfrastructureDeletion: Waiting for Host m0 to be deleted"
	tests := map[string]struct {
		machine func(*clusterv1.Machine)
		node    func(*corev1.Node)
		want    string
	}{
		"an attached volume is waited for": {want: waits},
		"unless that is excluded": {want: goesOn, machine: func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation: ""}
		}},
		"unless its time is over": {want: goesOn, machine: func(m *clusterv1.Machine) {
			m.Spec.Deletion.NodeVolumeDetachTimeoutSeconds = new(int32(5))
			m.Status.Deletion = &clusterv1.MachineDeletionStatus{WaitForNodeVolumeDetachStartTime: metav1.NewTime(now.Add(-5 * time.Second))}
		}},
		"unless the Node is unreachable": {want: goesOn, node: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changeMachine, changeNode := tc.machine, tc.node
			if changeMachine == nil {
				changeMachine = func(*clusterv1.Machine) {}
			}
			if changeNode == nil {
				changeNode = func(*corev1.Node) {}
			}
			w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, changeMachine, deletedSince(0)), held(provisioned()), node(changeNode), attachment.DeepCopy(), volume.DeepCopy())
			m, _, err := w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, cond(m, "Deleting")); diff != "" {
				t.Errorf("Deleting (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletingTheNode(t *testing.T) {
	t.Parallel()
	limit := func(seconds int32) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { m.Spec.Deletion.NodeDeletionTimeoutSeconds = new(seconds) }
	}
	lost := &workload.Health{Since: now.Add(-time.Hour), LastProbeSuccess: now.Add(-30 * time.Second)}
	tests := map[string]struct {
		machine      func(*clusterv1.Machine)
		disconnected *workload.Health // nil: connected
		wantErr      bool
		want         string // of Deleting; "gone" if the Machine was deleted
	}{
		"a failure is tried again":              {limit(60), nil, true, "True DeletingNode: Deleting Node n0: boom"},
		"a failure is given up when time is up": {limit(10), nil, false, "gone"},
		"zero means for ever":                   {limit(0), nil, true, "True DeletingNode: Deleting Node n0: boom"},
		"a lost connection is waited for":       {limit(60), lost, false, "True DeletingNode: Waiting for a connection to the workload cluster, to delete Node n0"},
		"a lost connection is given up too":     {limit(10), lost, false, "gone"},
		"after a restart one is waited for":     {limit(10), &workload.Health{Since: now.Add(-time.Second), Failures: 1}, false, "True DeletingNode: Waiting for a connection to the workload cluster, to delete Node n0"},
		"before the cluster is known, too":      {limit(10), &workload.Health{}, false, "True DeletingNode: Waiting for a connection to the workload cluster, to delete Node n0"},
		"but not of a cluster that fails":       {limit(10), &workload.Health{Since: now.Add(-time.Second), Failures: workload.Persistent}, false, "gone"},
		"nor for long":                          {limit(10), &workload.Health{Since: now.Add(-time.Minute)}, false, "gone"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, tc.machine, deletedSince(30*time.Second)), node())
			if tc.disconnected != nil {
				w.workload.health = *tc.disconnected
			}
			w.workload.client = interceptor.NewClient(w.nodes.(client.WithWatch), interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					return errors.New("boom")
				},
			})
			m, _, err := w.reconcile()
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, want one: %v", err, tc.wantErr)
			}
			got := "gone"
			if m != nil {
				got = cond(m, "Deleting")
			}
			if got != tc.want {
				t.Errorf("Deleting = %s, want %s", got, tc.want)
			}
		})
	}
}

// TestANodeWithTheNameOfAnEarlierOneStays has a machine whose host was replaced by another
// one with the same host name, such as a computer with another system on it.
func TestANodeWithTheNameOfAnEarlierOneStays(t *testing.T) {
	t.Parallel()
	theirs := node(func(n *corev1.Node) { n.Spec.ProviderID = "x://other" })
	w := newWorld(t, cluster(), plane(), controlPlaneMachine(), machine(running, deletedSince(time.Second)), theirs)
	if m, _, err := w.reconcile(); err != nil || m != nil {
		t.Fatalf("machine %v, error %v", m, err)
	}
	if err := w.nodes.Get(t.Context(), client.ObjectKeyFromObject(theirs), &corev1.Node{}); err != nil {
		t.Errorf("the Node of the other host: %v", err)
	}
}

func TestHooksHoldEvenWhenTheNodeIsSpared(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), plane(), machine(running, deletedSince(0), func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{"pre-drain.delete.hook.machine.cluster.x-k8s.io": "", "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""}
	}), held(provisioned()), node())
	m, _, err := w.reconcile()
	if err != nil || !strings.HasPrefix(cond(m, "Deleting"), "True WaitingForPreTerminateHook") {
		t.Errorf("Deleting = %s, error %v; pre-terminate hooks hold in any state of the Node", cond(m, "Deleting"), err)
	}
}

func TestTheHostOfAnotherMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	theirs := provisioned()
	theirs.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "other", UID: "other", Controller: new(true)}})
	w := newWorld(t, cluster(), machine(deletedSince(0)), theirs)
	if m, _, err := w.reconcile(); err != nil || m != nil {
		t.Fatalf("machine %v, error %v", m, err)
	}
	if _, err := w.r.Providers.Get(t.Context(), "ns", hostRef); err != nil {
		t.Errorf("the host of the other Machine: %v", err)
	}
}

// TestPodsOfANodeAreReadInPages has one Pod in each page. Like the decoder of JSON, the
// client writes into the memory of the items that the list has.
func TestPodsOfANodeAreReadInPages(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		page, o := list.(*corev1.PodList), (&client.ListOptions{}).ApplyOptions(opts)
		next := map[string]string{"": "a", "a": "b", "b": ""}[o.Continue]
		page.Items, page.Continue = slices.Grow(page.Items[:0], 1)[:1], next
		of := &page.Items[0]
		if len(of.Spec.Containers) == 0 {
			of.Spec.Containers = make([]corev1.Container, 1)
		}
		of.Name, of.Spec.Containers[0].Name = "pod"+o.Continue, "of-pod"+o.Continue
		return nil
	}})
	pods, err := podsOf(t.Context(), c, "n")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"pod", "poda", "podb"} {
		if len(pods) != 3 || pods[i].Name != name || pods[i].Spec.Containers[0].Name != "of-"+name {
			t.Errorf("Pods %+v", pods)
		}
	}
}
