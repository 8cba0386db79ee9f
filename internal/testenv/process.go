// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/access/planeproc"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// ServiceEndpoints is the annotation by which a Service of a Foreign API server leads
// to processes of this host: for each port NAME=HOST:PORT,HOST:PORT, with semicolons
// between.
const ServiceEndpoints = "capstan.dev/test-endpoints"

// Foreign starts an API server without Capstan, until the test ends. It calls
// webhooks of Services whose endpoints are annotated.
func Foreign(t testing.TB) *Env {
	t.Helper()
	startsPlanes(t)
	binary := Program(t, "test/foreign")
	ctx, cancel := context.WithTimeout(t.Context(), Limit(startTimeout))
	defer cancel()
	dir := t.TempDir()
	p, err := planeproc.Up(ctx, binary, dir)
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

// Manager starts capstan-manager with only the given environment, and does not wait
// until it is ready. Its logs go to log. The test kills it at its end if it has not
// ended it.
func Manager(t testing.TB, env []string, log io.Writer, flags ...string) *Process {
	t.Helper()
	p, err := planeproc.Run(Program(t, "capstan-manager"), env, log, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

// ownMachines keeps the simulated machines of a plane in its data directory, unless
// a flag sets another: those of a user are not for tests.
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
type Process = planeproc.Process

// Up starts "capstan up" with the flags and waits until it is ready. The test
// kills it at its end if it has not stopped it.
func Up(t testing.TB, flags ...string) (*Process, error) {
	t.Helper()
	startsPlanes(t)
	ctx, cancel := context.WithTimeout(t.Context(), Limit(startTimeout))
	defer cancel()
	p, err := planeproc.Up(ctx, Binary(t), append(ownMachines(flags), flags...)...)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { p.Kill() })
	for _, f := range flags {
		if dir, ok := strings.CutPrefix(f, "--data-dir="); ok {
			reportFailure(t, dir, "")
		}
	}
	t.Cleanup(func() {
		if how, exited := p.Exit(); exited && t.Failed() {
			t.Logf("plane %d exited before the test ended, %s", p.PID(), how)
		}
	})
	return p, nil
}
