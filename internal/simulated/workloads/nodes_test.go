// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// taints are those of a Node, with their effects.
func (l *lab) taints(name string) (out []string) {
	l.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.must(l.store.Load(n))
	for _, t := range n.Spec.Taints {
		text := t.Key + ":" + string(t.Effect)
		if t.TimeAdded == nil {
			text += " without a time"
		}
		out = append(out, text)
	}
	return out
}

// TestCordonedNodesHaveTheirTaint: a drain cordons a Node, and its kubelet can stop and
// start meanwhile.
func TestCordonedNodesHaveTheirTaint(t *testing.T) {
	t.Parallel()
	const cordon, repels, evicts = "node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"
	l := newLab(t, "a")
	schedulable := func(is bool) {
		change(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) { n.Spec.Unschedulable = !is })
	}
	l.want("at first", l.taints("a"))
	schedulable(false)
	l.want("cordoned", l.taints("a"), cordon)
	l.ready("a", corev1.ConditionUnknown)
	l.want("silent", l.taints("a"), cordon, repels, evicts)
	l.ready("a", corev1.ConditionTrue)
	l.want("again there", l.taints("a"), cordon)
	l.must(l.store.Add(&corev1.Pod{ObjectMeta: meta("p"), Spec: template("p", "v1").Spec}))
	l.want("a Pod meanwhile", l.pods(), "p on no node: Pending")
	schedulable(true)
	l.want("uncordoned", l.taints("a"))
	l.want("the Pod then", l.pods(), "p on a: Running, ready")
}

// TestPodsLeaveNodesThatUsersTaint: kubectl sets no time from which a toleration counts.
func TestPodsLeaveNodesThatUsersTaint(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	tolerates := func(name string, seconds *int64) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name), Spec: template(name, "v1").Spec}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}}
		return p
	}
	l.must(l.store.Add(tolerates("always", nil)))
	l.must(l.store.Add(tolerates("briefly", new(int64(60)))))
	l.must(l.store.Add(&corev1.Pod{ObjectMeta: meta("never"), Spec: template("never", "v1").Spec}))
	change(l, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	})
	l.want("taints", l.taints("a"), "k:NoExecute")
	l.want("at first", l.pods(), "always on a: Running, ready", "briefly on a: Running, ready")
	l.pass(59 * time.Second)
	l.want("before its time", l.pods(), "always on a: Running, ready", "briefly on a: Running, ready")
	l.pass(time.Second)
	l.want("in its time", l.pods(), "always on a: Running, ready")
}

func TestDaemonPodsOfDeletedNodesAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	d := daemonSet("large")
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500")}
	l.must(l.store.Add(d))
	l.want("on a Node that is too small", l.pods(), "large on no node: Pending")
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("nodes"), "", "a"))
	l.want("without it", l.pods())
	if events := load[corev1.Event](l, "v1/events", "default"); len(events) > 0 && strings.Contains(events[0].Reason, "Panicked") {
		t.Errorf("got %+v", events[0])
	}
}
