// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestFullDiskIsReportedAndBuildResumesWithSpace(t *testing.T) {
	disk := builder.SmallDisk(t, 1)
	if disk == "" {
		return
	}
	i := put(t, openStore(t), "v1.36.3", strings.Repeat("kubelet ", 256<<10)) // 2 MiB
	archive := exported(t, i, "a.tar")
	s, err := Open(t.Context(), filepath.Join(disk, "images"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = importBytes(t, s, archive)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space on the disk of "+s.Dir()) || !strings.Contains(err.Error(), `"capstan image remove --cache"`) {
		t.Errorf("got %v, want what to do about a disk that is full", err)
	}
	for _, dir := range []string{"tmp", "roots", "layers"} {
		if left, err := os.ReadDir(filepath.Join(s.Dir(), dir)); err != nil || len(left) > 0 {
			t.Errorf("in %s are left %v, %v", dir, left, err)
		}
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if got, err := importBytes(t, s, archive); err != nil || got.ID != i.ID {
		t.Errorf("when there is room: %s, %v", got.ID, err)
	}
}
