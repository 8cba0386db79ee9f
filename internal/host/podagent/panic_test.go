// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/builder"
)

// TestPodThatPanicsIsEvictedAlone plants a panic in each goroutine of a Pod. The Pod
// ends with its sandbox, its owner's next one waits, and another Pod runs.
func TestPodThatPanicsIsEvictedAlone(t *testing.T) {
	t.Parallel()
	const spec = "spec: {containers: [{name: a, image: x, %s volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}"
	for name, tc := range map[string]struct {
		panics, container string
		deletes           bool
		wantStopped       int
	}{
		"start of a sandbox":   {panics: "Start"},
		"start of a container": {panics: "Run", wantStopped: 1},
		"hook after the start": {panics: "Exec", container: "lifecycle: {postStart: {exec: {command: [x]}}},", wantStopped: 1},
		"startup probe":        {panics: "Exec", container: "startupProbe: {exec: {command: [x]}},", wantStopped: 1},
		"readiness probe":      {panics: "Exec", container: "readinessProbe: {exec: {command: [x]}},", wantStopped: 1},
		"liveness probe":       {panics: "Exec", container: "livenessProbe: {exec: {command: [x]}},", wantStopped: 1},
		"room on the disk":     {panics: "Space", wantStopped: 1},
		"hook before the end":  {panics: "Exec", container: "lifecycle: {preStop: {exec: {command: [x]}}},", deletes: true, wantStopped: 1},
		"end of a sandbox":     {panics: "Stop", deletes: true, wantStopped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.sandboxes.panics = tc.panics
			w.add(fmt.Sprintf(spec, tc.container))
			if tc.deletes {
				w.until("it to be ready", ready)
				w.r.Node.life("u1").stop(0)
			}
			pod := w.until("its end", func(p *corev1.Pod) bool {
				l := w.r.Node.life("u1")
				return l != nil && l.over() && p.Status.Phase == corev1.PodFailed
			})
			if want := "planted in " + tc.panics; pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, want) || w.told.of("Evicted") != 1 {
				t.Errorf("it is %s: %s with %d Events, want Evicted, %s and one", pod.Status.Reason, pod.Status.Message, w.told.of("Evicted"), want)
			}
			if w.sandboxes.stopped != tc.wantStopped {
				t.Errorf("%d sandboxes are stopped, want %d", w.sandboxes.stopped, tc.wantStopped)
			}
			w.sandboxes.panics = ""
			other, err := w.r.Node.take(builder.Parse[corev1.Pod](t, "metadata: {namespace: ns, name: other, uid: u2}\n"+fmt.Sprintf(spec, "")))
			if err != nil {
				t.Fatal(err)
			}
			w.until("another Pod to run", func(*corev1.Pod) bool { _, err := other.runs(); return err == nil })
		})
	}
}

func TestPodThatPanicsInReconcileIsLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.r.Mgmt = nil
	pod := builder.Parse[corev1.Pod](t, podText+"spec: {containers: [{name: a, image: x}]}")
	if _, err := w.r.Reconcile(t.Context(), pod); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("got error %v, want one that is not tried again", err)
	}
	if w.told.of("Panicked") != 1 {
		t.Errorf("got Events %q, want one of the panic", w.told.all)
	}
}
