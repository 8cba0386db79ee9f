// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
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
	_, packed := Link(t.Context(), dir, ".", t.TempDir())
	for what, err := range map[string]error{"digest": digested, "copy": copied, "pack": packed} {
		if err == nil || !strings.Contains(err.Error(), "pipe (p---------) is neither") {
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

// link makes a layer of a folder, and returns its archive as well.
func link(t *testing.T, from, name string) (layer Layer, dir string, archive []byte) {
	t.Helper()
	dir = t.TempDir()
	layer, err := Link(t.Context(), from, name, dir)
	var buf bytes.Buffer
	if err := errors.Join(err, Pack(t.Context(), &buf, dir)); err != nil {
		t.Fatal(err)
	}
	return layer, dir, buf.Bytes()
}

// privileged are generous limits of layers that machines have.
func privileged() Limits {
	l := generous
	l.Privileged = true
	return l
}

func TestLinkedFolderIsUnpackedAgain(t *testing.T) {
	t.Parallel()
	from := plant(t)
	linked, dir, archive := link(t, from, ".")
	if files, err := Files(dir); err != nil || len(files) != 4 || files["etc/same"] != files["etc/passwd"] {
		t.Errorf("its files are %v, %v", files, err)
	} else if a, b := stat(t, files["etc/passwd"]), stat(t, from+"/etc/passwd"); !os.SameFile(a, b) {
		t.Error("its files take space of their own")
	}
	again := t.TempDir()
	unpacked, err := Unpack(t.Context(), bytes.NewReader(archive), again, privileged())
	if diff := cmp.Diff(linked, unpacked); diff != "" || err != nil {
		t.Errorf("unpacked (-want +got), %v:\n%s", err, diff)
	}
	if sum, size, err := Sum(t.Context(), again); sum != linked.Digest || size != int64(len(archive)) || err != nil {
		t.Errorf("packed again it has digest %s and %d bytes, %v; want %s and %d", sum, size, err, linked.Digest, len(archive))
	}
	root, err := build(t, privileged(), archive)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, from), digest(t, root); a != b {
		t.Errorf("the digest of the root is %s, want %s", b, a)
	}
}

func stat(t *testing.T, file string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestSumFindsChangedFiles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(file string) error{
		"contents":    func(file string) error { return os.WriteFile(file, []byte("toor\n"), 0) },
		"size":        func(file string) error { return os.Truncate(file, 0) },
		"permissions": func(file string) error { return os.Chmod(file, 0o4755) },
	} {
		from := plant(t)
		linked, dir, _ := link(t, from, "var/lib")
		if err := change(from + "/etc/passwd"); err != nil {
			t.Fatal(err)
		}
		if sum, _, err := Sum(t.Context(), dir); sum == linked.Digest || err != nil {
			t.Errorf("%s: the digest is %s, %v", name, sum, err)
		}
	}
	hidden := t.TempDir()
	if err := os.WriteFile(hidden+"/.wh.passwd", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Link(t.Context(), hidden, ".", t.TempDir()); err == nil || !strings.Contains(err.Error(), "hides another file") {
		t.Errorf("a file that would hide another: got %v", err)
	}
}

func TestPrivilegedLayersThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"upwards":                      {[]string{"f ../evil"}, "leads out"},
		"upwards in the middle":        {[]string{"d a", "f a/../../evil"}, "leads out"},
		"no name":                      {[]string{"f "}, "no name"},
		"a hard link upwards":          {[]string{"h a ../outside"}, "leads out"},
		"a hard link through a link":   {[]string{"l up ..", "h a up/outside"}, "no such file"},
		"a hard link to a link":        {[]string{"l a /etc/passwd", "h b a"}, "which is no file"},
		"a device":                     {[]string{"c null"}, "devices"},
		"a pipe":                       {[]string{"p pipe"}, "pipes"},
		"a kind that is not known":     {[]string{"x a"}, "are refused"},
		"more files than are accepted": {numbered(4, "d d"), ErrTooLarge.Error()},
		"more bytes than are accepted": {[]string{"f big " + strings.Repeat("x", 20_000)}, ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build(t, Limits{Files: 3, Bytes: 10_000, Privileged: true}, archive(t, tc.lines...))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestPrivilegedLayersStayInTheirRoot has names that lead through links.
func TestPrivilegedLayersStayInTheirRoot(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"through a link upwards":  {"l up ../..", "f up/outside 1"},
		"through an absolute one": {"d tmp", "l link /tmp", "f link/capstan-evil 1"},
		"over a link":             {"l outside ../outside", "f outside 1"},
		"a folder over a link":    {"l up ..", "d up", "f up/outside 1"},
		"an absolute name":        {"f /tmp/capstan-evil 1"},
	} {
		if _, err := build(t, privileged(), archive(t, lines...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat("/tmp/capstan-evil"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a file of the host is there: %v", name, err)
		}
	}
}

func TestOnlyRootUnpacksFilesOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may")
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755}), w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := build(t, privileged(), buf.Bytes()); err == nil || !strings.Contains(err.Error(), "only root") {
		t.Errorf("got %v", err)
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
	linked, _, archive := link(t, filepath.Dir(dir), ".")
	root, err := build(t, privileged(), archive)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, dir), digest(t, filepath.Join(root, "tree")); a != b {
		t.Errorf("the digest is %s, want %s", b, a)
	}
	unpacked := t.TempDir()
	if l, err := Unpack(t.Context(), bytes.NewReader(archive), unpacked, privileged()); l.Digest != linked.Digest || err != nil {
		t.Errorf("unpacked it is %v, %v", l, err)
	}
	if sum, _, err := Sum(t.Context(), unpacked); sum != linked.Digest || err != nil {
		t.Errorf("packed again it has digest %s, %v; want %s", sum, err, linked.Digest)
	}
	// Pods get none of it.
	root, err = build(t, generous, archive)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := attributesOf(filepath.Join(root, "tree", "ping")); len(found) > 0 || err != nil {
		t.Errorf("in an image of Pods it has %v, %v", found, err)
	}
	if _, err := os.Lstat(filepath.Join(root, "tree", "gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a marker in an image of Pods: %v", err)
	}
}

func TestAttributesHaveALimit(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for n := range 1 + maxNames>>19 {
		h := &tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprint(n), Linkname: "a", Uid: os.Geteuid(), Gid: os.Getegid(), PAXRecords: map[string]string{attributePrefix + "trusted.overlay.a": strings.Repeat("x", 1<<19)}}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	limits := privileged()
	limits.Bytes = 1 << 30
	if _, err := build(t, limits, buf.Bytes()); !errors.Is(err, ErrTooLarge) {
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
