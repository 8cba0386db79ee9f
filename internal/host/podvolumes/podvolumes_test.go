// SPDX-License-Identifier: Apache-2.0

package podvolumes

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name[:min(2, len(name))] != ".." {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
				for sub, text := range contents(t, filepath.Join(dir, name)) {
					all[name+"/"+sub] = text
				}
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(b)
		}
	}
	return all
}

func TestFilesOfAVolumeChangeAllAtOnce(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	file := func(path, text string) podspec.File { return podspec.File{Path: path, Data: []byte(text), Mode: 0o400} }
	var before string
	for _, step := range []struct {
		files []podspec.File
		same  bool
		want  map[string]string
	}{
		{[]podspec.File{file("a", "1"), file("d/b", "2")}, false, map[string]string{"a": "1", "d/b": "2"}},
		{[]podspec.File{file("a", "1"), file("d/b", "2")}, true, map[string]string{"a": "1", "d/b": "2"}},
		{[]podspec.File{file("a", "3"), file("c", "4")}, false, map[string]string{"a": "3", "c": "4"}},
		{nil, false, map[string]string{}},
	} {
		if err := s.Write("pod", "v", step.files); err != nil {
			t.Fatal(err)
		}
		dir := s.Path("pod", "v")
		if diff := cmp.Diff(step.want, contents(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		generation, err := os.Readlink(filepath.Join(dir, data))
		if err != nil || (generation == before) != step.same {
			t.Errorf("generation %q after %q: %v", generation, before, err)
		}
		if before != "" && !step.same {
			if _, err := os.Stat(filepath.Join(dir, before)); !os.IsNotExist(err) {
				t.Errorf("the old generation is there: %v", err)
			}
		}
		before = generation
	}
}

func TestWhatIsInAVolumeIsForThePodAlone(t *testing.T) {
	for _, umask := range []int{0, 0o22, 0o77} {
		t.Run(fmt.Sprintf("umask %o", umask), func(t *testing.T) { isForPodAlone(t, umask) })
	}
}

func isForPodAlone(t *testing.T, umask int) {
	defer syscall.Umask(syscall.Umask(umask))
	s, err := Open(filepath.Join(t.TempDir(), "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write("pod", "v", []podspec.File{{Path: "a/b/key", Data: []byte("secret"), Mode: 0o400}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Empty("pod", "e"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{s.dir: 0o700, s.Path("pod", "v"): 0o755, s.Path("pod", "v/a"): 0o755, s.Path("pod", "v/a/b"): 0o755, s.Path("pod", "v/a/b/key"): 0o444, s.Path("pod", "e"): 0o777} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := s.Remove("pod"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Path("pod", "v")); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestAVolumeTakesWhatItsFilesTake(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "volumes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Empty("p", "v"); err != nil {
		t.Fatal(err)
	}
	dir, large := s.Path("p", "v"), make([]byte, 1<<20)
	for i := range large {
		large[i] = byte(i * 7 >> 3)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	for name, do := range map[string]func() error{
		"a file outside":     func() error { return os.WriteFile(outside, large, 0o600) },
		"a link to it":       func() error { return os.Symlink(outside, filepath.Join(dir, "out")) },
		"a folder":           func() error { return os.Mkdir(filepath.Join(dir, "sub"), 0o700) },
		"a file without any": func() error { return os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600) },
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if size, err := s.Usage("p", "v", math.MaxInt64); err != nil || size.Bytes >= 1<<20 {
		t.Errorf("without a large file: %+v, %v", size, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub", "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "sub", "large"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if size, err := s.Usage("p", "v", math.MaxInt64); err != nil || size.Bytes < 1<<20 || size.Bytes >= 2<<20 {
		t.Errorf("with one of 1 MiB that has two names: %+v, %v", size, err)
	}
	if size, err := s.Usage("p", "none", 0); err != nil || size.Files != 0 || size.Bytes != 0 {
		t.Errorf("of one that is gone: %+v, %v", size, err)
	}
}
