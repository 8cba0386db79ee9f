// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"errors"
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

func TestPodOfTakesWhatDecisionsNeed(t *testing.T) {
	t.Parallel()
	p := runs(corev1.RestartPolicyAlways, "", "", func(p *corev1.Pod) {
		p.UID, p.CreationTimestamp, p.Labels = "u", metav1.NewTime(start), map[string]string{"app": "web"}
		p.OwnerReferences = []metav1.OwnerReference{{UID: "other"}, {UID: "set", Controller: new(true)}}
		p.Annotations[corev1.PodDeletionCost] = "-5"
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 1, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}},
		}
	})
	want := Pod{
		NamespacedName: types.NamespacedName{Namespace: "default", Name: "p"}, UID: "u", Labels: map[string]string{"app": "web"}, Owner: "set", Node: "a",
		IPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Phase: corev1.PodRunning, Ready: true, Since: start, Created: start, Cost: -5, Resources: Resources{Pods: 1}, Steady: true,
	}
	if diff := cmp.Diff(want, PodOf(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"crashes": func(p *corev1.Pod) { p.Annotations[ExitCodeAnnotation] = "1" }, "ends": func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever },
		"has a gate":  func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/g"}} },
		"was resized": func(p *corev1.Pod) { p.Generation++ }, "is not ready": func(p *corev1.Pod) { p.Status.Conditions = nil },
	} {
		q := p.DeepCopy()
		if change(q); PodOf(q).Steady {
			t.Errorf("a Pod that %s is steady", name)
		}
	}
	p.Annotations[corev1.MirrorPodAnnotationKey], p.Annotations[corev1.PodDeletionCost] = "x", "cheap"
	if got := PodOf(p); !got.Mirror || got.Cost != 0 {
		t.Errorf("got %+v, want a mirror that costs nothing", got)
	}
}

// TestRequestsOfContainersAreAdded: init containers run one after another, and next to
// the sidecars before them.
func TestRequestsOfContainersAreAdded(t *testing.T) {
	t.Parallel()
	asks := func(cpu, memory string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}}
	}
	sidecar := asks("200m", "2Ki")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	tests := map[string]struct {
		init, containers []corev1.Container
		overhead         corev1.ResourceList
		want             Resources
	}{
		"none":                         {nil, []corev1.Container{{}}, nil, Resources{0, 0, 1}},
		"two":                          {nil, []corev1.Container{asks("100m", "1Ki"), asks("1", "1Ki")}, nil, Resources{1100, 2048, 1}},
		"an init container with less":  {[]corev1.Container{asks("100m", "1Ki")}, []corev1.Container{asks("1", "4Ki")}, nil, Resources{1000, 4096, 1}},
		"an init container with more":  {[]corev1.Container{asks("3", "1Ki"), asks("2", "9Ki")}, []corev1.Container{asks("1", "4Ki")}, nil, Resources{3000, 9 << 10, 1}},
		"a sidecar":                    {[]corev1.Container{sidecar}, []corev1.Container{asks("1", "1Ki")}, nil, Resources{1200, 3 << 10, 1}},
		"an init container after it":   {[]corev1.Container{sidecar, asks("2", "1Ki")}, []corev1.Container{asks("1", "1Ki")}, nil, Resources{2200, 3 << 10, 1}},
		"an init container before it":  {[]corev1.Container{asks("1100m", "1Ki"), sidecar}, []corev1.Container{asks("1", "1Ki")}, nil, Resources{1200, 3 << 10, 1}},
		"the overhead of its runtime":  {nil, []corev1.Container{asks("1", "1Ki")}, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}, Resources{1050, 1024, 1}},
		"of a thousandth, rounded up":  {nil, []corev1.Container{asks("1500u", "1")}, nil, Resources{2, 1, 1}},
		"requests that are very large": {nil, []corev1.Container{asks("1", "8Ei")}, nil, Resources{1000, 1<<63 - 1, 1}},
	}
	for name, tc := range tests {
		if got := asked(&corev1.PodSpec{InitContainers: tc.init, Containers: tc.containers, Overhead: tc.overhead}); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestSetStatusCountsActivePods(t *testing.T) {
	t.Parallel()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
	set.Spec.MinReadySeconds, set.Spec.Template.Labels = 60, map[string]string{"app": "web"}
	labeled := func(p *Pod) { p.Labels = map[string]string{"app": "web", "more": "x"} }
	pods := []Pod{pod("a", labeled), pod("b", younger), pod("c", unready, labeled), pod("d", leaves, labeled), pod("e", failed, labeled)}
	now := start.Add(time.Hour)
	got, again := SetStatus(set, pods, nil, now)
	want := appsv1.ReplicaSetStatus{ObservedGeneration: 4, Replicas: 3, FullyLabeledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 1}
	if diff := cmp.Diff(want, got); diff != "" || !again.Equal(now.Add(time.Minute)) {
		t.Errorf("again at %s (-want +got):\n%s", again, diff)
	}
	failure := func(at time.Time, text string) appsv1.ReplicaSetCondition {
		return appsv1.ReplicaSetCondition{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: text, LastTransitionTime: metav1.NewTime(at)}
	}
	set.Status, _ = SetStatus(set, pods, errors.New("full"), now)
	if diff := cmp.Diff([]appsv1.ReplicaSetCondition{failure(now, "full")}, set.Status.Conditions); diff != "" {
		t.Errorf("of a failure (-want +got):\n%s", diff)
	}
	set.Status, _ = SetStatus(set, pods, errors.New("still full"), now.Add(time.Hour))
	if diff := cmp.Diff([]appsv1.ReplicaSetCondition{failure(now, "still full")}, set.Status.Conditions); diff != "" {
		t.Errorf("of another (-want +got):\n%s", diff)
	}
	if set.Status, _ = SetStatus(set, pods, nil, now); set.Status.Conditions != nil {
		t.Errorf("got %v after it", set.Status.Conditions)
	}
}

func TestSharesAreRounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		surge, unavailable string
		replicas           int32
		wantSurge, want    int32
	}{
		"the default": {"", "", 10, 3, 2}, "the default of one": {"", "", 1, 1, 0}, "none": {"0", "0", 3, 0, 1}, "shares of which one is none": {"0%", "1%", 3, 0, 1},
		"more than there are": {"0", "9", 3, 0, 3}, "numbers": {"2", "1", 3, 2, 1}, "texts that are none": {"many", "few", 3, 0, 1}, "negative": {"-1", "-1", 3, 0, 1}, "of none": {"50%", "50%", 0, 0, 1},
	} {
		d := deployment("v1", tc.replicas)
		if tc.surge != "" {
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.Parse(tc.surge)), MaxUnavailable: new(intstr.Parse(tc.unavailable))}
		}
		if surge, unavailable := bounds(d); surge != tc.wantSurge || unavailable != tc.want {
			t.Errorf("%s: got %d more and %d fewer, want %d and %d", name, surge, unavailable, tc.wantSurge, tc.want)
		}
	}
}

// TestRolloutReportsFailuresOfItsSets: one of an earlier set matters, one of the current
// more.
func TestRolloutReportsFailuresOfItsSets(t *testing.T) {
	t.Parallel()
	fails := func(s *appsv1.ReplicaSet, text string) *appsv1.ReplicaSet {
		if text != "" {
			s.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: text}}
		}
		return s
	}
	for name, tc := range map[string]struct{ old, current, want string }{"none": {}, "the old": {"a", "", "a"}, "the current": {"", "b", "b"}, "both": {"a", "b", "b"}} {
		p := Rollout{Deployment: deployment("v2", 2), Sets: []*appsv1.ReplicaSet{fails(set("v2", 2, 1, 0), tc.current), fails(set("v1", 1, 2, 1), tc.old)}, Now: start}.Plan()
		got := ""
		for _, c := range p.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure {
				got = c.Message
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
