// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// AsPlainUser runs a test of root again as a user without rights, and returns true then. It
// returns false in that run, and to tests of a plain user.
func AsPlainUser(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	const unprivileged = 65534
	dir, err := os.MkdirTemp("", "capstan-plain-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chown(dir, unprivileged, unprivileged)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as a plain user: %v\n%s", err, out)
	}
	return true
}

// Protect keeps a file from being removed, by root too, until the test ends. It skips the
// test where that is not possible. Its folder may be renamed: glob finds the file then.
func Protect(t *testing.T, file, glob string) {
	t.Helper()
	const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	set := func(file string, flags int) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		return errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags), f.Close())
	}
	if err := set(file, immutable); err != nil {
		t.Skip("the file system or the user cannot protect a file: ", err)
	}
	t.Cleanup(func() {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) != 1 {
			t.Errorf("the protected file is at %v, %v, want one place", files, err)
		}
		for _, f := range files {
			if err := set(f, 0); err != nil {
				t.Error(err)
			}
		}
	})
}
