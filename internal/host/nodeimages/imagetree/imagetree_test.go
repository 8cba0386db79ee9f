// SPDX-License-Identifier: Apache-2.0

package imagetree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// plant creates a folder with files of each supported kind.
func plant(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.MkdirAll(at("etc/closed"), 0o755),
		os.WriteFile(at("etc/passwd"), []byte("root\n"), 0o644),
		os.WriteFile(at("etc/closed/su"), []byte("su"), 0o600),
		os.Chmod(at("etc/closed/su"), fs.ModeSetuid|0o755),
		os.Link(at("etc/passwd"), at("etc/same")),
		os.Symlink("/etc/passwd", at("etc/absolute")),
		os.Symlink("../../../..", at("etc/outwards")),
		os.WriteFile(at("etc/data.db"), []byte("database"), 0o600),
		os.Chmod(at("etc/closed"), 0o710),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func digest(t *testing.T, dir string) string {
	t.Helper()
	d, err := Digest(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWhatCountsInADigest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(dir string) error
		counts bool
	}{
		"nothing":         {func(string) error { return nil }, false},
		"a time":          {func(dir string) error { return os.Chtimes(dir+"/etc/passwd", t0, t0) }, false},
		"contents":        {func(dir string) error { return os.WriteFile(dir+"/etc/passwd", []byte("toor\n"), 0) }, true},
		"permissions":     {func(dir string) error { return os.Chmod(dir+"/etc/passwd", 0o600) }, true},
		"setuid":          {func(dir string) error { return os.Chmod(dir+"/etc/closed/su", 0o755) }, true},
		"a name":          {func(dir string) error { return os.Rename(dir+"/etc/passwd", dir+"/etc/passwd2") }, true},
		"one more folder": {func(dir string) error { return os.Mkdir(dir+"/new", 0o755) }, true},
		"where a link leads": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/etc/absolute"), os.Symlink("/etc/shadow", dir+"/etc/absolute"))
		}, true},
		"a file instead of link": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/etc/absolute"), atomicfile.WriteProgram(dir+"/etc/absolute", []byte("/etc/passwd")))
		}, true},
	} {
		dir := plant(t)
		before := digest(t, dir)
		if err := tc.change(dir); err != nil {
			t.Fatal(err)
		}
		if after := digest(t, dir); (after != before) != tc.counts {
			t.Errorf("%s: the digest was %s and is %s, counts: want %v", name, before, after, tc.counts)
		}
	}
}

func TestACopyIsTheSame(t *testing.T) {
	t.Parallel()
	from, to := plant(t), filepath.Join(t.TempDir(), "copy")
	if err := Copy(t.Context(), from, to, func(path string) bool { return !strings.HasSuffix(path, ".db") }); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, from), digest(t, to); a != b {
		t.Errorf("the digest of the copy is %s, want %s", b, a)
	}
	for name, shared := range map[string]bool{"etc/passwd": true, "etc/data.db": false} {
		a, errA := os.Stat(filepath.Join(from, name))
		b, errB := os.Stat(filepath.Join(to, name))
		if err := errors.Join(errA, errB); err != nil || os.SameFile(a, b) != shared {
			t.Errorf("%s is shared: want %v (%v)", name, shared, err)
		}
	}
	if err := Copy(t.Context(), from, to, func(string) bool { return true }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a copy over a copy: got %v, want that it is there", err)
	}
}

func TestAPipeIsNeitherDigestedNorCopiedNorPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, digested := Digest(t.Context(), dir)
	copied := Copy(t.Context(), dir, filepath.Join(t.TempDir(), "copy"), func(string) bool { return false })
	packed := Pack(t.Context(), tar.NewWriter(io.Discard), dir, "x")
	for what, err := range map[string]error{"digest": digested, "copy": copied, "pack": packed} {
		if err == nil || !strings.Contains(err.Error(), "pipe is a pipe") {
			t.Errorf("%s: got %v, want a refusal", what, err)
		}
	}
}

func TestCopyDoesNothingAfterCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := plant(t)
	_, digested := Digest(ctx, dir)
	copied := Copy(ctx, dir, filepath.Join(t.TempDir(), "copy"), func(string) bool { return true })
	if !errors.Is(digested, context.Canceled) || !errors.Is(copied, context.Canceled) {
		t.Errorf("got %v and %v, want that it was cancelled", digested, copied)
	}
}

func pack(t *testing.T, dir string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(Pack(t.Context(), w, dir, "tree"), w.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unpack unpacks an archive, and returns the folder that contains the result.
func unpack(t *testing.T, archive []byte, limits Limits) (string, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in", "to")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	u, err := NewUnpacker(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir, u.Close()
		}
		if err == nil {
			err = u.Add(h, r)
		}
		if err != nil {
			return dir, errors.Join(err, u.Close())
		}
	}
}

var plenty = Limits{Files: 1000, Bytes: 1 << 20}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	archive := pack(t, dir)
	out, err := unpack(t, archive, plenty)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, dir), digest(t, filepath.Join(out, "tree")); a != b {
		t.Errorf("the digest is %s, want %s", b, a)
	}
	if again := pack(t, filepath.Join(out, "tree")); !bytes.Equal(again, archive) {
		t.Error("packed again it is another archive")
	}
}
