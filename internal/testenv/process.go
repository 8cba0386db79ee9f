// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/process"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// Binary returns the path of the capstan program, built from this tree.
func Binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program, which -short leaves out")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build links the program where and how the Makefile does, so that it is
// linked once for both. Test binaries of several packages take turns.
var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CAPSTAN_TEST_BINARY"); path != "" {
		return path, nil
	}
	return link("capstan", "./cmd/capstan")
})

// link builds a program of a package into bin.
func link(name, pkg string) (string, error) {
	dir, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bin", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	turn, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = turn.Close() }()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("take turns at building: %w", err)
	}
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// ServiceEndpoints is the annotation by which a Service of a Foreign API server leads
// to processes of this host: for each port NAME=HOST:PORT,HOST:PORT, with semicolons
// between.
const ServiceEndpoints = "capstan.dev/test-endpoints"

// Foreign starts an API server that knows nothing of Capstan, until the test ends. It
// asks webhooks of Services whose endpoints are annotated.
func Foreign(t testing.TB) *Env {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server, which -short leaves out")
	}
	binary, err := link("capstan-test-apiserver", "./internal/testenv/foreign")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	dir := t.TempDir()
	p, err := process.Up(ctx, binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	env, err := Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// Manager starts capstan-manager with nothing but the given environment, and does not
// wait until it is ready. What it logs goes to log. The test kills it at its end if it
// has not ended it.
func Manager(t testing.TB, env []string, log io.Writer, flags ...string) *Process {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the program, which -short leaves out")
	}
	binary, err := link("capstan-manager", "./cmd/capstan-manager")
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Run(binary, env, log, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

// ownMachines keeps the simulated machines of a plane in its data directory, unless
// a flag says otherwise: those of a user are not for tests.
func ownMachines(flags []string) (more []string) {
	for _, f := range flags {
		switch name, value, _ := strings.Cut(f, "="); name {
		case "--data-dir":
			more = append(more, "--simulated-dir="+datadir.Dir(value).Simulated(), "--containers-dir="+value+"/containers")
		case "--simulated-dir":
			return nil
		}
	}
	return more
}

// Process is "capstan up" in the foreground.
type Process = process.Process

// Up starts "capstan up" with the flags and waits until it is ready. The test
// kills it at its end if it has not stopped it.
func Up(t testing.TB, flags ...string) (*Process, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	p, err := process.Up(ctx, Binary(t), append(ownMachines(flags), flags...)...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.Kill() })
	return p, nil
}
