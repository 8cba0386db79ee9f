// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// smallDiskVariable is the folder on which a test that runs again has a small disk.
const smallDiskVariable = "CAPSTAN_TEST_SMALL_DISK"

// onSmallDisk runs a test again with all of its files on a disk of a gigabyte,
// which no other process sees. It returns false in the test that runs again.
func onSmallDisk(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a plain user mounts no disk")
	}
	if dir := os.Getenv(smallDiskVariable); dir != "" {
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1g")); err != nil {
			t.Fatal(err)
		}
		return false
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v="+fmt.Sprint(testing.Verbose()), "-test.timeout=30m")
	cmd.Env = append(os.Environ(), smallDiskVariable+"="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("on a small disk: %v\n%s", err, out)
	}
	t.Logf("%s", out)
	return true
}

// TestAPodThatFillsTheDiskGoes: its status says why, its replacement waits, and no
// other Pod has less than before.
func TestAPodThatFillsTheDiskGoes(t *testing.T) {
	testenv.Alone(t, 1)
	if onSmallDisk(t) {
		return
	}
	b := newPodLab(t)
	image := b.push("good", b.image())
	good := b.deploy("good", image, ", readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}", "")
	b.becomes(good)
	const mounts = ", volumeMounts: [{name: v, mountPath: /v}]"
	full := b.deploy("full", image, ", args: [fill, /v], resources: {limits: {cpu: 200m}}"+mounts, "volumes: [{name: v, emptyDir: {}}]")
	b.says(full, []string{"Evicted"}, "MiB left, and EmptyDir volumes of the Pod hold ")
	b.says(full, []string{"Unschedulable"}, "spec: another Pod of ReplicaSet full-")
	testenv.Eventually(b, func() error {
		if s, err := diskspace.Of(b.dir); err != nil || s.Free < s.Total()/2 {
			return fmt.Errorf("of the disk there is %d MiB, %d of it free: %w", s.Total()>>20, s.Free>>20, err)
		}
		return nil
	})
	for n := range 20 {
		b.must(b.env.Client.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("after-", n), Namespace: "default"}}))
	}
	all, err := b.podsOf(good)
	b.must(errors.Join(err, b.available(good, corev1.ConditionTrue)))
	if len(all) != 1 || all[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the Pod that fills nothing did not stay as it was: %+v", all)
	}
	b.becomes(b.deploy("another", image, mounts, "volumes: [{name: v, emptyDir: {}}]"))
	if left, err := filepath.Glob(filepath.Join(b.dir, "pods/volumes/*full*")); err != nil || len(left) > 0 {
		t.Errorf("of the Pods that have gone there is %v, %v", left, err)
	}

	// A Pod that was faster than the plane has left no room for it to start again.
	b.process.Kill()
	left := filepath.Join(b.dir, "pods/volumes/killed/v")
	b.must(os.MkdirAll(left, 0o755))
	f, err := os.Create(filepath.Join(left, "filled"))
	b.must(err)
	for err == nil {
		_, err = f.Write(make([]byte, 1<<20))
	}
	if !diskspace.Full(err) {
		t.Fatal(err)
	}
	b.must(f.Close())
	_, err = testenv.Up(t, "--data-dir="+b.dir, "--listen=127.0.0.1:0")
	b.must(err)
}
