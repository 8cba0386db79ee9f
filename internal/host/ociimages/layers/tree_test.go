// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		"a time":          {func(dir string) error { return os.Chtimes(dir+"/etc/passwd", time.Unix(0, 0), time.Unix(0, 0)) }, false},
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

// unpackTree unpacks an archive, and returns the folder that contains the result.
func unpackTree(t *testing.T, archive []byte, limits Limits) (string, error) {
	t.Helper()
	above := filepath.Join(t.TempDir(), "in")
	dir := filepath.Join(above, "to")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := UnpackTree(t.Context(), tar.NewReader(bytes.NewReader(archive)), dir, limits)
	if entries, listed := os.ReadDir(above); listed != nil || len(entries) != 1 {
		t.Errorf("next to the folder there are %v, %v", entries, listed)
	}
	return dir, err
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	dir := plant(t)
	archive := pack(t, dir)
	out, err := unpackTree(t, archive, generous)
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

func TestAnArchiveOfATreeCannotLeaveItsFolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"upwards":                         {[]string{"f ../evil"}, "leads out"},
		"upwards in the middle":           {[]string{"d a", "f a/../../evil"}, "leads out"},
		"an absolute name":                {[]string{"f /evil"}, "leads out"},
		"no name":                         {[]string{"f "}, "no name"},
		"through a link upwards":          {[]string{"l up ..", "f up/evil"}, `"up" on its way is no folder`},
		"through an absolute link":        {[]string{"l tmp /tmp", "f tmp/evil"}, `"tmp" on its way is no folder`},
		"through a link inside":           {[]string{"d a", "l b a", "f b/file"}, `"b" on its way is no folder`},
		"over a link":                     {[]string{"l evil ../evil", "f evil"}, "exists"},
		"a folder over a link":            {[]string{"l up ..", "d up"}, "exists"},
		"a hard link upwards":             {[]string{"h a ../outside"}, "leads out"},
		"a hard link through a link":      {[]string{"l up ..", "h a up/outside"}, `"up" on its way is no folder`},
		"a hard link to an absolute name": {[]string{"h a /etc/passwd"}, "leads out"},
		"a hard link to a link":           {[]string{"l a /etc/passwd", "h b a"}, "which is no file"},
		"a device":                        {[]string{"c null"}, "devices"},
		"a pipe":                          {[]string{"p pipe"}, "pipes"},
		"a kind that is not known":        {[]string{"x a"}, "are refused"},
		"a file twice":                    {[]string{"f a", "f a"}, "exists"},
		"a folder twice":                  {[]string{"d a", "d a"}, "exists"},
		"a folder that was not announced": {[]string{"f a/b"}, "no such file"},
		"more files than are accepted":    {numbered(4, "d d"), ErrTooLarge.Error()},
		"more bytes than are accepted":    {[]string{"f big 12345678901"}, ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := unpackTree(t, archive(t, tc.lines...), Limits{Files: 3, Bytes: 10})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, err := os.Lstat("/tmp/evil"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("/tmp/evil is there: %v", err)
			}
		})
	}
	whole := archive(t, "f a "+strings.Repeat("x", 3000))
	if _, err := unpackTree(t, whole[:1000], generous); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("of a file that is cut: got %v", err)
	}
}

func TestUnpackTreeKeepsNamesAndLinks(t *testing.T) {
	t.Parallel()
	dir, err := unpackTree(t, archive(t, "l shadow /etc/shadow", "f .wh.a 1", "f b 2", "h c b"), generous)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".wh.a = 1", "b = 2", "c = 2", "shadow -> /etc/shadow"}, show(t, dir)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestUnpackTreeFillsReadOnlyFolder(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500, Uid: os.Getuid(), Gid: os.Getgid()},
		{Typeflag: tar.TypeReg, Name: "closed/file", Mode: 0o400, Uid: os.Getuid(), Gid: os.Getgid()},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := unpackTree(t, buf.Bytes(), generous)
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) }) // so that it can be removed
	info, err := os.Stat(closed)
	if err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the folder is %v, %v; want 0500", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(closed, "file")); err != nil {
		t.Error(err)
	}
}

// TestAttributesAndMarkersTravel packs what containerd's store has.
func TestAttributesAndMarkersTravel(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can set these attributes")
	}
	dir := filepath.Join(t.TempDir(), "tree")
	program := filepath.Join(dir, "ping")
	err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(program, nil, 0o600), os.Lchown(program, 7, 70_000),
		unix.Mknod(filepath.Join(dir, "gone"), unix.S_IFCHR, 0),
		unix.Setxattr(program, "security.capability", append([]byte{0, 0, 0, 2, 0, 32, 0, 0}, make([]byte, 12)...), 0))
	if err == nil {
		err = unix.Setxattr(dir, "trusted.overlay.opaque", []byte("y"), 0)
	}
	if err != nil {
		t.Skipf("the file system has no such attributes: %v", err)
	}
	out, err := unpackTree(t, pack(t, dir), generous)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, dir), digest(t, filepath.Join(out, "tree")); a != b {
		t.Errorf("the digest is %s, want %s", b, a)
	}
}

func TestAttributesHaveALimit(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for n := range 1 + maxNames>>19 {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprint(n), Linkname: "a", PAXRecords: map[string]string{attributePrefix + "trusted.overlay.a": strings.Repeat("x", 1<<19)}}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unpackTree(t, buf.Bytes(), generous); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want that it is too large", err)
	}
}

func TestExtractWritesOnlyDesiredFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	content := archive(t, "f bin/ptp 1", "f bin/other 2", "l bin/bridge /etc/passwd")
	if err := Extract(t.Context(), bytes.NewReader(content), dir, []string{"ptp"}, generous); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ptp = 1"}, show(t, dir)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := Extract(t.Context(), bytes.NewReader(content), t.TempDir(), []string{"ptp", "bridge"}, generous); err == nil || !strings.Contains(err.Error(), "holds no bridge") {
		t.Errorf("got %v, want that it holds no bridge", err)
	}
	if err := Extract(t.Context(), bytes.NewReader(archive(t, "f ../../ptp evil")), dir, []string{"ptp"}, generous); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("of a name that climbs: got %v", err)
	}
}
