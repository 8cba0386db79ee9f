// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

// sets are the ReplicaSets, as in "v1: 2 of 3 ready, revision 1".
func (l *lab) sets() []string {
	l.t.Helper()
	var out []string
	for _, s := range load[appsv1.ReplicaSet](l, "apps/v1/replicasets", "default") {
		out = append(out, fmt.Sprintf("%s: %d of %d ready, revision %s", s.Spec.Template.Spec.Containers[0].Image, s.Status.ReadyReplicas, *s.Spec.Replicas, s.Annotations[podplan.RevisionAnnotation]))
	}
	slices.Sort(out)
	return out
}

func (l *lab) deployed(name string) string {
	l.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: meta(name)}
	l.must(l.store.Load(d))
	s := d.Status
	return fmt.Sprintf("observed %d of %d, %d replicas, %d updated, %d ready, %d available, %d unavailable", s.ObservedGeneration, d.Generation, s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UnavailableReplicas)
}

func TestADeploymentIsRolledOutAndBack(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.must(l.store.Add(deployment("web", 3)))
	set := load[appsv1.ReplicaSet](l, "apps/v1/replicasets", "default")[0].Name
	l.want("Pods", l.pods(), set+" on a: Running, ready", set+" on a: Running, ready", set+" on b: Running, ready")
	l.want("status", []string{l.deployed("web")}, "observed 1 of 1, 3 replicas, 3 updated, 3 ready, 3 available, 0 unavailable")

	change(l, &appsv1.Deployment{ObjectMeta: meta("web")}, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
	l.want("rolled out", l.sets(), "v1: 0 of 0 ready, revision 1", "v2: 3 of 3 ready, revision 2")
	change(l, &appsv1.Deployment{ObjectMeta: meta("web")}, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "v1" })
	l.want("rolled back", l.sets(), "v1: 3 of 3 ready, revision 3", "v2: 0 of 0 ready, revision 2")
	change(l, &appsv1.Deployment{ObjectMeta: meta("web")}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
	l.want("scaled", l.sets(), "v1: 1 of 1 ready, revision 3", "v2: 0 of 0 ready, revision 2")

	l.must(l.store.Remove(appsv1.SchemeGroupVersion.WithResource("deployments"), "default", "web"))
	l.want("deleted", append(l.pods(), l.sets()...))
}

func TestARolloutStopsAtWhatDoesNotStart(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(deployment("web", 2)))
	change(l, &appsv1.Deployment{ObjectMeta: meta("web")}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "v2"
		d.Spec.Template.Annotations = map[string]string{podplan.ExitCodeAnnotation: "1"}
	})
	l.want("sets", l.sets(), "v1: 2 of 2 ready, revision 1", "v2: 0 of 1 ready, revision 2")
	l.pass(10 * time.Minute)
	d := &appsv1.Deployment{ObjectMeta: meta("web")}
	l.must(l.store.Load(d))
	if c := d.Status.Conditions[1]; c.Reason != "ProgressDeadlineExceeded" || c.Status != corev1.ConditionFalse {
		t.Errorf("after the deadline: %+v", c)
	}
}

func TestUncontrolledPodIsAdoptedAndReleased(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(deployment("web", 1)))
	pod := load[corev1.Pod](l, "v1/pods", "default")[0]
	change(l, pod, func(p *corev1.Pod) { p.Labels["app"] = "other" })
	if got := len(l.pods()); got != 2 || metav1.GetControllerOf(pod) == nil {
		t.Errorf("%d Pods, want another in place of the one that is none any more", got)
	}
	l.must(l.store.Load(pod))
	if metav1.GetControllerOf(pod) != nil {
		t.Errorf("what no selector picks is still controlled: %+v", pod.OwnerReferences)
	}
	change(l, pod, func(p *corev1.Pod) { p.Labels["app"] = "web" })
	if got := len(l.pods()); got != 1 {
		t.Errorf("%d Pods, want the one too many gone", got)
	}
}

func daemonSet(name string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{ObjectMeta: meta(name), Spec: appsv1.DaemonSetSpec{Selector: selector(name), Template: template(name, "v1")}}
}

func TestADaemonSetIsOnEachNodeThatItTolerates(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	change(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	})
	change(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	l.must(l.store.Add(daemonSet("agent")))
	l.want("Pods", l.pods(), "agent on a: Running, ready", "agent on c: Running, ready")
	l.node("d", 3)
	l.want("with a Node more", l.pods(), "agent on a: Running, ready", "agent on c: Running, ready", "agent on d: Running, ready")
	change(l, &appsv1.DaemonSet{ObjectMeta: meta("agent")}, func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Containers[0].Image = "v2" })
	for _, p := range load[corev1.Pod](l, "v1/pods", "default") {
		if p.Spec.Containers[0].Image != "v2" {
			t.Errorf("Pod %s is of image %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("nodes"), "", "d"))
	d := &appsv1.DaemonSet{ObjectMeta: meta("agent")}
	l.must(l.store.Load(d))
	want := appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, NumberReady: 2, NumberAvailable: 2, UpdatedNumberScheduled: 2}
	if diff := cmp.Diff(want, d.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if got := len(load[appsv1.ControllerRevision](l, "apps/v1/controllerrevisions", "default")); got != 2 {
		t.Errorf("%d revisions, want 2", got)
	}
}

func TestPodsFollowTheirNode(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(&corev1.Pod{ObjectMeta: meta("p"), Spec: template("p", "v1").Spec}))
	l.want("on a Node that is well", l.pods(), "p on a: Running, ready")
	l.ready("a", corev1.ConditionFalse)
	l.want("on one that is not ready", l.pods(), "p on a: Running")
	l.ready("a", corev1.ConditionTrue)
	l.want("on one that recovered", l.pods(), "p on a: Running, ready")
	l.ready("a", corev1.ConditionUnknown)
	l.want("on one whose kubelet is gone", l.pods(), "p on a: Running")
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	l.must(l.store.Remove(pods, "default", "p"))
	l.want("deleted there", l.pods(), "p on a: Running, leaves")
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("nodes"), "", "a"))
	l.want("once the Node is gone", l.pods())
	l.must(l.store.Add(&corev1.Pod{ObjectMeta: meta("q"), Spec: template("q", "v1").Spec}))
	l.want("without any Node", l.pods(), "q on no node: Pending")
	l.node("b", 1)
	l.want("with another one", l.pods(), "q on b: Running, ready")
	l.must(l.store.Remove(pods, "default", "q"))
	l.want("deleted", l.pods())
}

func TestPodsLeaveANodeThatStaysSilent(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.must(l.store.Add(daemonSet("agent")))
	l.must(l.store.Add(deployment("web", 2)))
	set := load[appsv1.ReplicaSet](l, "apps/v1/replicasets", "default")[0].Name
	l.ready("a", corev1.ConditionUnknown)
	l.pass(299 * time.Second)
	l.want("for five minutes nothing moves", l.pods(),
		"agent on a: Running", "agent on b: Running, ready", set+" on a: Running", set+" on b: Running, ready")
	l.pass(time.Second)
	l.want("then what does not tolerate it for ever", l.pods(),
		"agent on a: Running", "agent on b: Running, ready", set+" on a: Running, leaves", set+" on b: Running, ready", set+" on b: Running, ready")
	l.ready("a", corev1.ConditionTrue)
	l.want("back again", l.pods(), "agent on a: Running, ready", "agent on b: Running, ready", set+" on b: Running, ready", set+" on b: Running, ready")
}

func TestANodeGetsARangeForItsPods(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(l.store.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}, Data: map[string]string{
		"ClusterConfiguration": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  podSubnet: 192.168.254.0/23\n",
	}}))
	var got []string
	for i, name := range []string{"a", "b", "c"} {
		l.node(name, i)
	}
	for _, n := range load[corev1.Node](l, "v1/nodes", "") {
		got = append(got, n.Name+" "+n.Spec.PodCIDR)
	}
	l.want("ranges", got, "a 192.168.254.0/24", "b 192.168.255.0/24", "c ")
}
