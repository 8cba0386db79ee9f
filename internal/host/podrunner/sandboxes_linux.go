// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/capstan-dev/capstan/internal/host/podagent"
	"github.com/capstan-dev/capstan/internal/host/pods"
)

// openSandboxes opens the sandboxes in a folder.
func openSandboxes(dir string, n network) (sandboxes, error) {
	host, err := pods.Open(dir, pods.Options{Network: n})
	return Sandboxes{host}, err
}

// Sandboxes are the sandboxes of a host.
type Sandboxes struct{ *pods.Host }

// Start implements podagent.Sandboxes.
func (s Sandboxes) Start(ctx context.Context, spec podagent.Sandbox) (podagent.Running, error) {
	started, err := s.Host.Start(ctx, pods.Spec{
		Name: spec.Name, Hostname: spec.Hostname, Address: spec.Address,
		Memory: spec.Limits.Memory, MilliCPU: spec.Limits.MilliCPU, Resolv: spec.Resolv, Hosts: spec.Hosts, Refused: spec.Refused,
	})
	if err != nil {
		return nil, err
	}
	return running{started}, nil
}

type running struct{ *pods.Sandbox }

// Run implements podagent.Running.
func (r running) Run(ctx context.Context, c podagent.Container) (podagent.Process, error) {
	described := pods.Container{
		Name: c.Name, Root: c.Root, Args: c.Args, Env: c.Env, Dir: c.Dir,
		User: c.User.UID, Group: c.User.GID, Groups: c.User.Groups, ReadOnlyRoot: c.ReadOnlyRoot,
		Memory: c.Limits.Memory, MilliCPU: c.Limits.MilliCPU, Scratch: c.Scratch, TTY: c.TTY, Stdin: c.Stdin, StdinOnce: c.StdinOnce,
		StopSignal: syscall.Signal(c.StopSignal), MessagePath: c.MessagePath,
	}
	for _, m := range c.Mounts {
		described.Mounts = append(described.Mounts, pods.Mount{
			Source: m.Source, SubPath: m.SubPath, Target: m.Target, ReadOnly: m.ReadOnly, Tmpfs: m.Memory, Limit: m.Limit,
		})
	}
	p, err := r.Sandbox.Run(ctx, described)
	if err != nil {
		return nil, err
	}
	return process{p}, nil
}

type process struct{ *pods.Process }

// Stdout implements podagent.Process.
func (p process) Stdout() io.Reader { return p.Process.Stdout() }

// Stderr implements podagent.Process.
func (p process) Stderr() io.Reader { return p.Process.Stderr() }

// Signal implements podagent.Process.
func (p process) Signal(s os.Signal) error {
	number, ok := s.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v is not one of this system", s)
	}
	return p.Process.Signal(number)
}

// Wait implements podagent.Process.
func (p process) Wait() podagent.Exit {
	e := p.Process.Wait()
	return podagent.Exit{Code: e.Code, Signal: e.Signal, OOMKilled: e.OOMKilled, Message: e.Message, LastMessage: e.LastMessage}
}
