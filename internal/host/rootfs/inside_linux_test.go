// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoLinkLeadsOut(t *testing.T) {
	for name, tc := range map[string]struct {
		how     uint64
		created map[string]string // the file in the root by the requested path
		refused []string
	}{
		"links are followed inside": {unix.RESOLVE_IN_ROOT, map[string]string{"/inside/a/b": "in/a/b", "/x/y": "x/y", "/near/c": "in/c", "/up/d": "d"}, []string{"/absolute/new", "/dots/new", "/proc/self/cwd/new"}},
		"links out are refused":     {unix.RESOLVE_BENEATH, map[string]string{"/x/y": "x/y", "/near/c": "in/c"}, []string{"/absolute/new", "/dots/new", "/inside/a", "/up/d", "/proc/self/cwd/new"}},
		"links are refused":         {unix.RESOLVE_NO_SYMLINKS, map[string]string{"/x/y": "x/y"}, []string{"/absolute/new", "/dots/new", "/inside/a", "/near/c", "/up/d"}},
	} {
		t.Run(name, func(t *testing.T) {
			outside, root := t.TempDir(), t.TempDir()
			err := errors.Join(os.Mkdir(filepath.Join(root, "in"), 0o755), os.Symlink(outside, filepath.Join(root, "absolute")),
				os.Symlink("../../../../../../../../../.."+outside, filepath.Join(root, "dots")), os.Symlink("/in", filepath.Join(root, "inside")),
				os.Symlink("in", filepath.Join(root, "near")), os.Symlink("..", filepath.Join(root, "up")), os.Symlink("/proc", filepath.Join(root, "proc")))
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			f := folder{fd, tc.how}
			for p, want := range tc.created {
				made, err := f.makeFile(p)
				if err != nil {
					t.Errorf("%s: %v", p, err)
					continue
				}
				_ = unix.Close(made)
				if _, err := os.Stat(filepath.Join(root, want)); err != nil {
					t.Errorf("%s: %v", p, err)
				}
			}
			for _, p := range tc.refused {
				if _, err := f.makeFile(p); err == nil {
					t.Errorf("%s was created", p)
				}
			}
			if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
				t.Errorf("outside: %v, %v", all, err)
			}
		})
	}
}

// TestNoRaceLeadsOut: a process that still has the folder of a volume open swaps a
// folder on the way for a link while a mount point is created.
func TestNoRaceLeadsOut(t *testing.T) {
	for name, how := range map[string]uint64{"followed inside": unix.RESOLVE_IN_ROOT, "refused": unix.RESOLVE_BENEATH, "no links": unix.RESOLVE_NO_SYMLINKS} {
		t.Run(name, func(t *testing.T) {
			outside, root := t.TempDir(), t.TempDir()
			at, link := filepath.Join(root, "at"), filepath.Join(root, "link")
			if err := errors.Join(os.Mkdir(at, 0o755), os.Symlink(outside, link)); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			stop, swapped := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				for ; ; n++ {
					select {
					case <-stop:
						swapped <- n
						return
					default:
						_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
					}
				}
			}()
			created := 0
			for i := range 3000 {
				made, err := folder{fd, how}.makeFile(fmt.Sprintf("/at/%d/file", i))
				if err == nil {
					created++
					_ = unix.Close(made)
				}
			}
			close(stop)
			n := <-swapped
			if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
				t.Errorf("outside are %d files, %v", len(all), err)
			}
			if created == 0 || n == 0 {
				t.Errorf("%d files were created, and %d times swapped: nothing was raced", created, n)
			}
		})
	}
}

// TestReplaceFollowsNoLink: the image decides what is at the names of files that the
// sandbox writes.
func TestReplaceFollowsNoLink(t *testing.T) {
	outside, dir := filepath.Join(t.TempDir(), "outside"), t.TempDir()
	parent, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, os.WriteFile(outside, []byte("kept"), 0o644)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(parent) }()
	for name, prepare := range map[string]func(name string) error{
		"nothing": func(string) error { return nil },
		"link":    func(name string) error { return os.Symlink(outside, name) },
		"file":    func(name string) error { return os.WriteFile(name, []byte("a long text"), 0o600) },
		"pipe":    func(name string) error { return unix.Mkfifo(name, 0o600) },
		"folder":  func(name string) error { return os.Mkdir(name, 0o700) },
		"shared":  func(name string) error { return os.Link(outside, name) },
	} {
		file := filepath.Join(dir, name)
		err := errors.Join(prepare(file), replace(parent, name, []byte("new")))
		got, rerr := os.ReadFile(file)
		if errors.Join(err, rerr) != nil || string(got) != "new" {
			t.Errorf("%s: got %q, %v, %v", name, got, err, rerr)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "full", "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(parent, "full", nil); err == nil {
		t.Error("a folder with content was replaced")
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "kept" {
		t.Errorf("the file outside has %q, %v", got, err)
	}
}

// TestOpenTreeClosesWhatItOpens: the plane opens volumes for each start of a container,
// and a descriptor that is closed twice may be another goroutine's by then.
func TestOpenTreeClosesWhatItOpens(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.Symlink("/etc", filepath.Join(dir, "away"))); err != nil {
		t.Fatal(err)
	}
	open := func() (fds []string) {
		t.Helper()
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
				fds = append(fds, to)
			}
		}
		return fds
	}
	for _, sub := range []string{"", "a", "a/b", "away", "none"} {
		tree, err := OpenTree(dir, sub, false)
		if err == nil {
			err = unix.Close(tree)
		} else if refused := sub == "away" || sub == "none"; !refused && os.Geteuid() == 0 {
			t.Errorf("%q: %v", sub, err)
		}
		if left := open(); len(left) > 0 {
			t.Errorf("%q (%v): %v stay open", sub, err, left)
		}
	}
	if _, err := OpenTree(filepath.Join(dir, "none"), "a", false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a source that does not exist: %v", err)
	}
}
