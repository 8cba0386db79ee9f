// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/access/planeproc"
)

// startTimeout is how long a plane may take to start on a busy machine.
const startTimeout = 2 * time.Minute

// Run checks a provider as a test, with one subtest for each result:
//
//	provider.Run(t, provider.Config{InfraCluster: &provider.Subject{Example: example}, Start: start})
//
// Without Config.Mgmt it starts a plane for the test, on a free port and with its own
// data directory, that runs core and kubeadm; Config.Start installs and starts the
// provider on it.
func Run[T conformance.TB[T]](t T, c Config) {
	t.Helper()
	r, err := run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	conformance.Subtests(t, r)
}

func run(ctx context.Context, c Config) (r conformance.Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Mgmt == nil && c.NeedsManagement() {
		p, cfg, err := startPlane(ctx, c.Program)
		if err != nil {
			return r, fmt.Errorf("start a management plane: %w", err)
		}
		defer p.stop()
		c.Mgmt = cfg
	}
	if c.Start != nil {
		if err := c.Start(ctx, c.Mgmt); err != nil {
			return r, fmt.Errorf("start the provider: %w", err)
		}
	}
	return Examine(ctx, c), nil
}

// plane is a management plane for one test.
type plane struct {
	process *planeproc.Process
	dir     string
}

func startPlane(ctx context.Context, program string) (*plane, *rest.Config, error) {
	program, err := exec.LookPath(cmp.Or(program, os.Getenv("CAPSTAN_TEST_BINARY"), "capstan"))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: put capstan on the PATH, or name it in Config.Program or CAPSTAN_TEST_BINARY", err)
	}
	p := &plane{}
	if p.dir, err = os.MkdirTemp("", "capstan-conformance-"); err != nil {
		return nil, nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p.process, err = planeproc.Up(starting, program, "--data-dir="+p.dir, "--listen=127.0.0.1:0", "--providers=core,kubeadm")
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "kubeconfig"))
	if err != nil {
		p.stop()
	}
	return p, cfg, err
}

// stop ends the plane. Its failures say nothing about the provider.
func (p *plane) stop() {
	if err := p.process.Stop(); err != nil {
		p.process.Kill()
	}
	_ = os.RemoveAll(p.dir)
}
