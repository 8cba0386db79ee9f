// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filetree

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// plain runs f as a user without rights, whose folder dir is.
func plain(t *testing.T, dir string, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	for at := dir; at != "/"; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			err = os.Chmod(at, info.Mode().Perm()|0o011)
		}
		must(t, err)
	}
	must(t, os.Chown(dir, nobody, nobody))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with its rights
		must(t, errors.Join(unix.Setfsgid(nobody), unix.Setfsuid(nobody)))
		f()
	}()
	<-done
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// deepen creates nested folders, by descriptors.
func deepen(t *testing.T, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Errorf("mkdir: %v", err)
			break
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, errors.Join(err, unix.Close(fd)))
		fd = next
	}
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	_, err = unix.Write(file, make([]byte, 1<<16))
	must(t, errors.Join(err, unix.Close(file), unix.Close(fd)))
}

// trees are what removal has failed for.
var trees = map[string]func(t *testing.T, dir string){
	"closed folders": func(t *testing.T, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "x/y/z"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "x/y/z/file"), nil, 0))
		for _, name := range []string{"x/y/z", "x/y", "x"} {
			must(t, os.Chmod(filepath.Join(dir, name), 0))
		}
	},
	"folders that cannot be written or entered": func(t *testing.T, dir string) {
		for name, mode := range map[string]os.FileMode{"r": 0o400, "w": 0o200, "x": 0o100, "rx": 0o500} {
			must(t, os.MkdirAll(filepath.Join(dir, name, "below"), 0o700))
			must(t, os.Chmod(filepath.Join(dir, name), mode))
		}
	},
	"a closed root": func(t *testing.T, dir string) {
		must(t, os.Mkdir(filepath.Join(dir, "x"), 0o700))
		must(t, os.Chmod(dir, 0))
	},
	"beyond PATH_MAX":    func(t *testing.T, dir string) { deepen(t, dir, strings.Repeat("n", 250), 60) },
	"beyond descriptors": func(t *testing.T, dir string) { deepen(t, dir, "d", 1500) },
	"many and nested": func(t *testing.T, dir string) {
		for n := range 500 {
			must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint("a-rather-long-name-", n), "b"), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("a-rather-long-name-", n), "c"), nil, 0o600))
		}
	},
	"links": func(t *testing.T, dir string) {
		must(t, os.Symlink("/", filepath.Join(dir, "root")))
		must(t, os.Symlink("..", filepath.Join(dir, "up")))
		must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	},
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	limitDescriptors(t)
	for name, fill := range trees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			outside := filepath.Join(above, "outside")
			must(t, os.WriteFile(outside, nil, 0o600))
			plain(t, above, func() {
				dir := filepath.Join(above, "tree")
				must(t, os.Mkdir(dir, 0o700))
				fill(t, dir)
				must(t, Remove(dir))
				if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("it is left: %v", err)
				}
				must(t, Remove(dir)) // there is none
			})
			if _, err := os.Lstat(outside); err != nil {
				t.Errorf("outside of it: %v", err)
			}
		})
	}
}

// limitDescriptors has fewer of them than the deepest tree has folders.
func limitDescriptors(t *testing.T) {
	t.Helper()
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: 1024}))
}

// TestRemoveFollowsNoWriter replaces folders by links while they are removed.
func TestRemoveFollowsNoWriter(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	outside := filepath.Join(above, "outside")
	must(t, os.MkdirAll(filepath.Join(outside, "below"), 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	for range 40 {
		dir := filepath.Join(above, "tree")
		for n := range 5 {
			must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(n), "below/below"), 0o700))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := range 5 {
				at := filepath.Join(dir, fmt.Sprint(n))
				_ = os.Rename(filepath.Join(at, "below"), filepath.Join(dir, fmt.Sprint("moved", n))) // it may be removed
				_ = os.Symlink(outside, filepath.Join(at, "below"))
			}
		}()
		err := Remove(dir)
		<-done
		if err != nil {
			must(t, Remove(dir)) // the writer has ended
		}
	}
	for _, name := range []string{"below", "file"} {
		if _, err := os.Lstat(filepath.Join(outside, name)); err != nil {
			t.Errorf("outside of the tree: %v", err)
		}
	}
}

func TestDiscardMovesWhatItCannotRemove(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a folder of another user is needed")
	}
	above := t.TempDir()
	dir := filepath.Join(above, "tree")
	must(t, os.MkdirAll(filepath.Join(dir, "foreign", "file"), 0o755)) // of root
	var left *LeftoverError
	plain(t, above, func() {
		for range 2 {
			if err := Discard(dir); !errors.As(err, &left) {
				t.Errorf("got %v, want what is left", err)
				return
			}
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the name is taken: %v", err)
			}
		}
		if _, err := os.Lstat(filepath.Join(left.Path, "foreign")); err != nil || !strings.HasPrefix(left.Path, dir+leftover) {
			t.Errorf("it is not at %s: %v", left.Path, err)
		}
	})
	must(t, os.Mkdir(dir, 0o700))
	must(t, Discard(dir))
	if all, err := os.ReadDir(above); err != nil || len(all) > 0 {
		t.Errorf("with all rights %v stays, %v", all, err)
	}
}

func TestMeasureCountsAllThereIs(t *testing.T) {
	t.Parallel()
	limitDescriptors(t)
	for name, tc := range map[string]struct {
		fill  func(t *testing.T, dir string)
		least Usage
	}{
		"beyond PATH_MAX":    {trees["beyond PATH_MAX"], Usage{60*FileBytes + 1<<16, 61}},
		"beyond descriptors": {trees["beyond descriptors"], Usage{1500*FileBytes + 1<<16, 1501}},
		"many and nested":    {trees["many and nested"], Usage{1500 * FileBytes, 1500}},
		"links":              {trees["links"], Usage{3 * FileBytes, 3}},
		"nothing":            {func(*testing.T, string) {}, Usage{}},
		"empty files": {func(t *testing.T, dir string) {
			for n := range 1000 {
				must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o600))
			}
		}, Usage{1000 * FileBytes, 1000}},
		"names of one file": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			for n := range 1000 {
				must(t, os.Link(filepath.Join(dir, "f"), filepath.Join(dir, fmt.Sprint(n))))
			}
		}, Usage{FileBytes + 1000*nameBytes, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "tree")
			must(t, os.Mkdir(dir, 0o700))
			tc.fill(t, dir)
			u, err := Measure(dir, math.MaxInt64)
			if err != nil || u.Files != tc.least.Files || u.Bytes < tc.least.Bytes || u.Bytes > 2*tc.least.Bytes+1<<20 {
				t.Errorf("got %+v, %v, want %+v", u, err, tc.least)
			}
			if part, err := Measure(dir, tc.least.Bytes/2); err != nil || tc.least.Files > 1 && (part.Bytes <= tc.least.Bytes/2 || part.Files >= u.Files) {
				t.Errorf("up to half of it: %+v, %v", part, err)
			}
			must(t, Remove(dir))
			if u, err := Measure(dir, 0); err != nil || u != (Usage{}) {
				t.Errorf("of none: %+v, %v", u, err)
			}
		})
	}
}

// TestMeasureFailsWhereItCannotRead: what is hidden is not taken for nothing.
func TestMeasureFailsWhereItCannotRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"closed folders", "folders that cannot be written or entered", "a closed root"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			above := t.TempDir()
			plain(t, above, func() {
				dir := filepath.Join(above, "tree")
				must(t, os.Mkdir(dir, 0o700))
				trees[name](t, dir)
				if u, err := Measure(dir, math.MaxInt64); !errors.Is(err, os.ErrPermission) {
					t.Errorf("got %+v, %v", u, err)
				}
				must(t, Remove(dir))
			})
		})
	}
}

// TestMeasureEndsWhileFoldersMove: what is moved meanwhile counts once or twice, or is an
// error.
func TestMeasureEndsWhileFoldersMove(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tree")
	must(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(filepath.Join(dir, "a/b"), filepath.Join(dir, "d/b")) // and back
			_ = os.Rename(filepath.Join(dir, "d/b"), filepath.Join(dir, "a/b"))
		}
	}()
	for range 1000 {
		if u, err := Measure(dir, math.MaxInt64); err != nil && !errors.Is(err, errMoved) || u.Files > 8 {
			t.Fatalf("got %+v, %v", u, err)
		}
	}
	close(stop)
	<-done
}
