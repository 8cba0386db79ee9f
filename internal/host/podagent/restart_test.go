// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// stubborn is a sandbox whose containers exit only when they are killed.
type stubborn struct {
	Running
	asked chan time.Duration // the grace period of each Stop
	ended chan struct{}
}

func (s stubborn) Stop(ctx context.Context, grace time.Duration) error {
	s.asked <- grace
	<-ctx.Done()
	close(s.ended)
	return s.Running.Stop(ctx, grace)
}

// TestGracePeriodCanBeShortened: the last request counts if its deadline is earlier.
func TestGracePeriodCanBeShortened(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		again func(*world, *life)
		after time.Duration // it is killed after this time, and not before
	}{
		"by a second deletion": {func(_ *world, l *life) { l.stop(5 * time.Second) }, 5 * time.Second},
		"by two of them":       {func(_ *world, l *life) { l.stop(20 * time.Second); l.stop(7 * time.Second); l.stop(time.Minute) }, 7 * time.Second},
		"by a forced deletion": {func(w *world, l *life) { w.r.Forget(l.key) }, 0},
		"by the plane's end": {func(w *world, _ *life) {
			ctx, cancel := context.WithCancel(w.t.Context())
			cancel()
			go func() { _ = w.r.Node.Start(ctx) }()
			w.until("the timers of both", func(*corev1.Pod) bool { return w.clock.Waiters() >= 2 })
		}, stopTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {containers: [{name: a, image: x}]}")
			w.until("it to be ready", ready)
			l := w.r.Node.named(client.ObjectKey{Namespace: "ns", Name: "p"})
			l.mu.Lock()
			s := stubborn{l.sandbox, make(chan time.Duration, 1), make(chan struct{})}
			l.sandbox = s
			l.mu.Unlock()
			l.stop(time.Hour)
			if got := <-s.asked; got != time.Hour {
				t.Fatalf("its sandbox has %s to end, want an hour", got)
			}
			tc.again(w, l)
			if tc.after > 0 {
				w.clock.Step(tc.after - time.Millisecond)
				if l.grant.Err() != nil {
					t.Errorf("it is killed before %s", tc.after)
				}
			}
			w.clock.Step(time.Millisecond)
			<-s.ended
			<-l.ended
		})
	}
}

// TestHookEndsWithShortenedGracePeriod: a hook that runs does not delay the end.
func TestHookEndsWithShortenedGracePeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {containers: [{name: a, image: x, lifecycle: {preStop: {sleep: {seconds: 3600}}}}]}")
	w.until("it to be ready", ready)
	l := w.r.Node.named(client.ObjectKey{Namespace: "ns", Name: "p"})
	l.stop(2 * time.Hour)
	w.until("its hook", func(*corev1.Pod) bool { return w.clock.HasWaiters() })
	l.stop(time.Second)
	w.clock.Step(time.Second)
	<-l.ended
	if w.sandboxes.stopped != 1 {
		t.Errorf("%d sandboxes have ended, want 1", w.sandboxes.stopped)
	}
}
