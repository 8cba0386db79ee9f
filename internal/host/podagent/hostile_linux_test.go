// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

// nest creates nested directories below dir, with a file in the lowest.
func nest(t *testing.T, dir string, depth int, file []byte) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	name := strings.Repeat("n", 200)
	for range depth {
		if err == nil {
			err = root.Mkdir(name, 0o700)
		}
		if err == nil {
			above := root
			root, err = above.OpenRoot(name)
			err = errors.Join(err, above.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(root.WriteFile("file", file, 0o600), root.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestVolumesThatHideWhatTheyHoldAreEvicted covers each way to exceed the limit
// without a file of that size that has a path.
func TestVolumesThatHideWhatTheyHoldAreEvicted(t *testing.T) {
	t.Parallel()
	if builder.AsPlainUser(t) {
		return
	}
	const limited = "spec: {restartPolicy: Always, containers: [%s], volumes: [{name: v, emptyDir: {sizeLimit: 256Ki%s}}]}"
	const one = "{name: a, image: x, volumeMounts: [{name: v, mountPath: /v}]}"
	for name, tc := range map[string]struct {
		pod, message string
		fill         func(t *testing.T, dir string)
	}{
		"below a path that is too long": {fmt.Sprintf(limited, one, ""), "exceeds the limit of 262144 bytes", func(t *testing.T, dir string) { nest(t, dir, 40, make([]byte, 1<<20)) }},
		"in files without content": {fmt.Sprintf(limited, one, ""), "exceeds the limit of 262144 bytes", func(t *testing.T, dir string) {
			for n := range 100 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"in folders alone": {fmt.Sprintf(limited, one, ""), "exceeds the limit of 262144 bytes", func(t *testing.T, dir string) { nest(t, dir, 100, nil) }},
		"in a closed folder": {fmt.Sprintf(limited, one, ""), `volume "v" cannot be measured`, func(t *testing.T, dir string) {
			nest(t, dir, 1, make([]byte, 1<<20))
			if err := os.Chmod(filepath.Join(dir, strings.Repeat("n", 200)), 0); err != nil {
				t.Fatal(err)
			}
		}},
		"in memory that is shared": {fmt.Sprintf(limited, one+", "+strings.Replace(one, "a,", "b,", 1), ", medium: Memory"), "exceeds the limit of 262144 bytes", func(t *testing.T, dir string) { nest(t, dir, 1, make([]byte, 1<<20)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(tc.pod)
			w.until("it to be ready", ready)
			tc.fill(t, filepath.Join(w.dir, "volumes", "ns_p_u1", "v"))
			pod := w.until("its eviction", func(p *corev1.Pod) bool {
				w.clock.Step(measureEvery)
				return p.Status.Phase == corev1.PodFailed && w.r.Node.life("u1").over()
			})
			if pod.Status.Reason != "Evicted" || !strings.Contains(pod.Status.Message, tc.message) {
				t.Errorf("%s: %s", pod.Status.Reason, pod.Status.Message)
			}
			if left, err := os.ReadDir(filepath.Join(w.dir, "volumes")); err != nil || len(left) > 0 {
				t.Errorf("of its volumes %v stays, %v", left, err)
			}
		})
	}
}

// TestPodsThatTakeAllInodesAreEvicted fills a disk with files without content, also
// in volumes of medium Memory.
func TestPodsThatTakeAllInodesAreEvicted(t *testing.T) {
	t.Parallel()
	for name, medium := range map[string]string{"on disk": "{}", "in memory that is shared": "{medium: Memory}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add("spec: {restartPolicy: Always, containers: [{name: a, image: x, volumeMounts: [{name: v, mountPath: /v}]}, {name: b, image: x, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: " + medium + "}]}")
			w.until("it to be ready", ready)
			for n := range 11 {
				if err := os.WriteFile(filepath.Join(w.dir, "volumes", "ns_p_u1", "v", fmt.Sprint(n)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.freeFiles.Store(99) // of the hundred that stay free
			pod := w.until("its eviction", func(p *corev1.Pod) bool {
				w.clock.Step(lookLatest)
				return p.Status.Phase == corev1.PodFailed
			})
			const want = "The disk of the plane has inodes for 99 files left, and EmptyDir volumes of the Pod hold 11 files: give them a sizeLimit, or the plane a disk with more inodes"
			if pod.Status.Reason != "Evicted" || pod.Status.Message != want {
				t.Errorf("%s: %s", pod.Status.Reason, pod.Status.Message)
			}
		})
	}
}

// TestAPodIsDeletedThoughItsFilesStay checks that the files are renamed and that an
// event reports it.
func TestAPodIsDeletedThoughItsFilesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(filling)
	w.until("it to be ready", ready)
	file := w.holds("ns_p_u1", 1)
	builder.Protect(t, file, filepath.Join(w.dir, "volumes", "ns_p_u1.leftover-*", "v", "large"))
	w.delete()
	if w.reconcile() != nil || w.told.of("FailedUnmount") == 0 {
		t.Errorf("it is there, or no event reports its files: %v", w.told.all)
	}
}
