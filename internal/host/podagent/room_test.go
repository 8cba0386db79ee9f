// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
)

// filling is a Pod that may fill the disk.
const filling = "spec: {restartPolicy: Always, containers: [{name: a, image: x, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}"

// holds writes so many bytes to a Pod's volume.
func (w *world) holds(pod string, bytes int) (file string) {
	w.t.Helper()
	file = filepath.Join(w.dir, "volumes", pod, "v", "large")
	if err := os.WriteFile(file, make([]byte, bytes), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// TestPodsThatFillTheDiskAreEvicted checks that the Pod with the largest usage is
// evicted first, as many Pods as needed, and never those with almost no usage.
func TestPodsThatFillTheDiskAreEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(filling)
	w.until("it to be ready", ready)
	others := map[string]*life{}
	for name, bytes := range map[string]int{"middle": 2 << 20, "small": 64 << 10} {
		l, err := w.r.Node.take(builder.Parse[corev1.Pod](t, fmt.Sprintf("metadata: {namespace: ns, name: %[1]s, uid: %[1]s}\n%s", name, filling)))
		if err != nil {
			t.Fatal(err)
		}
		w.until(name+" to run", func(*corev1.Pod) bool { _, err := l.runs(); return err == nil })
		w.holds(l.name, bytes)
		others[name] = l
	}
	file := w.holds("ns_p_u1", 4<<20)
	w.free.Store(10<<20 + 1)
	w.r.Node.relieve()
	if w.r.Node.life("u1").stopping() {
		t.Fatal("it is evicted while there is room")
	}
	w.free.Store(9 << 20)
	pod := w.until("its eviction", func(p *corev1.Pod) bool {
		w.clock.Step(lookLatest)
		return p.Status.Phase == corev1.PodFailed && w.r.Node.life("u1").over()
	})
	const want = "The disk of the plane has 9 MiB left, and EmptyDir volumes of the Pod hold 4 MiB: give them a sizeLimit, or the plane a larger disk"
	if pod.Status.Reason != "Evicted" || pod.Status.Message != want {
		t.Errorf("it is %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("what it wrote: %v, want that it is gone", err)
	}
	w.r.Node.relieve()
	if !others["middle"].stopping() || others["small"].stopping() {
		t.Errorf("the next one is evicted: %t, the small one: %t; want true and false", others["middle"].stopping(), others["small"].stopping())
	}
}

// TestAPodWaitsAfterOneOfItsOwnerWasEvicted checks that Pods of the same owner
// wait, and others do not.
func TestAPodWaitsAfterOneOfItsOwnerWasEvicted(t *testing.T) {
	t.Parallel()
	const waits = "spec: another Pod of ReplicaSet full was evicted, so this one waits until 2026-01-01T00:05:00Z: it wrote too much"
	owned := func(uid string) string {
		return fmt.Sprintf("  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: full, uid: %s, controller: true}]\n", uid)
	}
	for name, tc := range map[string]struct{ meta, says string }{"of the same": {owned("r1"), waits}, "of another": {owned("r2"), ""}, "of no owner": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.r.Node.noteEvicted(builder.Parse[corev1.Pod](t, "metadata:\n"+owned("r1")), "it wrote too much")
			pod := builder.Parse[corev1.Pod](t, "metadata:\n  namespace: ns\n  name: p\n  uid: u1\n"+tc.meta+filling)
			if err := w.mgmt.Create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if tc.says != "" {
				pod := w.reconcile()
				if c := pod.Status.Conditions; len(c) != 1 || c[0].Message != tc.says || pod.Spec.NodeName != "" {
					t.Errorf("bound to %q, it has %+v", pod.Spec.NodeName, c)
				}
				if res, err := w.r.Reconcile(t.Context(), pod); err != nil || res.RequeueAfter != evictedFor {
					t.Errorf("it is checked again after %s, %v", res.RequeueAfter, err)
				}
				w.clock.Step(evictedFor)
			}
			w.until("it to be ready", ready)
		})
	}
}

// TestAWriterIsNotFasterThanWhoLooks checks that the interval shrinks with the free
// space.
func TestAWriterIsNotFasterThanWhoLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for free, want := range map[int64]time.Duration{
		diskBytes:      lookSoonest, // a writer can fill all of this disk sooner
		9 << 20:        lookFull,    // no Pod uses space
		1000 << 30:     lookLatest,
		10<<20 + 8<<30: 2 * time.Second,
	} {
		w.free.Store(free)
		if got := w.r.Node.relieve(); got != want {
			t.Errorf("with %d MiB free it is checked after %s, want %s", free>>20, got, want)
		}
	}
	if got := room(diskspace.Space{Used: 1 << 40, Free: 1 << 40}); got != 1<<30 {
		t.Errorf("of a large disk %d bytes are left", got)
	}
}
