// SPDX-License-Identifier: Apache-2.0

package draining

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// pod builds a running Pod with a controller; change modifies it.
func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "app", Name: name, Labels: map[string]string{"app": name},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: new(true)}},
	}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}
	}
}

func orphan(p *corev1.Pod) { p.OwnerReferences = nil }
func finish(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
func failed(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
func emptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}
func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func label(v string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[clusterv1.PodDrainLabel] = v }
}

func terminating(since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(-since)} }
}

func rule(name string, b Behavior, order *int32, change ...func(*clusterv1.MachineDrainRuleSpec)) clusterv1.MachineDrainRule {
	r := clusterv1.MachineDrainRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       clusterv1.MachineDrainRuleSpec{Drain: clusterv1.MachineDrainRuleDrainConfig{Behavior: b, Order: order}},
	}
	for _, c := range change {
		c(&r.Spec)
	}
	return r
}

func selector(k, v string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{k: v}}
}

func onPods(s ...clusterv1.MachineDrainRulePodSelector) func(*clusterv1.MachineDrainRuleSpec) {
	return func(r *clusterv1.MachineDrainRuleSpec) { r.Pods = s }
}

func onMachines(s ...clusterv1.MachineDrainRuleMachineSelector) func(*clusterv1.MachineDrainRuleSpec) {
	return func(r *clusterv1.MachineDrainRuleSpec) { r.Machines = s }
}

func TestEvaluate(t *testing.T) {
	t.Parallel()
	const drain, skipped, wait = "Drain 0", "Skip 0", "WaitCompleted 0"
	tests := map[string]struct {
		pod         corev1.Pod
		rules       []clusterv1.MachineDrainRule
		unreachable bool
		want        string
	}{
		"a Pod is evicted":                                  {pod: pod("p"), want: drain},
		"a Pod of a DaemonSet is left alone":                {pod: pod("p", ownedBy("DaemonSet", "ds")), want: skipped},
		"a finished Pod of a DaemonSet is evicted":          {pod: pod("p", ownedBy("DaemonSet", "ds"), finish), want: drain},
		"a Pod whose DaemonSet is gone is evicted":          {pod: pod("p", ownedBy("DaemonSet", "gone")), want: drain},
		"a mirror Pod is left alone":                        {pod: pod("p", mirror, orphan), want: skipped},
		"the loss of an emptyDir is reported":               {pod: pod("p", emptyDir), want: drain + " its emptyDir data is lost"},
		"a Pod without controller is reported":              {pod: pod("p", orphan, emptyDir), want: drain + " its emptyDir data is lost, it has no controller that would create it again"},
		"the label skip":                                    {pod: pod("p", label("skip")), want: skipped},
		"the label wait-completed":                          {pod: pod("p", label("wait-completed")), want: wait},
		"another value of the label has no meaning":         {pod: pod("p", label("maybe")), want: drain},
		"terminating on an unreachable Node counts as gone": {pod: pod("p", terminating(2*time.Second)), unreachable: true, want: skipped},
		"unless it has only just started":                   {pod: pod("p", terminating(time.Second)), unreachable: true, want: drain},
		"terminating on a good Node is waited for":          {pod: pod("p", terminating(time.Hour)), want: drain},
		"a rule without selectors is for all":               {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Drain", new(int32(7)))}, want: "Drain 7"},
		"the first rule by name wins":                       {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("b", "Skip", nil), rule("a", "WaitCompleted", nil)}, want: wait},
		"the label of the Pod comes before a rule":          {pod: pod("p", label("skip")), rules: []clusterv1.MachineDrainRule{rule("a", "Drain", nil)}, want: skipped},
		"a rule for other Pods":                             {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{Selector: selector("app", "x")}))}, want: drain},
		"any of the Pod selectors":                          {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{Selector: selector("app", "x")}, clusterv1.MachineDrainRulePodSelector{Selector: selector("app", "p")}))}, want: skipped},
		"both parts of a Pod selector":                      {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{Selector: selector("app", "p"), NamespaceSelector: selector("team", "x")}))}, want: drain},
		"the namespace of a Pod":                            {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{NamespaceSelector: selector("team", "red")}))}, want: skipped},
		"a rule for other Machines":                         {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onMachines(clusterv1.MachineDrainRuleMachineSelector{Selector: selector("pool", "x")}))}, want: drain},
		"a rule for this Machine in this Cluster":           {pod: pod("p"), rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, onMachines(clusterv1.MachineDrainRuleMachineSelector{Selector: selector("pool", "a"), ClusterSelector: selector("env", "prod")}))}, want: skipped},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Evaluate(Facts{
				Machine:         &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}}},
				Cluster:         &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"env": "prod"}}},
				Rules:           tc.rules,
				Pods:            []corev1.Pod{tc.pod},
				NamespaceLabels: map[string]map[string]string{"app": {"team": "red"}},
				DaemonSets:      map[types.NamespacedName]bool{{Namespace: "app", Name: "ds"}: true},
				Unreachable:     tc.unreachable, Now: now,
			})
			if err != nil {
				t.Fatal(err)
			}
			v := got[0]
			if text := strings.TrimSpace(fmt.Sprintf("%s %d %s", v.Behavior, v.Order, v.Note)); text != tc.want {
				t.Errorf("result %q, want %q", text, tc.want)
			}
		})
	}
}

func TestEvaluateNamesInvalidRule(t *testing.T) {
	t.Parallel()
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	for want, change := range map[string]func(*clusterv1.MachineDrainRuleSpec){
		`MachineDrainRule ns/a: spec.machines: "Near" is not a valid label selector operator`: onMachines(clusterv1.MachineDrainRuleMachineSelector{Selector: broken}),
		`MachineDrainRule ns/a: spec.pods: "Near" is not a valid label selector operator`:     onPods(clusterv1.MachineDrainRulePodSelector{Selector: broken}),
		`MachineDrainRule ns/a: unknown spec.drain.behavior "Later"`:                          func(r *clusterv1.MachineDrainRuleSpec) { r.Drain.Behavior = "Later" },
		`MachineDrainRule ns/a: unknown spec.drain.behavior ""`:                               func(r *clusterv1.MachineDrainRuleSpec) { r.Drain.Behavior = "" },
	} {
		_, err := Evaluate(Facts{
			Machine: &clusterv1.Machine{}, Cluster: &clusterv1.Cluster{}, Pods: []corev1.Pod{pod("p")},
			Rules: []clusterv1.MachineDrainRule{rule("a", "Skip", nil, change)},
		})
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

// TestEvaluateIgnoresInvalidPartsForOtherMachines: a mistake in a rule for some machines
// does not block the drain of others.
func TestEvaluateIgnoresInvalidPartsForOtherMachines(t *testing.T) {
	t.Parallel()
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	others := rule("a", "Later", nil, onMachines(clusterv1.MachineDrainRuleMachineSelector{Selector: selector("pool", "x")}), onPods(clusterv1.MachineDrainRulePodSelector{Selector: broken}))
	got, err := Evaluate(Facts{Machine: &clusterv1.Machine{}, Cluster: &clusterv1.Cluster{}, Pods: []corev1.Pod{pod("p")}, Rules: []clusterv1.MachineDrainRule{others}})
	if err != nil || len(got) != 1 || got[0].Behavior != "Drain" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestEvaluateReturnsPodsInOrder: a condition lists them, and must not change with the
// order in which an API server lists them.
func TestEvaluateReturnsPodsInOrder(t *testing.T) {
	t.Parallel()
	elsewhere := pod("a", func(p *corev1.Pod) { p.Namespace = "aaa" })
	pods := []corev1.Pod{pod("b"), pod("a"), elsewhere}
	got, err := Evaluate(Facts{Machine: &clusterv1.Machine{}, Cluster: &clusterv1.Cluster{}, Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, v := range got {
		keys = append(keys, Key(v.Pod))
	}
	if diff := cmp.Diff([]string{"aaa/a", "app/a", "app/b"}, keys); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFactsNameWhatMustBeRead: what no rule and no Pod needs is not read.
func TestFactsNameWhatMustBeRead(t *testing.T) {
	t.Parallel()
	f := Facts{
		Pods: []corev1.Pod{pod("a", ownedBy("DaemonSet", "x")), pod("b", ownedBy("DaemonSet", "x")), pod("c", ownedBy("DaemonSet", "y")), pod("d"), pod("e", orphan)},
		Rules: []clusterv1.MachineDrainRule{
			rule("all", "Skip", nil), rule("some", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{Selector: selector("a", "b")})),
		},
	}
	if diff := cmp.Diff([]types.NamespacedName{{Namespace: "app", Name: "x"}, {Namespace: "app", Name: "y"}}, f.DaemonSetsOfPods()); diff != "" {
		t.Errorf("DaemonSets (-want +got):\n%s", diff)
	}
	if f.SelectsNamespaces() {
		t.Error("no rule selects by namespaces")
	}
	f.Rules = append(f.Rules, rule("more", "Skip", nil, onPods(clusterv1.MachineDrainRulePodSelector{}, clusterv1.MachineDrainRulePodSelector{NamespaceSelector: &metav1.LabelSelector{}})))
	if !f.SelectsNamespaces() {
		t.Error("a rule selects by namespaces")
	}
}

func TestNextAndReport(t *testing.T) {
	t.Parallel()
	result := func(b Behavior, order int32, p corev1.Pod) Result {
		return Result{Pod: &p, Behavior: b, Order: order}
	}
	started := "Drain not completed yet (started at 2026-03-02T08:00:00Z):\n"
	tests := map[string]struct {
		results []Result
		refused map[string]string
		want    string
	}{
		"nothing left":        {results: []Result{result("Skip", 0, pod("a"))}},
		"skipped have no say": {results: []Result{result("Skip", -5, pod("a")), result("Drain", 0, pod("b"))}, want: started + "* Pod app/b: eviction accepted, waiting for it to be removed from the Node"},
		"lowest order first": {
			results: []Result{result("Drain", 1, pod("a")), result("Drain", -1, pod("b")), result("WaitCompleted", 0, pod("c"))},
			want:    started + "* Pod app/b: eviction accepted, waiting for it to be removed from the Node\nAfter above Pods have been removed from the Node, the following Pods will be evicted: app/a\nAfter above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: app/c",
		},
		"what is deleted already is not evicted later": {
			results: []Result{result("Drain", 2, pod("a", terminating(time.Second))), result("Drain", 1, pod("b")), result("Drain", 2, pod("c"))},
			want: started + "* Pod app/a: deletionTimestamp set, but still not removed from the Node\n* Pod app/b: eviction accepted, waiting for it to be removed from the Node\n" +
				"After above Pods have been removed from the Node, the following Pods will be evicted: app/c",
		},
		"what has completed is not waited for": {
			results: []Result{result("WaitCompleted", 0, pod("a", finish)), result("WaitCompleted", 0, pod("b", failed))},
		},
		"nor does it delay others": {
			results: []Result{result("WaitCompleted", 0, pod("a", finish)), result("Drain", 5, pod("b"))},
			want:    started + "* Pod app/b: eviction accepted, waiting for it to be removed from the Node",
		},
		"what has completed is evicted like others": {
			results: []Result{result("Drain", 0, pod("a", finish))},
			want:    started + "* Pod app/a: eviction accepted, waiting for it to be removed from the Node",
		},
		"what waits is not evicted when it is deleted": {
			results: []Result{result("WaitCompleted", 0, pod("a", terminating(time.Second)))},
			want:    started + "* Pod app/a: waiting for completion",
		},
		"the largest order is one as well": {
			results: []Result{result("Drain", math.MaxInt32, pod("a")), result("Skip", math.MinInt32, pod("b"))},
			want:    started + "* Pod app/a: eviction accepted, waiting for it to be removed from the Node",
		},
		"two Pods of further reasons": {
			results: []Result{
				result("Drain", 0, pod("a")), result("Drain", 0, pod("b")), result("Drain", 0, pod("c")), result("Drain", 0, pod("d")), result("Drain", 0, pod("e")), result("Drain", 0, pod("f")), result("Drain", 0, pod("g")),
			},
			refused: map[string]string{"a": "0", "b": "1", "c": "2", "d": "3", "e": "4", "f": "5", "g": "6"},
			want:    started + "* Pod app/a: 0\n* Pod app/b: 1\n* Pod app/c: 2\n* Pod app/d: 3\n* Pod app/e: 4\n* 2 Pods with other issues",
		},
		"each kind of waiting": {
			results: []Result{result("Drain", 0, pod("a", terminating(time.Second))), result("WaitCompleted", 0, pod("b")), result("Drain", 0, pod("c")), result("Drain", 0, pod("d"))},
			refused: map[string]string{"c": "no budget", "d": "no budget"},
			want:    started + "* Pod app/a: deletionTimestamp set, but still not removed from the Node\n* Pods app/c, app/d: no budget\n* Pod app/b: waiting for completion",
		},
		"five reasons and three names": {
			results: []Result{
				result("Drain", 0, pod("a")), result("Drain", 0, pod("b")), result("Drain", 0, pod("c")), result("Drain", 0, pod("d")), result("Drain", 0, pod("e")),
				result("Drain", 0, pod("f")), result("Drain", 0, pod("g")), result("Drain", 0, pod("h")), result("Drain", 0, pod("i")),
			},
			refused: map[string]string{"a": "0", "b": "0", "c": "0", "d": "0", "e": "1", "f": "2", "g": "3", "h": "4", "i": "5"},
			want: started + "* Pods app/a, app/b, app/c, ... (1 more): 0\n* Pod app/e: 1\n* Pod app/f: 2\n* Pod app/g: 3\n* Pod app/h: 4\n" +
				"* 1 Pod with other issues",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Next(tc.results)
			var refused []Refusal
			for _, pod := range p.Evict {
				if why, ok := tc.refused[pod.Name]; ok {
					refused = append(refused, Refusal{pod, why})
				}
			}
			if diff := cmp.Diff(tc.want, Report(now, p, refused)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if p.Done() != (tc.want == "") {
				t.Errorf("done = %v", p.Done())
			}
		})
	}
}

func TestAttached(t *testing.T) {
	t.Parallel()
	pv := func(handle, claim string) corev1.PersistentVolume {
		v := corev1.PersistentVolume{}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.io", VolumeHandle: handle}
		if claim != "" {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "app", Name: claim}
		}
		return v
	}
	attachment := func(node, volume string, attached bool) storagev1.VolumeAttachment {
		a := storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: attached}}
		a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = node, &volume
		return a
	}
	claims := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			}
		}
	}
	stays, goes := pod("stays", claims("c1")), pod("goes", claims("c2"))
	v := Volumes{
		Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n0"},
			Status:     corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: "kubernetes.io/csi/disk.io^h1"}, {Name: "kubernetes.io/csi/disk.io^h2"}, {Name: "kubernetes.io/csi/other^x"}}},
		},
		Attachments:       []storagev1.VolumeAttachment{attachment("n0", "pv2", true), attachment("n0", "pv3", true), attachment("n1", "pv4", true), attachment("n0", "pv4", false), attachment("n0", "pv5", true)},
		PersistentVolumes: map[string]corev1.PersistentVolume{"pv1": pv("h1", "c1"), "pv2": pv("h2", "c2"), "pv3": pv("h3", ""), "pv4": pv("h4", "c4"), "pv5": pv("h5", "stays-scratch")},
		Results:           []Result{{Pod: &stays, Behavior: "Skip"}, {Pod: &goes, Behavior: "Drain"}},
	}
	want := []string{"volume other^x", "PersistentVolumeClaim app/c2", "volume pv3"}
	if diff := cmp.Diff(want, v.Attached()); diff != "" {
		t.Errorf("attached (-want +got):\n%s", diff)
	}
}
