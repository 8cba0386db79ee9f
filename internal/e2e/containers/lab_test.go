// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	// creating is how long the creation of a cluster may take, on a host that has
	// other work.
	creating = 10 * time.Minute
	// changing is for one change of a cluster: a machine that reboots, or its
	// replacement, after the 40 seconds that Kubernetes waits for a node.
	changing = 5 * time.Minute
)

// lab is a host with a plane.
type lab struct {
	t                 *testing.T // the whole test; the plane ends with it
	program           string
	plane, containers string
	version, dns      string // of Kubernetes, and of CoreDNS in its node image
	kubectl           string // that of the node image
	process           *testenv.Process
	flags             []string
}

// newLab skips where such machines cannot run. Flags are those of the plane.
func newLab(t *testing.T, flags ...string) *lab {
	t.Helper()
	images, version := os.Getenv("CAPSTAN_E2E_IMAGES"), os.Getenv("CAPSTAN_E2E_VERSION")
	if images == "" || version == "" {
		t.Skip("CAPSTAN_E2E_IMAGES names no folder of node images, and CAPSTAN_E2E_VERSION no version of them: make test-containers sets both")
	}
	if os.Geteuid() != 0 {
		t.Skip("container machines need root")
	}
	testenv.OwnPlanes(t, 1)
	store, err := nodeimages.Open(t.Context(), images)
	if err != nil {
		t.Fatal(err)
	}
	image, err := store.Find(version)
	if err != nil {
		t.Fatal(err)
	}
	// Hard links do not leave a file system.
	dir, err := os.MkdirTemp(filepath.Dir(images), "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{
		t: t, program: testenv.Binary(t), plane: filepath.Join(dir, "plane"), containers: filepath.Join(dir, "containers"),
		version: version, dns: image.Parts["coredns"], kubectl: filepath.Join(image.Root, "usr/local/bin/kubectl"), flags: flags,
	}
	if err := errors.Join(os.Mkdir(l.containers, 0o700), os.Symlink(images, filepath.Join(l.containers, "images"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.clear(dir) })
	l.up(t)
	return l
}

// clear removes what a test has left that failed, or was ended.
func (l *lab) clear(dir string) {
	if l.process != nil {
		l.process.Kill()
	}
	launcher, err := containers.Open(filepath.Join(l.containers, "containers"), containers.Options{})
	if err != nil {
		l.t.Errorf("what is left in %s is for others to remove: %v", dir, err)
		return
	}
	all, err := launcher.List()
	for _, c := range all {
		err = errors.Join(err, launcher.Remove(context.Background(), c.Spec.Name))
	}
	nets, err2 := launcher.Networks()
	err = errors.Join(err, err2)
	for _, n := range nets {
		err = errors.Join(err, launcher.RemoveNetwork(context.Background(), n.Name))
	}
	if err := errors.Join(err, launcher.Sweep(context.Background()), launcher.Close()); err != nil {
		l.t.Errorf("what is left in %s is for others to remove: %v", dir, err)
		return
	}
	_ = os.RemoveAll(dir)
}

func (l *lab) up(t *testing.T) {
	t.Helper()
	flags := []string{"--data-dir=" + l.plane, "--simulated-dir=" + l.plane + "/simulated", "--containers-dir=" + l.containers, "--listen=127.0.0.1:0"}
	p, err := testenv.Up(l.t, append(flags, l.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	l.process = p
}

// tryCommand runs a program for a bounded time, with a text as its input.
func tryCommand(ctx context.Context, input, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, creating)
	defer cancel()
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &talk
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, talk.String(), out.String())
	}
	return out.String(), nil
}

// run runs a command against the plane, and returns what it printed.
func (l *lab) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryCommand(t.Context(), "", l.program, append(args, "--data-dir", l.plane)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mgmt runs kubectl against the plane.
func (l *lab) mgmt(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := tryCommand(t.Context(), input, l.kubectl, append(args, "--kubeconfig", filepath.Join(l.plane, "kubeconfig"))...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shape defines how a cluster is created.
type shape struct {
	flavor, version       string
	controlPlane, workers int
}

// cluster is a workload cluster.
type cluster struct {
	*lab
	name, kubeconfig string
	machines         int
}

// create creates a cluster, and returns when its nodes are ready.
func (l *lab) create(t *testing.T, name string, s shape) *cluster {
	t.Helper()
	l.run(t, "create", "cluster", name, "--flavor", s.flavor, "--kubernetes-version", s.version, "--timeout", creating.String(),
		"--control-plane-machine-count", strconv.Itoa(s.controlPlane), "--worker-machine-count", strconv.Itoa(s.workers))
	c := &cluster{lab: l, name: name, kubeconfig: filepath.Join(l.plane, name+".kubeconfig"), machines: s.controlPlane + s.workers}
	l.run(t, "get", "kubeconfig", name, "--output", c.kubeconfig)
	c.ready(t, s.version)
	return c
}

// try runs kubectl against the workload cluster.
func (c *cluster) try(ctx context.Context, input string, args ...string) (string, error) {
	return tryCommand(ctx, input, c.lab.kubectl, append([]string{"--kubeconfig", c.kubeconfig, "--request-timeout", "20s"}, args...)...)
}

func (c *cluster) do(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := c.try(t.Context(), input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nodes are the lines of the nodes of a version that are ready, by name.
func (c *cluster) nodes(ctx context.Context, version string) (map[string]string, error) {
	out, err := c.try(ctx, "", "get", "nodes", "--no-headers")
	all := map[string]string{}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == "Ready" && f[4] == version {
			all[f[0]] = line
		}
	}
	if err == nil && len(all) != c.machines {
		err = fmt.Errorf("%d nodes of version %s are ready, want %d:\n%s", len(all), version, c.machines, out)
	}
	return all, err
}

// ready waits until all nodes are, and no other is there.
func (c *cluster) ready(t *testing.T, version string) {
	t.Helper()
	testenv.Within(t, creating, func() error {
		out, err := c.try(t.Context(), "", "get", "nodes", "--no-headers")
		if err == nil && strings.Count(out, "\n") != c.machines {
			return fmt.Errorf("nodes, want %d:\n%s", c.machines, out)
		}
		_, err = c.nodes(t.Context(), version)
		return err
	})
}

// oneOf is the name of a node that has a label, or has not with "!" before it; the
// first in the order of names.
func (c *cluster) oneOf(t *testing.T, selector string) string {
	t.Helper()
	names := strings.Fields(c.do(t, "", "get", "nodes", "--selector", selector, "--output", "jsonpath={.items[*].metadata.name}"))
	slices.Sort(names)
	if len(names) == 0 {
		t.Fatalf("no node is %s", selector)
	}
	return names[0]
}

const (
	controlPlanes = "node-role.kubernetes.io/control-plane"
	workers       = "!node-role.kubernetes.io/control-plane"
)

// supervisors are the processes that keep containers, by the names of these.
func (l *lab) supervisors(t *testing.T) map[string]int {
	t.Helper()
	dir := l.containers + "/containers/containers/"
	all := map[string]int{}
	for pid := range processes(t) {
		if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil && strings.HasPrefix(cwd, dir) {
			all[strings.TrimPrefix(cwd, dir)] = pid
		}
	}
	return all
}

// processes yields those of the host.
func processes(t *testing.T) func(func(int) bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(int) bool) {
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// first is the first process of a machine; 0 if it does not run.
func (l *lab) first(t *testing.T, machine string) int {
	t.Helper()
	for container, supervisor := range l.supervisors(t) {
		if at := strings.LastIndexByte(container, '-'); at < 0 || container[:at] != machine {
			continue
		}
		for pid := range processes(t) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err == nil && strings.Contains(string(text), fmt.Sprintf("\nPPid:\t%d\n", supervisor)) {
				return pid
			}
		}
	}
	return 0
}

// inside runs a command in a machine.
func (l *lab) inside(t *testing.T, machine string, args ...string) string {
	t.Helper()
	pid := l.first(t, machine)
	if pid == 0 {
		t.Fatalf("machine %s does not run", machine)
	}
	out, err := tryCommand(t.Context(), "", "nsenter", append([]string{"--target", strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
