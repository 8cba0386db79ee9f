// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestAPodWhoseTimeIsOverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("spec: {restartPolicy: Always, activeDeadlineSeconds: 60, containers: [{name: a, image: x}]}")
	w.until("it to be ready", ready)
	w.clock.Step(59 * time.Second)
	if pod := w.reconcile(); pod.Status.Phase != corev1.PodRunning {
		t.Errorf("after 59 s it is %s", pod.Status.Phase)
	}
	w.clock.Step(time.Second)
	pod := w.until("its failure", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if pod.Status.Reason != "DeadlineExceeded" || w.sandboxes.runs("a") != 1 {
		t.Errorf("%s, %d runs", pod.Status.Reason, w.sandboxes.runs("a"))
	}
}

func TestAPodWhoseVolumeIsTooLargeIsEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := builder.Parse[corev1.Pod](t, `
metadata: {namespace: ns, name: p, uid: u1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r1, controller: true}]}
spec: {restartPolicy: Always, containers: [{name: a, image: x, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {sizeLimit: 64Ki}}]}
`)
	if err := w.mgmt.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.until("it to be ready", ready)
	if err := os.WriteFile(filepath.Join(w.dir, "volumes", "ns_p_u1", "v", "large"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `Usage of EmptyDir volume "v" exceeds the limit of 65536 bytes: raise its sizeLimit, or have it hold less`
	w.until("its eviction", func(p *corev1.Pod) bool {
		w.clock.Step(measureEvery)
		return p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == want
	})
	if problems, left := w.r.Node.waits(pod); left <= 0 || len(problems) != 1 || !strings.HasSuffix(problems[0].Detail, want) {
		t.Errorf("the next of its owner waits for %s: %v", left, problems)
	}
}

func TestAProbeSaysHowLongAContainerHasToEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sandboxes.returns("alive", 0)
	w.add("spec: {restartPolicy: Always, terminationGracePeriodSeconds: 3600, containers: [{name: a, image: x, livenessProbe: {exec: {command: [alive]}, initialDelaySeconds: 20, periodSeconds: 1, failureThreshold: 1, terminationGracePeriodSeconds: 5}}]}")
	w.until("it to be ready", ready)
	w.sandboxes.latest("a").ignoresTerm = true
	w.sandboxes.returns("alive", 1)
	began := w.clock.Now()
	w.until("a restart", func(*corev1.Pod) bool { w.clock.Step(time.Second); return w.sandboxes.runs("a") == 2 })
	if took := w.clock.Since(began); took < 25*time.Second || took > 10*time.Minute {
		t.Errorf("it ended after %s, want 5 s after the probe has failed", took)
	}
	pod := w.until("its status", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].LastTerminationState.Terminated != nil })
	if s := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; s.Signal != int32(syscall.SIGKILL) {
		t.Errorf("it ended by signal %d", s.Signal)
	}
}
