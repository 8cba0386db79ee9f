// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func node(name string, change ...func(*Node)) Node {
	n := Node{Name: name, Ready: corev1.ConditionTrue, Labels: map[string]string{"name": name}, Has: Resources{CPU: 4000, Memory: 8 << 30, Pods: 3}}
	for _, f := range change {
		f(&n)
	}
	return n
}

func tainted(effect corev1.TaintEffect) func(*Node) {
	return func(n *Node) { n.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: effect}} }
}

func cordoned(n *Node) { n.Unschedulable = true }

func TestChooseFindsTheNodeOfAPod(t *testing.T) {
	t.Parallel()
	asks := func(cpu string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
		}
	}
	affine := func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}}}},
		}}}
	}
	places := func(nodes ...Node) []Place {
		var out []Place
		for _, n := range nodes {
			out = append(out, Place{Node: n})
		}
		return out
	}
	used := func(r Resources, own int) []Place {
		return []Place{{Node: node("a"), Used: r, Own: own}, {Node: node("b"), Used: Resources{Pods: 1}}}
	}
	tests := map[string]struct {
		spec    func(*corev1.PodSpec)
		places  []Place
		want    string
		message string
	}{
		"the one with fewer of its kind":        {nil, used(Resources{Pods: 1}, 1), "b", ""},
		"the one with fewer Pods":               {nil, used(Resources{Pods: 2}, 0), "b", ""},
		"the first of equals":                   {nil, places(node("a"), node("b")), "a", ""},
		"not one that is cordoned":              {nil, places(node("a", cordoned), node("b")), "b", ""},
		"not one with a taint":                  {nil, places(node("a", tainted(corev1.TaintEffectNoSchedule)), node("b")), "b", ""},
		"one with a taint that is tolerated":    {func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "k", Value: "v"}} }, places(node("a", tainted(corev1.TaintEffectNoSchedule))), "a", ""},
		"one where it had rather not be":        {nil, places(node("a", tainted(corev1.TaintEffectPreferNoSchedule))), "a", ""},
		"the one its selector names":            {func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"name": "b"} }, places(node("a"), node("b")), "b", ""},
		"the one its affinity names":            {affine, places(node("a"), node("b")), "b", ""},
		"not one that is full":                  {nil, used(Resources{Pods: 3}, 0), "b", ""},
		"not one without enough CPU":            {asks("1"), used(Resources{CPU: 3500}, 0), "b", ""},
		"none, and says why of each":            {asks("5"), places(node("a"), node("b", cordoned)), "", "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."},
		"none of those that are going":          {nil, places(node("a", func(n *Node) { n.Leaving = true })), "", "0/1 nodes are available: ."},
		"none where there are none":             {nil, nil, "", "no nodes available to schedule pods"},
		"one that asks for nothing, overbooked": {nil, []Place{{Node: node("a"), Used: Resources{CPU: 5000}}}, "a", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{}
			if tc.spec != nil {
				tc.spec(&p.Spec)
			}
			got, message := Choose(NeedsOf(p), tc.places)
			if got != tc.want || message != tc.message {
				t.Errorf("%q, %q; want %q, %q", got, message, tc.want, tc.message)
			}
		})
	}
}

func pod(name string, change ...func(*Pod)) Pod {
	p := Pod{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}, Node: "n", Phase: corev1.PodRunning, Ready: true, Since: start, Created: start}
	for _, f := range change {
		f(&p)
	}
	return p
}

func waits(p *Pod)   { p.Node, p.Phase, p.Ready = "", corev1.PodPending, false }
func unready(p *Pod) { p.Ready = false }
func leaves(p *Pod)  { p.Leaving = true }
func failed(p *Pod)  { p.Phase, p.Ready = corev1.PodFailed, false }
func younger(p *Pod) { p.Since = start.Add(time.Hour) }
func cheaper(p *Pod) { p.Cost = -1 }
func names(pods []Pod) (out []string) {
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func TestReplicasGivesUpWhatIsWorthLeast(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want   int32
		pods   []Pod
		create int
		remove []string
	}{
		"as many as are wanted":                   {2, []Pod{pod("a"), pod("b")}, 0, nil},
		"more than there are":                     {3, []Pod{pod("a")}, 2, nil},
		"what leaves and what ended do not count": {1, []Pod{pod("a", leaves), pod("b", failed)}, 1, nil},
		"that without a Node first":               {1, []Pod{pod("a", unready), pod("b", waits), pod("c")}, 0, []string{"b", "a"}},
		"the cheaper before the dear":             {1, []Pod{pod("a"), pod("b", cheaper)}, 0, []string{"b"}},
		"the younger before the older":            {1, []Pod{pod("a"), pod("b", younger)}, 0, []string{"b"}},
		"none at all":                             {0, []Pod{pod("a")}, 0, []string{"a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create, remove := Replicas(tc.want, tc.pods)
			if create != tc.create || !slices.Equal(names(remove), tc.remove) {
				t.Errorf("create %d, remove %v; want %d, %v", create, names(remove), tc.create, tc.remove)
			}
		})
	}
}

func TestAPodIsAvailableOnceItHasBeenReadyLongEnough(t *testing.T) {
	t.Parallel()
	got := Count([]Pod{pod("a"), pod("b", younger), pod("c", unready), pod("d", leaves)}, 60, start.Add(time.Hour))
	want := Counts{Total: 3, Ready: 2, Available: 1, Again: start.Add(time.Hour + time.Minute)}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// deployment is one of a template with an image.
func deployment(image string, replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", UID: "d", Generation: 1}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
		ProgressDeadlineSeconds: new(int32(600)), RevisionHistoryLimit: new(int32(1)),
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func bounded(surge, unavailable int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(surge)), MaxUnavailable: new(intstr.FromInt32(unavailable))}
	}
}

// set is one of an image, of a revision, with replicas of which some are available.
func set(image string, revision, replicas, available int32) *appsv1.ReplicaSet {
	d := deployment(image, 0)
	s := Rollout{Deployment: d}.set()
	s.UID, s.Spec.Replicas = types.UID(image), &replicas
	s.Annotations = map[string]string{RevisionAnnotation: fmt.Sprint(revision)}
	s.Status = appsv1.ReplicaSetStatus{Replicas: replicas, ReadyReplicas: available, AvailableReplicas: available}
	s.CreationTimestamp = metav1.NewTime(start.Add(time.Duration(revision) * time.Second))
	return s
}

// told is a plan in words.
func told(p RolloutPlan) (out []string) {
	image := func(s *appsv1.ReplicaSet) string { return s.Spec.Template.Spec.Containers[0].Image }
	if p.Create != nil {
		out = append(out, fmt.Sprintf("create %s with %d as revision %s", image(p.Create), *p.Create.Spec.Replicas, p.Create.Annotations[RevisionAnnotation]))
	}
	for _, s := range p.Update {
		out = append(out, fmt.Sprintf("%s has %d as revision %s", image(s), *s.Spec.Replicas, s.Annotations[RevisionAnnotation]))
	}
	for _, s := range p.Delete {
		out = append(out, "delete "+image(s))
	}
	return out
}

func TestARolloutKeepsItsBounds(t *testing.T) {
	t.Parallel()
	recreate := func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	tests := map[string]struct {
		d       *appsv1.Deployment
		sets    []*appsv1.ReplicaSet
		running int
		want    []string
	}{
		"the first": {deployment("v1", 3), nil, 0, []string{"create v1 with 3 as revision 1"}},
		"one more than wanted at first": {
			deployment("v2", 3, bounded(1, 0)), []*appsv1.ReplicaSet{set("v1", 1, 3, 3)}, 0,
			[]string{"create v2 with 1 as revision 2", "v1 has 3 as revision 1"},
		},
		"an old one goes for each new one that is available": {
			deployment("v2", 3, bounded(1, 0)), []*appsv1.ReplicaSet{set("v1", 1, 3, 3), set("v2", 2, 1, 1)}, 0,
			[]string{"v1 has 2 as revision 1", "v2 has 1 as revision 2"},
		},
		"none goes as long as the new one is not available": {
			deployment("v2", 3, bounded(1, 0)), []*appsv1.ReplicaSet{set("v1", 1, 3, 3), set("v2", 2, 1, 0)}, 0,
			[]string{"v1 has 3 as revision 1", "v2 has 1 as revision 2"},
		},
		"what is not available goes first": {
			deployment("v3", 3, bounded(0, 1)), []*appsv1.ReplicaSet{set("v1", 1, 2, 2), set("v2", 2, 1, 0)}, 0,
			[]string{"create v3 with 0 as revision 3", "v1 has 2 as revision 1", "v2 has 0 as revision 2"},
		},
		"without surge, room is made first": {
			deployment("v2", 3, bounded(0, 1)), []*appsv1.ReplicaSet{set("v1", 1, 3, 3)}, 0,
			[]string{"create v2 with 0 as revision 2", "v1 has 2 as revision 1"},
		},
		"back to an earlier one": {
			deployment("v1", 2, bounded(1, 0)), []*appsv1.ReplicaSet{set("v1", 1, 0, 0), set("v2", 2, 2, 2)}, 0,
			[]string{"v1 has 1 as revision 3", "v2 has 2 as revision 2"},
		},
		"fewer": {deployment("v1", 1), []*appsv1.ReplicaSet{set("v1", 1, 3, 3)}, 0, []string{"v1 has 1 as revision 1"}},
		"all at once, the old ones first": {
			deployment("v2", 2, recreate), []*appsv1.ReplicaSet{set("v1", 1, 2, 2)}, 2, []string{"v1 has 0 as revision 1"},
		},
		"all at once, as long as old ones run": {
			deployment("v2", 2, recreate), []*appsv1.ReplicaSet{set("v1", 1, 0, 0)}, 1, nil,
		},
		"all at once, then the new ones": {
			deployment("v2", 2, recreate), []*appsv1.ReplicaSet{set("v1", 1, 0, 0)}, 0, []string{"create v2 with 2 as revision 2"},
		},
		"paused, nothing new": {
			deployment("v2", 4, paused), []*appsv1.ReplicaSet{set("v1", 1, 3, 3)}, 0, []string{"v1 has 4 as revision 1"},
		},
		"what the history has no room for": {
			deployment("v3", 1), []*appsv1.ReplicaSet{set("v1", 1, 0, 0), set("v2", 2, 0, 0), set("v3", 3, 1, 1)}, 0,
			[]string{"v3 has 1 as revision 3", "delete v1"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, told(Rollout{Deployment: tc.d, Sets: tc.sets, Running: tc.running, Now: start}.Plan())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARolloutSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	progressing := func(at time.Time, reason string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reason, LastUpdateTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at)}}
			d.Status.UpdatedReplicas, d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 2, 2, 1, 1
		}
	}
	tests := map[string]struct {
		d     *appsv1.Deployment
		set   *appsv1.ReplicaSet
		want  []string
		again time.Time
	}{
		"all are there":        {deployment("v1", 2), set("v1", 1, 2, 2), []string{"Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"}, time.Time{}},
		"one is missing":       {deployment("v1", 2), set("v1", 1, 2, 1), []string{"Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"}, start.Add(600 * time.Second)},
		"nothing moves":        {deployment("v1", 2, progressing(start.Add(-time.Minute), "ReplicaSetUpdated")), set("v1", 1, 2, 1), []string{"Available=False MinimumReplicasUnavailable", "Progressing=True ReplicaSetUpdated"}, start.Add(540 * time.Second)},
		"for too long":         {deployment("v1", 2, progressing(start.Add(-600*time.Second), "ReplicaSetUpdated")), set("v1", 1, 2, 1), []string{"Available=False MinimumReplicasUnavailable", "Progressing=False ProgressDeadlineExceeded"}, time.Time{}},
		"none are wanted":      {deployment("v1", 0), set("v1", 1, 0, 0), []string{"Available=True MinimumReplicasAvailable", "Progressing=True NewReplicaSetAvailable"}, time.Time{}},
		"it must not continue": {deployment("v1", 2, func(d *appsv1.Deployment) { d.Spec.Paused = true }), set("v1", 1, 2, 2), []string{"Available=True MinimumReplicasAvailable", "Progressing=Unknown DeploymentPaused"}, time.Time{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Rollout{Deployment: tc.d, Sets: []*appsv1.ReplicaSet{tc.set}, Now: start}.Plan()
			var got []string
			for _, c := range p.Status.Conditions {
				got = append(got, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !p.Again.Equal(tc.again) {
				t.Errorf("again at %s, want %s", p.Again, tc.again)
			}
		})
	}
}
