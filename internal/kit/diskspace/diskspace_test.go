// SPDX-License-Identifier: Apache-2.0

package diskspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatIsKeptForOthersIsNotUsed compares with the result of statfs for a disk
// that may reserve blocks for root.
func TestWhatIsKeptForOthersIsNotUsed(t *testing.T) {
	t.Parallel()
	var st unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &st); err != nil {
		t.Fatal(err)
	}
	got, err := Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all, kept := int64(st.Blocks)*int64(st.Bsize), int64(st.Bfree-st.Bavail)*int64(st.Bsize)
	if got.Total()+kept > all+1<<30 || got.Total()+kept < all-1<<30 {
		t.Errorf("used %d and free %d are not all but the %d that are kept", got.Used, got.Free, kept)
	}
}

func TestAFolderThatIsNotThereIsNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	if _, err := Of(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

func TestFullDiskErrorHasRemedy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"nothing":        {nil, "<nil>"},
		"something else": {fs.ErrNotExist, "file does not exist"},
		"a full disk":    {fmt.Errorf("write x: %w", unix.ENOSPC), "write x: no space left on device: free space on the disk of /d, so"},
		"a full quota":   {fmt.Errorf("write x: %w", unix.EDQUOT), "write x: disk quota exceeded: free space on the disk of /d, so"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Explain(tc.err, "/d", "so"); fmt.Sprint(got) != tc.want || !errors.Is(got, tc.err) {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}
