// SPDX-License-Identifier: Apache-2.0

package podvolumes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// TestFoldersThatPodsCloseAreRemoved: at the end of a Pod, and at the start of a
// plane after it was killed.
func TestFoldersThatPodsCloseAreRemoved(t *testing.T) {
	t.Parallel()
	if builder.AsPlainUser(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "volumes")
	t.Cleanup(func() { _ = filetree.Remove(dir) }) // the test's own folder is removed next
	for range 2 {
		s, err := Open(dir)
		if err != nil || s.Left != nil {
			t.Fatal(err, s.Left)
		}
		for _, pod := range []string{"ended", "killed"} {
			if err := s.Empty(pod, "v"); err != nil {
				t.Fatal(err)
			}
			x := filepath.Join(s.Path(pod, "v"), "x")
			if err := errors.Join(os.MkdirAll(filepath.Join(x, "y"), 0o700), os.Chmod(x, 0), os.Chmod(s.Path(pod, "v"), 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Remove("ended"); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("there are %v, %v, want what was killed", left, err)
		}
	}
}

// TestOpenMovesLeftoversAway: what cannot be removed is reported, and does not
// prevent a start.
func TestOpenMovesLeftoversAway(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "volumes")
	s, err := Open(dir)
	if err == nil {
		err = s.Empty("pod", "v")
	}
	file := filepath.Join(s.Path("pod", "v"), "file")
	if err = errors.Join(err, os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	builder.Protect(t, file, filepath.Join(above, "volumes.leftover-*", "pod", "v", "file"))
	for range 2 {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !errors.As(s.Left, new(*filetree.LeftoverError)) {
			t.Errorf("left is %v", s.Left)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
			t.Errorf("it begins with %v, %v", all, err)
		}
	}
}
