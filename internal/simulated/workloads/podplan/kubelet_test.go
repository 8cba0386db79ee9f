// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runs creates a Pod on a Node, with annotations for how its containers end.
func runs(policy corev1.RestartPolicy, seconds, code string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Generation: 1, Annotations: map[string]string{}}}
	p.Spec = corev1.PodSpec{NodeName: "a", RestartPolicy: policy, Containers: []corev1.Container{{Name: "c", Image: "v1"}}}
	for key, value := range map[string]string{RunSecondsAnnotation: seconds, ExitCodeAnnotation: code} {
		if value != "" {
			p.Annotations[key] = value
		}
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// shown is a status in words: the phase, conditions that are True, and the state of the
// first container.
func shown(p *corev1.Pod) string {
	s := &p.Status
	out := []string{string(s.Phase)}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if isTrue(s, kind) {
			out = append(out, string(kind))
		}
	}
	for _, c := range s.ContainerStatuses {
		switch {
		case c.State.Running != nil:
			out = append(out, "running")
		case c.State.Waiting != nil:
			out = append(out, c.State.Waiting.Reason)
		case c.State.Terminated != nil:
			out = append(out, fmt.Sprintf("%s with %d", c.State.Terminated.Reason, c.State.Terminated.ExitCode))
		}
	}
	return strings.Join(out, ", ")
}

func TestSyncShowsWhatContainersDo(t *testing.T) {
	t.Parallel()
	const (
		up      = "Running, PodReadyToStartContainers, Initialized, ContainersReady, Ready, running"
		crashes = "Running, PodReadyToStartContainers, Initialized, CrashLoopBackOff"
		done    = "Succeeded, Initialized, Completed with 0"
	)
	always, onFailure, never := corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	gated := func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x/gate"}} }
	open := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: "x/gate", Status: corev1.ConditionTrue}}
	}
	tests := map[string]struct {
		pod   *corev1.Pod
		node  func(*Node)
		want  string
		again time.Duration // zero for never
	}{
		"that are restarted":              {runs(always, "", ""), nil, up, 0},
		"that are restarted, for seconds": {runs(always, "60", ""), nil, up, 0},
		"that fail and are restarted":     {runs(always, "", "1"), nil, crashes, 0},
		"that end":                        {runs(never, "", ""), nil, done, 0},
		"that end later":                  {runs(never, "60", ""), nil, up, time.Minute},
		"that fail later":                 {runs(never, "60", "3"), nil, up, time.Minute},
		"that fail":                       {runs(never, "", "3"), nil, "Failed, Initialized, Error with 3", 0},
		"that end well":                   {runs(onFailure, "", ""), nil, done, 0},
		"that are restarted if they fail": {runs(onFailure, "", "3"), nil, crashes, 0},
		"with numbers that are none":      {runs(never, "soon", "bad"), nil, done, 0},
		"with a number that is too large": {runs(never, "", "99999999999"), nil, "Failed, Initialized, Error with 2147483647", 0},
		"behind a gate":                   {runs(always, "", "", gated), nil, "Running, PodReadyToStartContainers, Initialized, ContainersReady, running", 0},
		"behind a gate that is open":      {runs(always, "", "", gated, open), nil, up, 0},
		"on a Node that is not ready": {runs(always, "", ""), func(n *Node) { n.Ready = corev1.ConditionFalse },
			"Running, PodReadyToStartContainers, Initialized, ContainersReady, running", 0},
		"on a Node that never reported": {runs(always, "", ""), func(n *Node) { n.Ready = "" }, "", 0},
		"on a silent Node":              {runs(always, "", ""), func(n *Node) { n.Ready = corev1.ConditionUnknown }, "", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := node("a", func(n *Node) { n.Address = "10.0.0.1" })
			if tc.node != nil {
				tc.node(&n)
			}
			again := Sync(tc.pod, n, start, func() string { return "10.244.0.2" })
			if got := shown(tc.pod); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if want := start.Add(tc.again); tc.again == 0 && !again.IsZero() || tc.again != 0 && !again.Equal(want) {
				t.Errorf("again at %s, want in %s", again, tc.again)
			}
			if n.Lives() != (tc.pod.Status.PodIP == "10.244.0.2" && tc.pod.Status.HostIP == "10.0.0.1") {
				t.Errorf("got addresses %s on %s", tc.pod.Status.PodIP, tc.pod.Status.HostIP)
			}
			before := tc.pod.DeepCopy()
			Sync(tc.pod, n, start.Add(time.Second), func() string { t.Error("another address"); return "" })
			if diff := cmp.Diff(before.Status, tc.pod.Status); diff != "" {
				t.Errorf("again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncEndsPodsInTime(t *testing.T) {
	t.Parallel()
	p := runs(corev1.RestartPolicyNever, "60", "3")
	ip := func() string { return "10.244.0.2" }
	Sync(p, node("a"), start, ip)
	if again := Sync(p, node("a"), start.Add(59*time.Second), ip); !again.Equal(start.Add(time.Minute)) || p.Status.Phase != corev1.PodRunning {
		t.Errorf("before its time: %s, again at %s", p.Status.Phase, again)
	}
	if again := Sync(p, node("a"), start.Add(time.Minute), ip); !again.IsZero() || shown(p) != "Failed, Initialized, Error with 3" {
		t.Errorf("in its time: %s, again at %s", shown(p), again)
	}
	end := p.Status.ContainerStatuses[0].State.Terminated
	if !end.StartedAt.Time.Equal(start) || !end.FinishedAt.Time.Equal(start.Add(time.Minute)) {
		t.Errorf("it ran from %s to %s", end.StartedAt, end.FinishedAt)
	}
}

// TestConditionsKeepTheirTime: a change of the reason is no transition.
func TestConditionsKeepTheirTime(t *testing.T) {
	t.Parallel()
	p := runs(corev1.RestartPolicyAlways, "", "")
	since := func() time.Time {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
	for i, step := range []struct {
		status corev1.ConditionStatus
		moves  bool
	}{{corev1.ConditionTrue, true}, {corev1.ConditionTrue, false}, {corev1.ConditionFalse, true}, {corev1.ConditionUnknown, false}, {corev1.ConditionTrue, true}} {
		before, now := since(), start.Add(time.Duration(i)*time.Minute)
		Sync(p, node("a", func(n *Node) { n.Ready = step.status }), now, func() string { return "10.244.0.2" })
		want := before
		if step.moves {
			want = now
		}
		if got := since(); !got.Equal(want) {
			t.Errorf("step %d: since %s, want %s", i, got, want)
		}
		if Unscheduled(&p.Status, "r", "m", now); isTrue(&p.Status, corev1.PodScheduled) {
			t.Errorf("step %d: it is scheduled", i)
		}
	}
}

func TestStopEndsContainersOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "Succeeded, Initialized, Completed with 0", "7": "Failed, Initialized, Error with 7"} {
		p := runs(corev1.RestartPolicyAlways, "", code)
		if !Stop(p, start) || shown(p) != want || p.Status.StartTime == nil {
			t.Errorf("got %s, want %s", shown(p), want)
		}
		if Stop(p, start) {
			t.Error("what has ended ends again")
		}
		if again := Sync(p, node("a"), start, func() string { t.Error("an address"); return "" }); !again.IsZero() || shown(p) != want {
			t.Errorf("got %s of what has ended", shown(p))
		}
	}
}

func TestInitContainersHaveEnded(t *testing.T) {
	t.Parallel()
	p := runs(corev1.RestartPolicyAlways, "", "", func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.InitContainers = []corev1.Container{{Name: "once"}, {Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
	})
	Sync(p, node("a", func(n *Node) { n.Address = "10.0.0.1" }), start, func() string { t.Error("an address"); return "" })
	s := p.Status.InitContainerStatuses
	if len(s) != 2 || s[0].State.Terminated == nil || s[1].State.Running == nil || !s[0].Ready || !s[1].Ready || *s[0].Started || !*s[1].Started {
		t.Errorf("got %+v", s)
	}
	if p.Status.PodIP != "10.0.0.1" {
		t.Errorf("got address %s of a Pod in the network of its Node", p.Status.PodIP)
	}
}

func TestQualityFollowsResources(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if value != "" {
				out[name] = resource.MustParse(value)
			}
		}
		return out
	}
	of := func(requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	full := of(list("1", "1Gi"), list("1", "1Gi"))
	tests := map[string]struct {
		init, containers []corev1.Container
		want             corev1.PodQOSClass
	}{
		"nothing":                    {nil, []corev1.Container{{}}, corev1.PodQOSBestEffort},
		"zeros":                      {nil, []corev1.Container{of(list("0", "0"), nil)}, corev1.PodQOSBestEffort},
		"limits as requested":        {nil, []corev1.Container{full}, corev1.PodQOSGuaranteed},
		"limits alone":               {nil, []corev1.Container{of(nil, list("1", "1Gi"))}, corev1.PodQOSGuaranteed},
		"a request":                  {nil, []corev1.Container{of(list("1", ""), nil)}, corev1.PodQOSBurstable},
		"a limit of one":             {nil, []corev1.Container{of(nil, list("1", ""))}, corev1.PodQOSBurstable},
		"limits above requests":      {nil, []corev1.Container{of(list("1", "1Gi"), list("2", "1Gi"))}, corev1.PodQOSBurstable},
		"one of two containers":      {nil, []corev1.Container{full, {}}, corev1.PodQOSBurstable},
		"not its init container":     {[]corev1.Container{{}}, []corev1.Container{full}, corev1.PodQOSBurstable},
		"its init container as well": {[]corev1.Container{full}, []corev1.Container{full}, corev1.PodQOSGuaranteed},
	}
	for name, tc := range tests {
		if got := qosClass(&corev1.PodSpec{InitContainers: tc.init, Containers: tc.containers}); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
