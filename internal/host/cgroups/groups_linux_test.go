// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNothingIsEmptiedThatIsNotOurs guards the host: emptying the root group would
// end all processes.
func TestNothingIsEmptiedThatIsNotOurs(t *testing.T) {
	for _, dir := range []string{"", "/", Mountpoint, t.TempDir()} {
		if err := Empty(dir); err == nil || !strings.Contains(err.Error(), "none of ours") {
			t.Errorf("%q: got %v", dir, err)
		}
	}
	if err := (Host{}).Make("/a", "/b/c"); err == nil {
		t.Error("a group was made below another than asked")
	}
}

// stand creates files that represent those of a kernel's groups.
func stand(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		name, text, _ := strings.Cut(name, "=")
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// written returns the files below a folder whose content was changed, by their
// paths.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "cgroup.controllers" {
			return err
		}
		text, err := os.ReadFile(file)
		if name, rerr := filepath.Rel(dir, file); rerr == nil && len(text) > 0 {
			all[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestControllersAreGivenDownToTheGroup uses folders as groups: a kernel receives
// one controller at a time, and a file in a folder contains the last one written.
func TestControllersAreGivenDownToTheGroup(t *testing.T) {
	const give = "+memory"
	for name, tc := range map[string]struct {
		above, group string
		there        []string
		want         map[string]string
	}{
		"by ourselves, from the root on": {
			"/", "/capstan-x/one/container", []string{"", "capstan-x", "capstan-x/one"},
			map[string]string{"cgroup.subtree_control": give, "capstan-x/cgroup.subtree_control": give, "capstan-x/one/cgroup.subtree_control": give},
		},
		"in what systemd gave, which has the rest to itself": {
			"/capstan.slice/capstan-x-one.scope", "/capstan.slice/capstan-x-one.scope/container", []string{"", "capstan.slice", "capstan.slice/capstan-x-one.scope"},
			map[string]string{"capstan.slice/capstan-x-one.scope/cgroup.subtree_control": give},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, at := range tc.there {
				stand(t, filepath.Join(dir, at), "cgroup.controllers=cpu memory\n")
			}
			h := Host{Unified: true, Hierarchies: []Hierarchy{{Dir: dir, Type: "cgroup2"}}}
			if err := h.Make(tc.above, tc.group); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, written(t, dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if info, err := os.Stat(filepath.Join(dir, tc.group)); err != nil || !info.IsDir() {
				t.Errorf("the group: %v", err)
			}
		})
	}
}

func TestLimitsAreWrittenWhereTheyAreKnown(t *testing.T) {
	limits := Limits{Memory: 64 << 20, MilliCPU: 500}
	type made struct {
		files       []string
		unified     bool
		controllers []string // of version 1, a hierarchy each
		want        map[string]string
		err         string
	}
	for name, tc := range map[string]made{
		"version 2": {
			files: []string{"g/memory.max=max", "g/cpu.max=max 100000"}, unified: true,
			want: map[string]string{"g/memory.max": "67108864", "g/cpu.max": "50000 100000"},
		},
		"version 2 without memory": {
			files: []string{"g/cpu.max=max 100000"}, unified: true, want: map[string]string{"g/cpu.max": "max 100000"},
			err: "limit control group /g: it has no controller memory: take that off the kernel's option cgroup_disable",
		},
		"version 1": {
			files:       []string{"memory/g/memory.limit_in_bytes=0", "cpu/g/cpu.cfs_period_us=0", "cpu/g/cpu.cfs_quota_us=0"},
			controllers: []string{"cpu", "memory"},
			want:        map[string]string{"memory/g/memory.limit_in_bytes": "67108864", "cpu/g/cpu.cfs_period_us": "100000", "cpu/g/cpu.cfs_quota_us": "50000"},
		},
		"version 1 without cpu": {
			files: []string{"memory/g/memory.limit_in_bytes=0"}, controllers: []string{"memory"},
			want: map[string]string{"memory/g/memory.limit_in_bytes": "0"},
			err:  "limit control group /g: the host has not mounted the controller: mount memory, cpu and pids below",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stand(t, dir, tc.files...)
			err := host(dir, tc.unified, tc.controllers).Limit("/g", limits)
			if (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, written(t, dir)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAGroupOfVersion1GetsWhatTheOneAboveHas(t *testing.T) {
	dir := t.TempDir()
	stand(t, dir, "cpuset.cpus=0-1\n", "cpuset.mems=0\n")
	h := Host{Hierarchies: []Hierarchy{{Dir: dir, Type: "cgroup", Controllers: []string{"cpuset"}}}}
	if err := h.Make("/", "/capstan-x/one"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"capstan-x", "capstan-x/one"} {
		for file, want := range map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n", "cgroup.clone_children": "1"} {
			if text, err := os.ReadFile(filepath.Join(dir, at, file)); err != nil || string(text) != want {
				t.Errorf("%s/%s has %q, %v, want %q", at, file, text, err, want)
			}
		}
	}
}

func TestGroupsGetAWeight(t *testing.T) {
	for name, tc := range map[string]struct {
		files       []string
		unified     bool
		controllers []string // of version 1, a hierarchy each
		want        map[string]string
	}{
		"version 2":             {files: []string{"g/cpu.weight=1"}, unified: true, want: map[string]string{"g/cpu.weight": "10"}},
		"version 2 without cpu": {files: []string{"g/memory.max=max"}, unified: true},
		"version 1":             {files: []string{"cpu/g/cpu.shares=2"}, controllers: []string{"cpu", "memory"}, want: map[string]string{"cpu/g/cpu.shares": "102"}},
		"version 1 without cpu": {files: []string{"memory/g/memory.limit_in_bytes=0"}, controllers: []string{"memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stand(t, dir, tc.files...)
			weighed, err := host(dir, tc.unified, tc.controllers).Weigh("/g", 10)
			if err != nil || weighed != (tc.want != nil) {
				t.Errorf("got %t, %v, want %t", weighed, err, tc.want != nil)
			}
			for file, want := range tc.want {
				if diff := cmp.Diff(want, written(t, dir)[file]); diff != "" {
					t.Errorf("%s: -want +got:\n%s", file, diff)
				}
			}
		})
	}
}

func TestWeightAndLimitOfAProcessAreFound(t *testing.T) {
	const unlimited = math.MaxInt64
	for name, tc := range map[string]struct {
		files       []string
		unified     bool
		controllers []string
		text        string
		wantWeighed bool
		wantMaxPIDs int64
	}{
		"version 2, in a group":      {[]string{"a/b/cpu.weight=100", "a/b/pids.max=max\n", "a/pids.max=300\n"}, true, nil, "0::/a/b\n", true, 300},
		"version 2, in the root":     {nil, true, nil, "0::/\n", false, unlimited},
		"version 2, cpu above alone": {[]string{"a/cpu.weight=100", "a/b/pids.max=20\n", "a/pids.max=300\n"}, true, nil, "0::/a/b\n", true, 20},
		"version 2, without cpu":     {[]string{"a/pids.max=max\n"}, true, nil, "0::/a\n", false, unlimited},
		"version 1, in a group":      {[]string{"pids/a/pids.max=40\n"}, false, []string{"cpu", "pids"}, "2:cpu:/a\n1:pids:/a\n", true, 40},
		"version 1, in the root":     {nil, false, []string{"cpu", "pids"}, "2:cpu:/\n1:pids:/\n", false, unlimited},
		"none":                       {nil, false, nil, "", false, unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stand(t, dir, tc.files...)
			h := host(dir, tc.unified, tc.controllers)
			if weighed, n := h.Weighed(tc.text), h.MaxPIDs(tc.text); weighed != tc.wantWeighed || n != tc.wantMaxPIDs {
				t.Errorf("got %t, %d, want %t, %d", weighed, n, tc.wantWeighed, tc.wantMaxPIDs)
			}
		})
	}
}

// host returns a host whose hierarchies are folders.
func host(dir string, unified bool, controllers []string) Host {
	h := Host{Unified: unified}
	if unified {
		h.Hierarchies = []Hierarchy{{Dir: dir, Type: "cgroup2"}}
	}
	for _, c := range controllers {
		h.Hierarchies = append(h.Hierarchies, Hierarchy{Dir: filepath.Join(dir, c), Type: "cgroup", Controllers: []string{c}})
	}
	return h
}

// TestGroupsOfHostileNamesAreRemoved: a container that cannot be emptied can neither
// reboot nor be deleted.
func TestGroupsOfHostileNamesAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), Prefix+"-x")
	long := strings.Repeat("d", 255)
	for name, parts := range map[string][]string{
		"no UTF-8":               {"\xff\xfe", "a"},
		"special characters":     {" ..", "a b", "*"},
		"a path above the limit": slices.Repeat([]string{long}, 20),
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		at, err := os.OpenRoot(dir)
		for _, part := range parts {
			if err = errors.Join(err, at.Mkdir(part, 0o755)); err != nil {
				t.Fatal(err)
			}
			below, err := at.OpenRoot(part)
			if err := errors.Join(err, at.Close()); err != nil {
				t.Fatal(err)
			}
			at = below
		}
		if err := at.Close(); err != nil {
			t.Fatal(err)
		}
		if pids, err := Processes(dir); len(pids) > 0 || err != nil {
			t.Errorf("%s: processes %v, %v", name, pids, err)
		}
		if err := Empty(dir); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%s: %d groups are left, %v", name, len(left), err)
		}
	}
	if err := Empty(filepath.Join(dir, "none")); err != nil {
		t.Errorf("one that does not exist: %v", err)
	}
}

// TestProcessesAreFoundBelow: those of all groups count, and a group without the file, as
// one that is removed meanwhile, has none.
func TestProcessesAreFoundBelow(t *testing.T) {
	dir := t.TempDir()
	stand(t, dir, "cgroup.procs=", "a/cgroup.procs=7\n8\n", "a/b/cgroup.procs=9\n", "c/other=1\n")
	pids, err := Processes(dir)
	slices.Sort(pids)
	if err != nil || !slices.Equal(pids, []int{7, 8, 9}) {
		t.Errorf("got %v, %v", pids, err)
	}
	h := host(dir, true, nil)
	if names, err := h.Sub("/"); err != nil || !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("groups are %v, %v", names, err)
	}
	if names, err := h.Sub("/none"); err != nil || len(names) > 0 {
		t.Errorf("below none are %v, %v", names, err)
	}
	for _, err := range []error{nil, fs.ErrNotExist, syscall.ENODEV, &fs.PathError{Err: syscall.EOPNOTSUPP}} { // of a threaded group
		if got := missing(err); got != nil {
			t.Errorf("%v is an error: %v", err, got)
		}
	}
	if !errors.Is(missing(syscall.EACCES), syscall.EACCES) {
		t.Error("a group that must not be read counts as one without processes")
	}
}

// TestFrozenProcessesAreKilled: in version 1 a frozen process receives no signal, and a
// container can freeze its own.
func TestFrozenProcessesAreKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creates a control group")
	}
	const freezer = Mountpoint + "/freezer"
	dir := filepath.Join(freezer, Prefix+"-test-"+strconv.Itoa(os.Getpid()))
	below := filepath.Join(dir, "below")
	if _, err := os.Stat(filepath.Join(freezer, "cgroup.procs")); err != nil {
		t.Skipf("the host has no freezer of version 1: %v", err)
	}
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has exited if the test passes
		_ = errors.Join(Empty(dir), os.Remove(dir))
	})
	if err := errors.Join(EnterDir(below, cmd.Process.Pid), os.WriteFile(filepath.Join(below, "freezer.state"), []byte("FROZEN"), 0)); err != nil {
		t.Skipf("it cannot be frozen here: %v", err)
	}
	if err := Empty(dir); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process ended by itself")
	}
}
