// SPDX-License-Identifier: Apache-2.0

package podstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

// interrupted shows containers in one line each: over or not, restarts, and the exit
// codes of the latest run and the one before.
func interrupted(pod *corev1.Pod) string {
	all, over := Interrupted(pod, start)
	lines := []string{fmt.Sprint("over=", over)}
	for _, c := range all {
		line := fmt.Sprintf("%s over=%v restarts=%d", c.Name, c.Over, c.Restarts)
		for _, e := range []*Exit{c.Ended, c.Before} {
			if e != nil {
				line += fmt.Sprintf(" %d", e.Code)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestInterruptedPodRunsAsItsPolicyAllows(t *testing.T) {
	t.Parallel()
	const (
		pair    = "containers: [{name: a}, {name: b}]"
		withJob = "initContainers: [{name: i}], containers: [{name: a}]"
		sidecar = "initContainers: [{name: s, restartPolicy: Always}], containers: [{name: a}]"

		running = "containerID: 'capstan://x', state: {running: {}}"
		done    = "containerID: 'capstan://x', state: {terminated: {exitCode: 0}}"
		crashed = "containerID: 'capstan://x', state: {terminated: {exitCode: 1}}"
		backOff = "containerID: 'capstan://x', state: {waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {exitCode: 2}}"
		pulling = "state: {waiting: {reason: ContainerCreating}}"
	)
	for name, tc := range map[string]struct{ policy, spec, inits, regular, want string }{
		"nothing had started":            {"Never", pair, "", "", "over=false; a over=false restarts=0; b over=false restarts=0"},
		"images were being pulled":       {"Never", pair, "", "{name: a, " + pulling + "}", "over=false; a over=false restarts=0; b over=false restarts=0"},
		"it ran and never restarts":      {"Never", pair, "", "{name: a, " + running + "}, {name: b, " + done + "}", "over=true; a over=true restarts=0 255; b over=true restarts=0 0"},
		"its first step had completed":   {"Never", withJob, "{name: i, " + done + "}", "{name: a, " + pulling + "}", "over=true; i over=true restarts=0 0; a over=true restarts=0"},
		"only its sidecar ran":           {"Never", sidecar, "{name: s, " + running + "}", "", "over=true; s over=true restarts=0 255; a over=true restarts=0"},
		"it restarts always":             {"Always", pair, "", "{name: a, restartCount: 2, " + running + "}, {name: b, " + backOff + "}", "over=false; a over=false restarts=3 255; b over=false restarts=1 2"},
		"one has completed":              {"OnFailure", pair, "", "{name: a, restartCount: 1, " + done + "}, {name: b, " + running + "}", "over=false; a over=true restarts=1 0; b over=false restarts=1 255"},
		"one has failed":                 {"OnFailure", pair, "", "{name: a, " + crashed + "}, {name: b, " + running + "}", "over=false; a over=false restarts=1 1; b over=false restarts=1 255"},
		"init containers run again":      {"OnFailure", withJob, "{name: i, " + done + "}", "{name: a, " + running + "}", "over=false; i over=false restarts=1 0; a over=false restarts=1 255"},
		"sidecars run again":             {"OnFailure", sidecar, "{name: s, " + running + "}", "{name: a, " + running + "}", "over=false; s over=false restarts=1 255; a over=false restarts=1 255"},
		"the next run had not started":   {"Always", pair, "", "{name: a, restartCount: 3, " + pulling + ", lastState: {terminated: {exitCode: 255}}}", "over=false; a over=false restarts=3 255; b over=false restarts=0"},
		"a status of another controller": {"Never", pair, "", "{name: other, " + running + "}, {name: b, containerID: x}", "over=true; a over=true restarts=0; b over=true restarts=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf("spec: {restartPolicy: %s, %s}\nstatus: {initContainerStatuses: [%s], containerStatuses: [%s]}", tc.policy, tc.spec, tc.inits, tc.regular)
			if got := interrupted(builder.Parse[corev1.Pod](t, text)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestInterruptedPodThatNeverRestartsHasFailed: the phase is Failed regardless of the
// step at which the node lost the Pod.
func TestInterruptedPodThatNeverRestartsHasFailed(t *testing.T) {
	t.Parallel()
	const spec = "spec: {restartPolicy: Never, initContainers: [{name: s, restartPolicy: Always}, {name: i}], containers: [{name: a}, {name: b}]}"
	for name, statuses := range map[string]string{
		"in its sidecar":         "{initContainerStatuses: [{name: s, containerID: x, state: {running: {}}}]}",
		"in an init container":   "{initContainerStatuses: [{name: i, containerID: x, state: {running: {}}}]}",
		"between its containers": "{initContainerStatuses: [{name: i, containerID: x, state: {terminated: {exitCode: 0}}}]}",
		"in its last container":  "{containerStatuses: [{name: a, containerID: x, state: {terminated: {exitCode: 0}}}, {name: b, containerID: x, state: {running: {}}}]}",
	} {
		pod := builder.Parse[corev1.Pod](t, spec+"\nstatus: "+statuses)
		f := Facts{Pod: pod, Now: start}
		f.Containers, _ = Interrupted(pod, start)
		if got := Compute(f); got.Phase != corev1.PodFailed || got.Reason != "" {
			t.Errorf("%s: phase %s, reason %q, want Failed", name, got.Phase, got.Reason)
		}
	}
}

// TestExitOfReadsWhatTerminatedReports: a status survives the process that wrote it.
func TestExitOfReadsWhatTerminatedReports(t *testing.T) {
	t.Parallel()
	for _, want := range []*Exit{
		nil,
		{Started: start, Finished: start.Add(time.Second)},
		{Code: 137, Signal: 9, OOMKilled: true, Message: "too much", Started: start, Finished: start, ID: "u-a-3"},
	} {
		if diff := cmp.Diff(want, exitOf(terminated(want))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	known := Container{Name: "a", Over: true, Ended: &Exit{ID: "u-a-3", Started: start, Finished: start}}
	pod := builder.Parse[corev1.Pod](t, "spec: {restartPolicy: OnFailure, containers: [{name: a}, {name: b}]}")
	pod.Status = Compute(Facts{Pod: pod, Now: start, Accepted: start, Containers: []Container{known}})
	if all, _ := Interrupted(pod, start); len(all) != len(podspec.Containers(pod)) || !cmp.Equal(all[0].Ended, known.Ended) {
		t.Errorf("got %+v, want the exit %+v", all, known.Ended)
	}
}
