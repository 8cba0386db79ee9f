// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

// checked is a backend that checks the host before it runs the first machine: a
// check takes a tenth of a second, and most planes run no machine. A host that
// lacks something is checked again each time, so that it can be repaired meanwhile.
//
// It creates nothing in namespaces that the administrator did not name: the root
// user of a machine can attack the kernel of this host. Existing machines continue
// to run.
type checked struct {
	machines
	check      func(context.Context) []containers.Problem
	namespaces []string // "*" means all; "none" alone, none

	mu  sync.Mutex // guards fit
	fit bool       // the check has succeeded
}

// machines runs and updates container machines.
type machines interface {
	localinfra.Backend
	localinfra.Updater
}

var _ machines = (*checked)(nil)

// allowed returns an error if nothing can be created in a namespace.
func (c *checked) allowed(namespace string) error {
	named := c.namespaces
	if slices.Equal(named, []string{"none"}) {
		named = nil
	}
	if slices.Contains(named, namespace) || slices.Contains(named, "*") {
		return nil
	}
	return fmt.Errorf("%w: to allow them in %s, start the plane with --container-namespaces=%s", localinfra.ErrNotAllowed, namespace, strings.Join(append(slices.Clone(named), namespace), ","))
}

// ready returns an error as long as the host lacks what machines need.
func (c *checked) ready(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fit {
		return nil
	}
	if err := lacks(c.check(ctx)); err != nil {
		return err
	}
	c.fit = true
	return nil
}

// lacks returns an error with the problems that prevent container machines; nil if
// there are none.
func lacks(problems []containers.Problem) error {
	var missing []string
	for _, p := range problems {
		if !p.Warning {
			missing = append(missing, p.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("this host cannot run container machines: %s; \"capstan doctor\" checks again", strings.Join(missing, "; "))
}

// EnsureCluster implements localinfra.Backend.
func (c *checked) EnsureCluster(ctx context.Context, want localinfra.Cluster) (clusterv1.APIEndpoint, error) {
	if err := c.allowed(want.Namespace); err != nil && !want.Made {
		return clusterv1.APIEndpoint{}, err
	}
	if err := c.ready(ctx); err != nil {
		return clusterv1.APIEndpoint{}, err
	}
	return c.machines.EnsureCluster(ctx, want)
}

// ResumeCluster implements localinfra.Backend.
func (c *checked) ResumeCluster(ctx context.Context, want localinfra.Cluster) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	return c.machines.ResumeCluster(ctx, want)
}

// EnsureMachine implements localinfra.Backend.
func (c *checked) EnsureMachine(ctx context.Context, want localinfra.Machine) (localinfra.MachineStatus, error) {
	if err := c.allowed(want.Namespace); err != nil && !want.Provisioned {
		return localinfra.MachineStatus{}, err
	}
	if err := c.ready(ctx); err != nil {
		return localinfra.MachineStatus{}, err
	}
	return c.machines.EnsureMachine(ctx, want)
}
