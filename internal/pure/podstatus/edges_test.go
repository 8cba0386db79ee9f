// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// TestContainersHaveTheirOwnRestartPolicy: since Kubernetes 1.35 init containers, too.
func TestContainersHaveTheirOwnRestartPolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod   string
		codes map[int]bool
	}{
		"a container that never restarts":         {"{restartPolicy: Always, containers: [{name: a, restartPolicy: Never}]}", map[int]bool{0: false, 1: false}},
		"one that restarts after a failure":       {"{restartPolicy: Never, containers: [{name: a, restartPolicy: OnFailure}]}", map[int]bool{0: false, 1: true}},
		"one that always restarts":                {"{restartPolicy: Never, containers: [{name: a, restartPolicy: Always}]}", map[int]bool{0: true, 1: true}},
		"an init container that never restarts":   {"{restartPolicy: Always, initContainers: [{name: a, restartPolicy: Never}]}", map[int]bool{0: false, 1: false}},
		"an init container that does on failures": {"{restartPolicy: Never, initContainers: [{name: a, restartPolicy: OnFailure}]}", map[int]bool{0: false, 1: true}},
		"a Pod of no policy":                      {"{containers: [{name: a}]}", map[int]bool{0: true, 1: true}},
	} {
		pod := builder.Parse[corev1.Pod](t, "spec: "+tc.pod)
		for code, want := range tc.codes {
			if got := Restarts(pod, podspec.Containers(pod)[0], code); got != want {
				t.Errorf("%s: after %d: %t, want %t", name, code, got, want)
			}
		}
	}
}

// TestTroubleNamesExitWithoutOutput: a process that runs out of memory writes nothing.
func TestTroubleNamesExitWithoutOutput(t *testing.T) {
	t.Parallel()
	const want = "container manager: CrashLoopBackOff: back-off 5m0s restarting failed container=manager; it ended with status 137 (OOMKilled)"
	pod := builder.Parse[corev1.Pod](t, "status: {containerStatuses: [{name: manager, state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s restarting failed container=manager}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}")
	if got := Trouble(pod); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestGraceIsThatOfProbeOrPod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pod   string
		probe *corev1.Probe
		want  time.Duration
	}{
		"by default":          {"{}", nil, 30 * time.Second},
		"of the Pod":          {"{terminationGracePeriodSeconds: 5}", &corev1.Probe{}, 5 * time.Second},
		"none at all":         {"{terminationGracePeriodSeconds: 0}", nil, 0},
		"of the probe":        {"{terminationGracePeriodSeconds: 5}", &corev1.Probe{TerminationGracePeriodSeconds: new(int64(2))}, 2 * time.Second},
		"a probe, no policy":  {"{}", &corev1.Probe{}, 30 * time.Second},
		"a probe before Pods": {"{}", &corev1.Probe{TerminationGracePeriodSeconds: new(int64(60))}, time.Minute},
	} {
		if got := GraceOf(builder.Parse[corev1.Pod](t, "spec: "+tc.pod), tc.probe); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestStatusKeepsWhatOthersWrote: conditions of readiness gates, and the start time.
func TestStatusKeepsWhatOthersWrote(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, `metadata: {generation: 4}
spec: {readinessGates: [{conditionType: x/y}], containers: [{name: a}]}
status: {startTime: "2025-01-01T00:00:00Z", nominatedNodeName: other, reason: Old, message: old, conditions: [{type: x/y, status: "True", reason: Theirs}]}`)
	s := Compute(Facts{Pod: pod, Now: start, Accepted: start, Containers: []Container{up("a")}})
	if s.StartTime.Year() != 2025 || s.NominatedNodeName != "other" || s.Reason != "" || s.Message != "" || s.ObservedGeneration != 4 || s.PodIP != "" {
		t.Errorf("status %+v", s)
	}
	found := 0
	for _, c := range s.Conditions {
		switch {
		case c.Type == "x/y" && c.Reason == "Theirs", c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			found++
		}
	}
	if found != 2 {
		t.Errorf("conditions %+v", s.Conditions)
	}
	if pod.Status.Reason != "Old" || len(pod.Status.Conditions) != 1 {
		t.Error("the status of the Pod itself changed")
	}
}
