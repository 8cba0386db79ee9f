// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// publish replaces the files behind the link ..data atomically, like kubelet.
func publish(t *testing.T, dir, generation, text string) {
	t.Helper()
	at := filepath.Join(dir, generation)
	err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "token"), []byte(text), 0o644), os.Symlink(generation, filepath.Join(dir, "..new")), os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	if _, there := os.Lstat(filepath.Join(dir, "token")); there != nil {
		err = errors.Join(err, os.Symlink("..data/token", filepath.Join(dir, "token")))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRenewedFilesAreSeen(t *testing.T) {
	s := start(t, open(t, Options{}))
	dir := t.TempDir()
	publish(t, dir, "..1", "first")
	c := container(t, "follow", "/var/run/secrets/token")
	c.Mounts = []Mount{{Source: dir, Target: "/var/run/secrets", ReadOnly: true}}
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "first\n")
	publish(t, dir, "..2", "second")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "second\n")
}

func TestMountsAreInPlace(t *testing.T) {
	h := open(t, Options{})
	s := start(t, h)
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.WriteFile(filepath.Join(dir, "sub", "f"), []byte("of sub"), 0o644), os.Symlink("/etc", filepath.Join(dir, "away"))); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		mounts   []Mount
		readOnly bool
		link     string // of the image: /v points there
		args     []string
		want     string // its output or error
		starts   string // why it does not start
	}{
		"a folder":                            {mounts: []Mount{{Source: dir, Target: "/v"}}, args: []string{"cat", "/v/sub/f"}, want: "of sub"},
		"a file in /dev":                      {mounts: []Mount{{Source: filepath.Join(dir, "sub/f"), Target: "/dev/termination-log"}}, args: []string{"cat", "/dev/termination-log"}, want: "of sub"},
		"a file in /dev of a read-only root":  {mounts: []Mount{{Source: filepath.Join(dir, "sub/f"), Target: "/dev/a/b"}}, readOnly: true, args: []string{"cat", "/dev/a/b"}, want: "of sub"},
		"a file":                              {mounts: []Mount{{Source: filepath.Join(dir, "sub/f"), Target: "/a/b"}}, args: []string{"cat", "/a/b"}, want: "of sub"},
		"what is below a folder":              {mounts: []Mount{{Source: dir, SubPath: "sub", Target: "/v"}}, args: []string{"cat", "/v/f"}, want: "of sub"},
		"no link out of a folder":             {mounts: []Mount{{Source: dir, SubPath: "away", Target: "/v"}}, starts: "mount /v"},
		"no link of the image out of it":      {mounts: []Mount{{Source: dir, Target: "/v"}}, link: "../../../../..", starts: "mount /v"},
		"one below memory":                    {mounts: []Mount{{Source: dir, Target: "/tmp/v"}, {Tmpfs: true, Target: "/tmp"}}, args: []string{"cat", "/tmp/v/sub/f"}, want: "of sub"},
		"nothing is written if read-only":     {mounts: []Mount{{Source: dir, Target: "/v", ReadOnly: true}}, args: []string{"write", "/v/x"}, want: "read-only file system"},
		"nothing is written to such a root":   {readOnly: true, args: []string{"write", "/tmp/x"}, want: "read-only file system"},
		"memory next to such is writable":     {readOnly: true, mounts: []Mount{{Tmpfs: true, Target: "/tmp"}}, args: []string{"write", "/tmp/x"}},
		"memory has a limit":                  {mounts: []Mount{{Tmpfs: true, Limit: 1 << 20, Target: "/m"}}, args: []string{"fill", "/m/x"}, want: "no space left on device"},
		"the root has a limit":                {args: []string{"fill", "/var/x"}, want: "no space left on device"},
		"memory has a limit of files":         {mounts: []Mount{{Tmpfs: true, Limit: 1 << 20, Target: "/m"}}, args: []string{"files", "/m"}, want: "no space left on device"},
		"the root has a limit of files":       {args: []string{"files", "/var"}, want: "no space left on device"},
		"shared memory has a limit of files":  {args: []string{"files", "/dev/shm"}, want: "no space left on device"},
		"a folder is written by who it is of": {mounts: []Mount{{Source: dir, Target: "/v"}}, args: []string{"write", "/v/x"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := container(t, tc.args...)
			c.Mounts, c.ReadOnlyRoot, c.Scratch = tc.mounts, tc.readOnly, 8<<20
			for _, d := range []string{"tmp", "var"} {
				if err := errors.Join(os.Mkdir(filepath.Join(c.Root, d), 0o777), os.Chmod(filepath.Join(c.Root, d), 0o777)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.link != "" {
				if err := os.Symlink(tc.link, filepath.Join(c.Root, "v")); err != nil {
					t.Fatal(err)
				}
			}
			if tc.starts != "" {
				if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), tc.starts) {
					t.Fatalf("got %v, want %q", err, tc.starts)
				}
				return
			}
			out, failed, e := outcome(t, s, c)
			if got := out + failed; !strings.Contains(got, tc.want) || tc.want == "" && e.Code != 0 {
				t.Errorf("got %q, %+v, want %q", got, e, tc.want)
			}
		})
	}
}

// TestLastMessagesAreInMemory: a container writes to its file like to any other,
// and writes beyond a few KiB are refused, not stored.
func TestLastMessagesAreInMemory(t *testing.T) {
	s := start(t, open(t, Options{}))
	volume := t.TempDir()
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		path     string
		mounts   []Mount
		readOnly bool
		args     []string
		want     string // the message
		fails    string
	}{
		"in /dev":             {path: "/dev/termination-log", args: []string{"write", "/dev/termination-log"}, want: "written"},
		"in a new folder":     {path: "/new/last", args: []string{"write", "/new/last"}, want: "written"},
		"in a read-only root": {path: "/last", readOnly: true, args: []string{"write", "/last"}, want: "written"},
		"in a volume":         {path: "/v/last", mounts: []Mount{{Source: volume, Target: "/v"}}, args: []string{"write", "/v/last"}, want: "written"},
		"nothing":             {path: "/last", args: []string{"ids"}},
		"too much":            {path: "/last", args: []string{"fill", "/last"}, want: strings.Repeat("\x00", maxMessage), fails: "no space left on device"},
		"no file":             {args: []string{"ids"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := container(t, tc.args...)
			c.MessagePath, c.Mounts, c.ReadOnlyRoot = tc.path, tc.mounts, tc.readOnly
			_, failed, e := outcome(t, s, c)
			if e.LastMessage != tc.want || !strings.Contains(failed, tc.fails) || (e.Code != 0) != (tc.fails != "") {
				t.Errorf("got %.40q, %q, %d, want %.40q", e.LastMessage, failed, e.Code, tc.want)
			}
		})
	}
	if info, err := os.Stat(filepath.Join(volume, "last")); err != nil || info.Size() != 0 {
		t.Errorf("the file below the message is %v, %v, want an empty one", info, err)
	}
}

func TestOwnersAreThoseOfTheImage(t *testing.T) {
	h := open(t, Options{})
	c := container(t, "owner", "/home")
	if err := os.Mkdir(filepath.Join(c.Root, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := "65532 65532\n" // without root, files of the plane belong to the container
	if !h.rootless {
		if err := os.Chown(filepath.Join(c.Root, "home"), 65532, 100); err != nil {
			t.Fatal(err)
		}
		want = "65532 100\n"
	}
	if out, failed, _ := outcome(t, start(t, h), c); out != want {
		t.Errorf("got %q %q, want %q", out, failed, want)
	}
}
