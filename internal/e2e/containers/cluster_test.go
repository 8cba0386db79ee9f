// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// lab is a host with a plane.
type lab struct {
	t                 *testing.T
	program           string
	plane, containers string
	version           string
	process           *testenv.Process
}

// newLab skips where such machines cannot run.
func newLab(t *testing.T) *lab {
	t.Helper()
	images, version := os.Getenv("CAPSTAN_E2E_IMAGES"), os.Getenv("CAPSTAN_E2E_VERSION")
	if images == "" || version == "" {
		t.Skip("CAPSTAN_E2E_IMAGES names no folder of node images, and CAPSTAN_E2E_VERSION no version of them: make e2e sets both")
	}
	if os.Geteuid() != 0 {
		t.Skip("container machines need root")
	}
	// Hard links do not leave a file system.
	dir, err := os.MkdirTemp(filepath.Dir(images), "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l := &lab{t: t, program: testenv.Binary(t), plane: filepath.Join(dir, "plane"), containers: filepath.Join(dir, "containers"), version: version}
	if err := os.Mkdir(l.containers, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(images, filepath.Join(l.containers, "images")); err != nil {
		t.Fatal(err)
	}
	l.up()
	return l
}

func (l *lab) up() {
	l.t.Helper()
	p, err := testenv.Up(l.t, "--data-dir="+l.plane, "--simulated-dir="+l.plane+"/simulated", "--containers-dir="+l.containers, "--listen=127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	l.process = p
}

// run runs a command against the plane, and returns what it printed.
func (l *lab) run(args ...string) string {
	l.t.Helper()
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(l.t.Context(), l.program, append(args, "--data-dir", l.plane)...)
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("capstan %s: %v\n%s%s", strings.Join(args, " "), err, talk.String(), out.String())
	}
	return out.String()
}

// supervisors are the processes that keep containers.
func (l *lab) supervisors() (pids []int) {
	l.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && strings.HasPrefix(cwd, l.containers+"/containers/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// left is what the host has of the lab, as one text: links, mounts, groups, files.
func (l *lab) left() string {
	l.t.Helper()
	var b strings.Builder
	links, err := net.Interfaces()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, i := range links {
		fmt.Fprintln(&b, "link", i.Name)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, l.containers) {
			b.WriteString("mount " + line)
		}
	}
	identity, err := os.ReadFile(filepath.Join(l.containers, "containers", "identity"))
	if err != nil {
		l.t.Fatal(err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/*" + strings.TrimSpace(string(identity)) + "*/*")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, g := range groups {
		if info, err := os.Stat(g); err == nil && info.IsDir() {
			fmt.Fprintln(&b, "group", g)
		}
	}
	for _, dir := range []string{"containers/containers", "machines/machines", "machines/clusters"} {
		err := filepath.WalkDir(filepath.Join(l.containers, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				fmt.Fprintln(&b, "file", path)
			}
			return err
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	for range l.supervisors() {
		fmt.Fprintln(&b, "process")
	}
	return b.String()
}

func TestAClusterOfContainerMachinesLivesAndLeavesNothing(t *testing.T) {
	l := newLab(t)
	before := l.left()
	l.run("create", "cluster", "real", "--flavor", "container", "--kubernetes-version", l.version, "--control-plane-machine-count", "1", "--worker-machine-count", "2")
	if nodes := l.run("get", "nodes", "real"); strings.Count(nodes, " Ready ") != 3 {
		t.Errorf("nodes, want three that are ready:\n%s", nodes)
	}
	running := l.supervisors()
	if len(running) != 3 {
		t.Errorf("containers of processes %v, want three", running)
	}
	if err := l.process.Stop(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(running, l.supervisors()); diff != "" {
		t.Errorf("containers while the plane is away (-want +got):\n%s", diff)
	}
	l.up()
	testenv.Eventually(t, func() error {
		if nodes := l.run("get", "nodes", "real"); strings.Count(nodes, " Ready ") != 3 {
			return fmt.Errorf("nodes, want three that are ready:\n%s", nodes)
		}
		return nil
	})
	if diff := cmp.Diff(running, l.supervisors()); diff != "" {
		t.Errorf("containers after the plane is back (-want +got):\n%s", diff)
	}
	l.run("delete", "cluster", "real", "--yes")
	if diff := cmp.Diff(before, l.left()); diff != "" {
		t.Errorf("the host afterwards (-want +got):\n%s", diff)
	}
}
