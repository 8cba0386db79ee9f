// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPodOfEarlierPlaneRunsAsItsPolicyAllows starts a node with Pods that an earlier
// process of the plane ran.
func TestPodOfEarlierPlaneRunsAsItsPolicyAllows(t *testing.T) {
	t.Parallel()
	const (
		running = "imageID: i, containerID: 'capstan://old', state: {running: {startedAt: '2025-12-31T00:00:00Z'}}"
		done    = "imageID: i, containerID: 'capstan://old', state: {terminated: {exitCode: 0}}"
		pair    = "containers: [{name: a, image: x}, {name: b, image: x}]"
	)
	for name, tc := range map[string]struct {
		policy, status string
		wantPhase      corev1.PodPhase
		wantRuns       [2]int // of a and b
	}{
		"it had succeeded":              {"Never", "{phase: Succeeded, containerStatuses: [{name: a, " + done + "}, {name: b, " + done + "}]}", corev1.PodSucceeded, [2]int{}},
		"it had failed":                 {"Never", "{phase: Failed, reason: Evicted}", corev1.PodFailed, [2]int{}},
		"it ran and never restarts":     {"Never", "{phase: Running, containerStatuses: [{name: a, " + running + "}, {name: b, " + done + "}]}", corev1.PodFailed, [2]int{}},
		"it had no container yet":       {"Never", "{phase: Pending}", corev1.PodRunning, [2]int{1, 1}},
		"it restarts always":            {"Always", "{phase: Running, containerStatuses: [{name: a, " + running + "}, {name: b, " + done + "}]}", corev1.PodRunning, [2]int{1, 1}},
		"one container had completed":   {"OnFailure", "{phase: Running, containerStatuses: [{name: a, " + running + "}, {name: b, " + done + "}]}", corev1.PodRunning, [2]int{1, 0}},
		"neither of two had terminated": {"OnFailure", "{phase: Running, containerStatuses: [{name: a, " + running + "}, {name: b, " + running + "}]}", corev1.PodRunning, [2]int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {nodeName: plane, restartPolicy: " + tc.policy + ", " + pair + "}\nstatus: " + tc.status)
			got := func() [2]int { return [2]int{w.sandboxes.runs("a"), w.sandboxes.runs("b")} }
			pod := w.until("its phase", func(p *corev1.Pod) bool { return p.Status.Phase == tc.wantPhase && got() == tc.wantRuns })
			if tc.wantRuns == ([2]int{}) {
				if l := w.r.Node.life(pod.UID); l != nil || len(w.sandboxes.started) > 0 {
					t.Errorf("it is run: %d sandboxes were started", len(w.sandboxes.started))
				}
				before := w.writes
				if w.reconcile(); w.writes != before {
					t.Errorf("in steady state %d writes", w.writes-before)
				}
				return
			}
			for i, c := range []string{"a", "b"} {
				if tc.wantRuns[i] > 0 {
					w.sandboxes.latest(c).end(Exit{})
				}
			}
			if tc.policy == "OnFailure" {
				w.until("its end", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
			}
		})
	}
}
