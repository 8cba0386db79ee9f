// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a small disk for the calling thread alone; it ends with the
// test.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a disk")
	}
	dir := t.TempDir()
	runtime.LockOSThread() // never unlocked, so that no other goroutine gets the thread
	err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, options)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullDiskIsReportedAndBuildResumesWithSpace(t *testing.T) {
	i := put(t, openStore(t), "v1.36.3", strings.Repeat("kubelet ", 32<<10)) // 256 KiB
	var archive bytes.Buffer
	if err := i.Export(t.Context(), &archive, Plain); err != nil {
		t.Fatal(err)
	}
	disk := smallDisk(t, "size=128k")
	s, err := Open(filepath.Join(disk, "images"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Import(t.Context(), bytes.NewReader(archive.Bytes()), "")
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space on the disk of "+s.Dir()) || !strings.Contains(err.Error(), `"capstan image remove --cache"`) {
		t.Errorf("got %v, want what to do about a disk that is full", err)
	}
	for _, dir := range []string{"tmp", imagesDir} {
		if left, err := os.ReadDir(filepath.Join(s.Dir(), dir)); err != nil || len(left) > 0 {
			t.Errorf("in %s are left %v, %v", dir, left, err)
		}
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Import(t.Context(), bytes.NewReader(archive.Bytes()), i.ID); err != nil || got.ID != i.ID {
		t.Errorf("when there is room: %s, %v", got.ID, err)
	}
}
