// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func openStore(t *testing.T) *Store { return openIn(t, filepath.Join(t.TempDir(), "images")) }

func openIn(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plant creates the layers of a small image in a folder; it depends on text.
func plant(t *testing.T, dir, text string) {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	const blobs = "var/lib/containerd/io.containerd.content.v1.content"
	err := errors.Join(
		os.MkdirAll(at("node/usr/local/bin"), 0o755), atomicfile.WriteProgram(at("node/usr/local/bin/kubelet"), []byte(text)),
		os.MkdirAll(at("root/etc"), 0o755), os.Symlink("/proc/self/mounts", at("root/etc/mtab")),
		os.MkdirAll(at(blobs), 0o755), os.WriteFile(at(blobs+"/blob"), []byte("layer"), 0o600),
		os.WriteFile(at("var/lib/containerd/meta.db"), []byte("names"), 0o600),
		os.MkdirAll(at("var/log"), 0o755), os.WriteFile(at("var/log/faillog"), []byte("-"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// put adds a small image, which depends on text.
func put(t *testing.T, s *Store, version, text string) Image {
	t.Helper()
	dir := t.TempDir()
	plant(t, dir, text)
	m, err := s.images.Add(t.Context(), optionsFor(version, runtime.GOARCH, "test", map[string]string{"runc": "v1"}), earlierFolders(dir)...)
	if err != nil {
		t.Fatal(err)
	}
	return s.imageOf(m)
}

func TestImagesAreFoundByVersionAndByID(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	old, first, second := put(t, s, "v1.35.10", "old"), put(t, s, "v1.36.3", "first"), put(t, s, "v1.36.3", "second")
	if again := put(t, s, "v1.36.3", "second"); again.ID != second.ID {
		t.Errorf("the same image again has ID %s, want %s", again.ID, second.ID)
	}
	for wanted, want := range map[string]string{
		"v1.35.10": old.ID, "1.35.10": old.ID,
		"v1.36.3": second.ID, // it was added last
		first.ID:  first.ID,
		second.ID: second.ID, strings.TrimPrefix(second.ID, "sha256:")[:12]: second.ID,
	} {
		if got, err := s.Find(wanted); err != nil || got.ID != want {
			t.Errorf("%s is %s, %v; want %s", wanted, got.ID, err, want)
		}
	}
	for _, wanted := range []string{"v1.36.4", "", "sha256:", old.ID[7:10], "../../etc"} {
		_, err := s.Find(wanted)
		if missing, ok := errors.AsType[*MissingError](err); !ok || missing.Wanted != wanted {
			t.Errorf("%q: got %v, want that it is missing", wanted, err)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 3 || all[2].ID != old.ID {
		t.Errorf("the list is %v, %v; want three, the oldest version last", all, err)
	}
}

func TestAMissingImageSaysHowToGetIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have     []string
		want, or string
	}{
		"in an empty store": {nil, "which has none", ""},
		"next to others":    {[]string{"v1.34.1", "v1.36.3", "v1.36.3"}, "which has v1.36.3, v1.34.1", ", or ask for a version that is there"},
	} {
		s := openStore(t)
		for i, version := range tc.have {
			put(t, s, version, fmt.Sprint(i))
		}
		_, err := s.Find("v1.36.4")
		want := "no node image v1.36.4 in " + s.Dir() + ", " + tc.want + `: make one with "capstan image build --kubernetes-version v1.36.4", or bring one with "capstan image import"` + tc.or
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func TestAnImageThatIsUsedStays(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	i := put(t, s, "v1.36.3", "")
	for _, user := range []string{"m2", "m1", "m1"} {
		if err := i.Use(user); err != nil {
			t.Fatal(err)
		}
	}
	if users, err := i.Users(); err != nil || !slices.Equal(users, []string{"m1", "m2"}) {
		t.Errorf("the users are %v, %v", users, err)
	}
	err := s.Remove(t.Context(), "v1.36.3")
	if inUse, ok := errors.AsType[*ociimages.InUseError](err); !ok || !slices.Equal(inUse.Users, []string{"m1", "m2"}) {
		t.Errorf("got %v, want that m1 and m2 use it", err)
	}
	for _, user := range []string{"m1", "m2", "m2"} {
		if err := i.Release(user); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"tmp", "roots", "layers", "users"} {
		if left, err := os.ReadDir(filepath.Join(s.Dir(), dir)); err != nil || len(left) > 0 {
			t.Errorf("what is left in %s: %v, %v", dir, left, err)
		}
	}
	if _, ok := errors.AsType[*ociimages.MissingError](i.Use("m3")); !ok {
		t.Error("it can be used after it was removed")
	}
}

func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	const kubelet, blob = "usr/local/bin/kubelet", "var/lib/containerd/io.containerd.content.v1.content/blob"
	for name, tc := range map[string]struct {
		damage func(root string) error
		found  bool // without reading all files
	}{
		"nothing":           {func(string) error { return nil }, false},
		"no root":           {func(root string) error { return os.RemoveAll(root) }, true},
		"no /var":           {func(root string) error { return os.RemoveAll(root + "/var") }, true},
		"/var is a link":    {func(root string) error { return errors.Join(os.RemoveAll(root+"/var"), os.Symlink("/", root+"/var")) }, true},
		"a program":         {func(root string) error { return appendTo(root+"/"+kubelet, "x") }, false},
		"permissions":       {func(root string) error { return os.Chmod(root+"/"+kubelet, fs.ModeSetuid|0o755) }, false},
		"another program":   {func(root string) error { return atomicfile.WriteProgram(root+"/"+kubelet, []byte("evil")) }, false},
		"a container image": {func(root string) error { return appendTo(root+"/"+blob, "x") }, false},
		"a link":            {func(root string) error { return os.Remove(root + "/etc/mtab") }, false},
		"one file too many": {func(root string) error { return os.WriteFile(root+"/var/lib/more", nil, 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			i, other := put(t, s, "v1.36.3", "kubelet"), put(t, s, "v1.35.0", "another")
			if err := tc.damage(i.Root); err != nil {
				t.Fatal(err)
			}
			all, err := s.List()
			_, damaged := errors.AsType[*ociimages.DamagedError](err)
			if damaged != tc.found || !slices.ContainsFunc(all, func(i Image) bool { return i.ID == other.ID }) {
				t.Errorf("the list is %v, %v; found: want %v, and the other one", all, err, tc.found)
			}
			if _, verified := errors.AsType[*ociimages.DamagedError](i.Verify(t.Context())); verified != (name != "nothing") {
				t.Errorf("verified: damaged %v", verified)
			}
			if err := s.Remove(t.Context(), i.ID); err != nil {
				t.Errorf("remove it: %v", err)
			}
		})
	}
}

func TestDebianIsKeptOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, b := put(t, s, "v1.36.3", "a"), put(t, s, "v1.35.0", "b")
	for n, shared := range []bool{true, false, true} {
		if x, y := a.record.Layers[n], b.record.Layers[n]; (x == y) != shared {
			t.Errorf("layer %d is %s and %s", n, x, y)
		}
	}
	left, err := os.ReadDir(filepath.Join(s.Dir(), "layers"))
	if err != nil || len(left) != 4 {
		t.Errorf("there are %d layers, %v; want 4", len(left), err)
	}
	files, err := a.Node()
	if text, read := os.ReadFile(files["usr/local/bin/kubelet"]); len(files) != 1 || string(text) != "a" || errors.Join(err, read) != nil {
		t.Errorf("the files of the node are %v, %v", files, err)
	}
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestVarSharesFilesThatAreNotWrittenInPlace(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	dir := filepath.Join(t.TempDir(), "var")
	if err := i.MakeVar(dir); err != nil {
		t.Fatal(err)
	}
	for name, shared := range map[string]bool{
		"lib/containerd/io.containerd.content.v1.content/blob": true,
		"lib/containerd/meta.db":                               false,
		"log/faillog":                                          false,
	} {
		a, errA := os.Stat(filepath.Join(i.Var, name))
		b, errB := os.Stat(filepath.Join(dir, name))
		if err := errors.Join(errA, errB); err != nil || os.SameFile(a, b) != shared {
			t.Errorf("%s is shared: want %v (%v)", name, shared, err)
		}
	}
	for _, name := range []string{"lib/containerd/meta.db", "log/faillog"} {
		if err := appendTo(filepath.Join(dir, name), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Verify(t.Context()); err != nil {
		t.Errorf("what a machine wrote is in the image: %v", err)
	}
	if err := i.MakeVar(dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: got %v, want that it is there", err)
	}
}

func TestTheStoreIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(openStore(t).Dir())
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it is %v, %v; want 0700", info.Mode(), err)
	}
}
