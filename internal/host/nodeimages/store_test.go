// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "images"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put adds a small image, which depends on text.
func put(t *testing.T, s *Store, version, text string) Image {
	t.Helper()
	dir, done, err := s.dir.Temp()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	dir = filepath.Join(dir, "image")
	at := func(name string) string { return filepath.Join(dir, name) }
	const blobs = "var/lib/containerd/io.containerd.content.v1.content"
	err = errors.Join(
		os.MkdirAll(at("node/usr/local/bin"), 0o755), atomicfile.WriteProgram(at("node/usr/local/bin/kubelet"), []byte(text)),
		os.MkdirAll(at("root/etc"), 0o755), os.Symlink("/proc/self/mounts", at("root/etc/mtab")),
		os.MkdirAll(at(blobs), 0o755), os.WriteFile(at(blobs+"/blob"), []byte("layer"), 0o600),
		os.WriteFile(at("var/lib/containerd/meta.db"), []byte("names"), 0o600),
		os.MkdirAll(at("var/log"), 0o755), os.WriteFile(at("var/log/faillog"), []byte("-"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	i, err := s.publish(t.Context(), dir, manifest{Version: version, Architecture: "amd64", Source: "test", Parts: map[string]string{"runc": "v1"}})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestImagesAreFoundByVersionAndByID(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	old, first, second := put(t, s, "v1.35.10", "old"), put(t, s, "v1.36.3", "first"), put(t, s, "v1.36.3", "second")
	if again := put(t, s, "v1.36.3", "second"); again.ID != second.ID {
		t.Errorf("the same image again has ID %s, want %s", again.ID, second.ID)
	}
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(first.dir, manifestFile), future, future); err != nil {
		t.Fatal(err)
	}
	for wanted, want := range map[string]string{
		"v1.35.10": old.ID, "1.35.10": old.ID,
		"v1.36.3": first.ID, // it was added last
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
	if inUse, ok := errors.AsType[*InUseError](err); !ok || !slices.Equal(inUse.Users, []string{"m1", "m2"}) {
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
	if _, err := os.Stat(i.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
	if left, err := os.ReadDir(s.dir.Join("tmp")); err != nil || len(left) > 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	if _, ok := errors.AsType[*MissingError](i.Use("m3")); !ok {
		t.Error("it can be used after it was removed")
	}
}

func TestUsersAreNamesOfFiles(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	for _, user := range []string{"", "..", "a/b", ".hidden", strings.Repeat("x", 256), "a b"} {
		if err := errors.Join(i.Use(user)); err == nil {
			t.Errorf("user %q is accepted", user)
		}
		if err := i.Release(user); err == nil {
			t.Errorf("user %q is released", user)
		}
	}
}

func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(dir string) error
		found  bool // without reading all files
	}{
		"nothing":           {func(string) error { return nil }, false},
		"a manifest":        {func(dir string) error { return os.WriteFile(dir+"/image.json", []byte("{}"), 0o600) }, true},
		"another manifest":  {func(dir string) error { return appendTo(dir+"/image.json", " ") }, true},
		"no manifest":       {func(dir string) error { return os.Remove(dir + "/image.json") }, true},
		"no folder":         {func(dir string) error { return os.RemoveAll(dir + "/root") }, true},
		"a program":         {func(dir string) error { return appendTo(dir+"/node/usr/local/bin/kubelet", "x") }, false},
		"a link":            {func(dir string) error { return os.Remove(dir + "/root/etc/mtab") }, false},
		"one file too many": {func(dir string) error { return os.WriteFile(dir+"/var/lib/more", nil, 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			i, other := put(t, s, "v1.36.3", ""), put(t, s, "v1.35.0", "")
			if err := tc.damage(i.dir); err != nil {
				t.Fatal(err)
			}
			all, err := s.List()
			_, damaged := errors.AsType[*DamagedError](err)
			if damaged != tc.found || !slices.ContainsFunc(all, func(i Image) bool { return i.ID == other.ID }) {
				t.Errorf("the list is %v, %v; found: want %v, and the other one", all, err, tc.found)
			}
			_, verified := errors.AsType[*DamagedError](i.Verify(t.Context()))
			if want := !tc.found && name != "nothing"; verified != want && !tc.found {
				t.Errorf("verified: damaged %v, want %v", verified, want)
			}
			if err := s.Remove(t.Context(), i.ID); err != nil {
				t.Errorf("remove it: %v", err)
			}
		})
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
