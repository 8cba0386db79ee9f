// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func up(name string) Container {
	return Container{Name: name, ID: "id", Started: start, Up: true, Ready: true}
}

func ended(name string, code int, over bool) Container {
	return Container{Name: name, Ended: &Exit{Code: code, ID: "old", Started: start, Finished: start}, Over: over}
}

// TestAStatusIsWhatAKubeletSays shows statuses in one line each: the phase, the
// conditions that hold or why they do not, and the containers.
func TestAStatusIsWhatAKubeletSays(t *testing.T) {
	t.Parallel()
	const (
		one     = "spec: {restartPolicy: Always, containers: [{name: a}]}"
		withJob = "spec: {restartPolicy: Always, initContainers: [{name: i}], containers: [{name: a}]}"
		sidecar = "spec: {restartPolicy: Never, initContainers: [{name: s, restartPolicy: Always}], containers: [{name: a}]}"
	)
	slow := up("a")
	slow.Ready = false
	booting := up("a")
	booting.Up = false
	crashing := ended("a", 1, false)
	crashing.Waiting, crashing.Restarts = CrashLoopBackOff, 3
	tests := map[string]struct {
		pod        string
		containers []Container
		facts      func(*Facts)
		want       string
	}{
		"unscheduled":                       {one, nil, func(f *Facts) { f.Accepted, f.Unscheduled = time.Time{}, "no" }, "Pending PodScheduled=Unschedulable"},
		"taken":                             {one, nil, nil, "Pending Initialized PodScheduled Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= a:ContainerCreating"},
		"running":                           {one, []Container{up("a")}, func(f *Facts) { f.Sandbox = true }, "Running PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled a:running,ready"},
		"not ready":                         {one, []Container{slow}, nil, "Running Initialized PodScheduled Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= a:running"},
		"not up":                            {one, []Container{booting}, nil, "Running Initialized PodScheduled Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= a:running"},
		"crashing":                          {one, []Container{crashing}, nil, "Running Initialized PodScheduled Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= a:CrashLoopBackOff,restarts=3,last=1"},
		"an init container first":           {withJob, []Container{up("i")}, nil, "Pending PodScheduled Initialized=ContainersNotInitialized Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= i:running a:PodInitializing"},
		"after it":                          {withJob, []Container{ended("i", 0, true), up("a")}, func(f *Facts) { f.Sandbox = true }, "Running PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled i:ended=0,ready a:running,ready"},
		"a sidecar holds the start up":      {sidecar, nil, nil, "Pending PodScheduled Initialized=ContainersNotInitialized Ready=ContainersNotReady ContainersReady=ContainersNotReady PodReadyToStartContainers= s:PodInitializing a:PodInitializing"},
		"done, in any state of its sidecar": {sidecar, []Container{up("s"), ended("a", 0, true)}, nil, "Succeeded PodScheduled Initialized=.PodCompleted Ready=PodCompleted ContainersReady=PodCompleted PodReadyToStartContainers= s:running,ready a:ended=0"},
		"failed":                            {sidecar, []Container{up("s"), ended("a", 3, true)}, nil, "Failed Initialized PodScheduled Ready=PodFailed ContainersReady=PodFailed PodReadyToStartContainers= s:running,ready a:ended=3"},
		"an init container failed":          {"spec: {restartPolicy: Never, initContainers: [{name: i}], containers: [{name: a}]}", []Container{ended("i", 1, true)}, nil, "Failed PodScheduled Initialized=ContainersNotInitialized Ready=PodFailed ContainersReady=PodFailed PodReadyToStartContainers= i:ended=1 a:PodInitializing"},
		"refused permanently":               {one, nil, func(f *Facts) { f.Failed = "Evicted" }, "Failed Initialized PodScheduled Ready=PodFailed ContainersReady=PodFailed PodReadyToStartContainers= a:ContainerCreating"},
		"a gate that is closed":             {"spec: {readinessGates: [{conditionType: x/y}], containers: [{name: a}]}\nstatus: {conditions: [{type: x/y, status: 'False'}]}", []Container{up("a")}, nil, "Running Initialized ContainersReady PodScheduled x/y= Ready=ReadinessGatesNotReady PodReadyToStartContainers= a:running,ready"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Facts{Pod: builder.Parse[corev1.Pod](t, tc.pod), Now: start, HostIP: "10.0.0.1", PodIP: "10.244.0.2", Accepted: start, Containers: tc.containers}
			if tc.facts != nil {
				tc.facts(&f)
			}
			if got := sorted(line(Compute(f))); got != sorted(tc.want) {
				t.Errorf("got  %s\nwant %s", got, sorted(tc.want))
			}
		})
	}
}

func sorted(text string) string {
	words := strings.Fields(text)
	return words[0] + fmt.Sprint(setOf(words[1:]))
}

func setOf(words []string) map[string]bool { // printed in order
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

func line(s corev1.PodStatus) string {
	words := []string{string(s.Phase)}
	for _, c := range s.Conditions {
		word := string(c.Type)
		if c.Status != corev1.ConditionTrue {
			word += "=" + c.Reason
		} else if c.Reason != "" {
			word += "=." + c.Reason
		}
		words = append(words, word)
	}
	for _, c := range append(s.InitContainerStatuses, s.ContainerStatuses...) {
		word := c.Name + ":"
		switch {
		case c.State.Running != nil:
			word += "running"
		case c.State.Terminated != nil:
			word += fmt.Sprintf("ended=%d", c.State.Terminated.ExitCode)
		case c.State.Waiting != nil:
			word += c.State.Waiting.Reason
		}
		if c.Ready {
			word += ",ready"
		}
		if c.RestartCount > 0 {
			word += fmt.Sprintf(",restarts=%d", c.RestartCount)
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			word += fmt.Sprintf(",last=%d", last.ExitCode)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestTheSameFactsGiveTheSameStatusAgain(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "metadata: {generation: 2}\nspec: {containers: [{name: a}]}\nstatus: {conditions: [{type: their.own/one, status: 'True'}]}")
	f := Facts{Pod: pod, Now: start, HostIP: "10.0.0.1", PodIP: "10.244.0.2", Accepted: start, Sandbox: true, Containers: []Container{up("a")}}
	pod.Status = Compute(f)
	f.Now = start.Add(time.Hour)
	if diff := cmp.Diff(pod.Status, Compute(f)); diff != "" {
		t.Errorf("it changed (-first +second):\n%s", diff)
	}
	f.Containers = nil
	later := Compute(f)
	for _, c := range later.Conditions {
		if moved := c.LastTransitionTime.Equal(new(metav1.NewTime(f.Now))); moved != (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) {
			t.Errorf("%s: its transition moved: %v", c.Type, moved)
		}
	}
}

func TestTerminationIsReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		exit Exit
		want string
	}{
		"well":         {Exit{}, "Completed"},
		"badly":        {Exit{Code: 2}, "Error"},
		"killed":       {Exit{Code: 137, Signal: 9}, "Error"},
		"by its limit": {Exit{Code: 137, Signal: 9, OOMKilled: true}, "OOMKilled"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := terminated(&tc.exit); got.Reason != tc.want || int(got.ExitCode) != tc.exit.Code {
				t.Errorf("%s %d, want %s", got.Reason, got.ExitCode, tc.want)
			}
		})
	}
}

func TestWhatCrashesAgainWaitsLonger(t *testing.T) {
	t.Parallel()
	var b Backoff
	var got []time.Duration
	for range 8 {
		var d time.Duration
		b, d = b.Failed(time.Second)
		got = append(got, d/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{0, 10, 20, 40, 80, 160, 300, 300}, got); diff != "" {
		t.Errorf("seconds (-want +got):\n%s", diff)
	}
	if _, d := b.Failed(10 * time.Minute); d != 0 {
		t.Errorf("after a long run it waits for %s", d)
	}
}

func TestWhoIsStartedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod   string
		codes map[int]bool
	}{
		"always":                     {"spec: {restartPolicy: Always, containers: [{name: a}]}", map[int]bool{0: true, 1: true}},
		"after a failure":            {"spec: {restartPolicy: OnFailure, containers: [{name: a}]}", map[int]bool{0: false, 1: true}},
		"never":                      {"spec: {restartPolicy: Never, containers: [{name: a}]}", map[int]bool{0: false, 1: false}},
		"what comes first":           {"spec: {restartPolicy: Always, initContainers: [{name: a}]}", map[int]bool{0: false, 1: true}},
		"what comes first, if never": {"spec: {restartPolicy: Never, initContainers: [{name: a}]}", map[int]bool{0: false, 1: false}},
		"a sidecar":                  {"spec: {restartPolicy: Never, initContainers: [{name: a, restartPolicy: Always}]}", map[int]bool{0: true, 1: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, tc.pod)
			for code, want := range tc.codes {
				if got := Restarts(pod, podspec.Containers(pod)[0], code); got != want {
					t.Errorf("after %d: %v, want %v", code, got, want)
				}
			}
		})
	}
	pod := builder.Parse[corev1.Pod](t, "metadata: {namespace: ns, name: p, uid: u}")
	if got, want := CrashMessage(pod, "a", 10*time.Second, "boom"), "back-off 10s restarting failed container=a pod=p_ns(u); it wrote last: boom"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAReadinessProbeIsAskedSoonUntilItHasPassed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		period  int32
		answers []int
		want    []time.Duration
	}{
		"doubling":           {10, []int{1, 2, 3, 7}, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 6400 * time.Millisecond}},
		"to its period":      {10, []int{8, 1000}, []time.Duration{10 * time.Second, 10 * time.Second}},
		"of a short one":     {1, []int{1, 4, 5}, []time.Duration{100 * time.Millisecond, 800 * time.Millisecond, time.Second}},
		"of a very long one": {3600, []int{1, 1000}, []time.Duration{100 * time.Millisecond, 409600 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timing := TimingOf(&corev1.Probe{PeriodSeconds: tc.period})
			for i, n := range tc.answers {
				if got := timing.Soon(n); got != tc.want[i] {
					t.Errorf("after %d answers it waits %s, want %s", n, got, tc.want[i])
				}
			}
		})
	}
}

func TestAProbeDecidesAtItsThreshold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		probe   corev1.Probe
		answers string // + and -
		want    string // the result after each: ? + -
	}{
		"as it is by default": {corev1.Probe{}, "+---+", "+++-+"},
		"thresholds":          {corev1.Probe{SuccessThreshold: 2, FailureThreshold: 1}, "++-+-++", "?+----+"},
		"at first undecided":  {corev1.Probe{}, "--", "??"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, got := NewProbe(&tc.probe), ""
			for _, a := range tc.answers {
				got += map[ProbeResult]string{Undecided: "?", Passed: "+", Failed: "-"}[p.Answer(a == '+')]
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
	if got, want := TimingOf(&corev1.Probe{InitialDelaySeconds: 5}), (Timing{5 * time.Second, 10 * time.Second, time.Second}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAPodSaysWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ pod, want string }{
		"it is ready":                  {"status: {conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: a, state: {running: {}}, lastState: {terminated: {exitCode: 1}}}]}", ""},
		"it has ended well":            {"status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]}", ""},
		"not observed yet":             {"{}", "it has not been started"},
		"no node takes it":             {"status: {conditions: [{type: PodScheduled, status: 'False', message: spec.hostNetwork is not given}]}", "it has no node: spec.hostNetwork is not given"},
		"it was evicted":               {"status: {phase: Failed, reason: Evicted, message: out of disk}", "Evicted: out of disk"},
		"an image is not there":        {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: ErrImagePull, message: not found}}}]}", "container manager: ErrImagePull: not found"},
		"an image is being pulled":     {"status: {containerStatuses: [{name: manager, image: 'r.io/m:v1', state: {waiting: {reason: ContainerCreating}}}]}", "container manager: ContainerCreating, of image r.io/m:v1"},
		"a volume is awaited":          {"status: {containerStatuses: [{name: manager, image: 'r.io/m:v1', state: {waiting: {reason: ContainerCreating, message: no Secret}}}]}", "container manager: ContainerCreating: no Secret"},
		"one crashes and says it once": {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: 'back-off; it wrote last: panic: no key'}}, lastState: {terminated: {exitCode: 1, message: 'panic: no key'}}}]}", "container manager: CrashLoopBackOff: back-off; it wrote last: panic: no key"},
		"one crashes on another node":  {"status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, lastState: {terminated: {exitCode: 1, reason: Error, message: 'panic: no key'}}}]}", "container manager: CrashLoopBackOff: back-off; it ended with status 1: panic: no key"},
		"one has crashed and runs":     {"status: {containerStatuses: [{name: manager, restartCount: 3, state: {running: {}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}", "container manager: it runs but is not ready, after 3 restarts; it ended with status 137 (OOMKilled)"},
		"one is not ready yet":         {"status: {containerStatuses: [{name: a, ready: true, state: {running: {}}}, {name: b, state: {running: {}}}]}", "container b: it runs but is not ready"},
		"one that comes first fails":   {"status: {initContainerStatuses: [{name: first, state: {terminated: {exitCode: 2}}}], containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]}", "container first: it ended with status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Trouble(builder.Parse[corev1.Pod](t, tc.pod)); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
